package training_test

import (
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/model/load"
	"floodmark/workload"
)

// A classifier of pictures trains on as many as the workload says, of the size that
// its positions are for.
func TestPicturesAreTrainedOn(t *testing.T) {
	m, err := load.Open("../../testdata/eager/dinov2")
	if err != nil {
		t.Fatal(err)
	}
	peak := func(resolution, batch int64) account.Figure {
		w := work(t, "fp32-params", "adamw", "fused")
		w.Inputs[0].Dimensions = map[workload.Dimension]int64{workload.MicroBatch: batch}
		if resolution > 0 {
			w.Inputs[0].Dimensions[workload.Resolution] = resolution
		}
		a := accountOf(t, m, w)
		return a.Phases[2].Peak(account.Allocated).Figure
	}
	two, known := peak(224, 2).Need()
	four, also := peak(224, 4).Need()
	if !known || !also || four <= two {
		t.Errorf("2 pictures take %d bytes and 4 take %d", two, four)
	}
	for _, c := range []struct {
		resolution int64
		want       string
	}{{0, "how much is processed at once (resolution, micro_batch)"}, {518, "positions are for pictures of 224 pixels"}} {
		if f := peak(c.resolution, 2); f.Known() || !strings.Contains(f.Reason(), c.want) {
			t.Errorf("pictures of %d pixels: %v because %q, want %q", c.resolution, f.Known(), f.Reason(), c.want)
		}
	}
}
