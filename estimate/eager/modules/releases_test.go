package modules_test

import (
	"strings"
	"testing"

	"floodmark/estimate/eager/modules"
)

// A program is said to be of a release where that release was recorded, or lies
// between recorded ones.
func TestRecordedReleases(t *testing.T) {
	for _, c := range []struct {
		family, version string
		want            bool
	}{
		{"llama", "", true},
		{"llama", "5.1", true},
		{"llama", "4.57.3", true},
		{"llama", "4.44.2", true},
		{"llama", "4.40", true},
		{"llama", "4.35", false},
		{"bert", "4.16", true},
		{"bert", "4.48", false},
		{"qwen3_next", "4.57", false},
	} {
		release, err := modules.ParseRelease(c.version)
		if err != nil {
			t.Fatal(err)
		}
		if got := modules.Recorded(modelOf(t, c.family), release); got != c.want {
			t.Errorf("%s of transformers %q: %v", c.family, c.version, got)
		}
	}
}

// Sabotage: the program of another release misses what a release was recorded to
// do, wherever the table says that the two differ.
func TestAnotherReleaseMisses(t *testing.T) {
	for family, other := range map[string]string{
		"transformers-llama-4.44": "4.57",
		"transformers-llama-4.48": "4.44",
		"transformers-llama-4.51": "4.48",
		"transformers-llama-4.57": "4.53",
	} {
		missed := 0
		for _, r := range readRecordings(t, family) {
			own := r.releaseOf("transformers")
			r.release = strings.Replace(r.release, own, other, 1)
			got, _ := simulate(t, r)
			if s := compare(t, r, got); s.worst() > 0.01 {
				missed++
			}
		}
		if missed == 0 {
			t.Errorf("the program of %s holds for %s too", other, family)
		}
	}
}
