package floodmark

import (
	"context"
	"strings"
	"testing"

	"floodmark/workload"
)

// Work of which there is none, and images that a model cannot see, contradict the rest.
// What is asked of a text in words, 0 images among it, does not.
func TestContradictoryInputs(t *testing.T) {
	for _, c := range []struct {
		name, want string
		dimensions map[workload.Dimension]int64
	}{
		{"no sequences", "has 0 in sequences, so that there is no work", map[workload.Dimension]int64{workload.Sequences: 0}},
		{"images", "gives images, and", map[workload.Dimension]int64{workload.Images: 1, workload.Resolution: 448}},
		{"a resolution", "gives resolution, and", map[workload.Dimension]int64{workload.Resolution: 448}},
		{"no images", "", map[workload.Dimension]int64{workload.Images: 0, workload.Resolution: 448}},
		{"nothing generated", "", map[workload.Dimension]int64{workload.Generated: 0}},
	} {
		r := generation(t, "")
		for d, n := range c.dimensions {
			r.Workload.Inputs[0].Dimensions[d] = n
		}
		_, err := Estimate(context.Background(), r)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
