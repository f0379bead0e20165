package training_test

import (
	_ "embed"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/fit"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/workload"
)

//go:embed testdata/saved.tsv
var saved string

// ofFamily is a model of testdata/eager.
func ofFamily(t *testing.T, name string) *model.Model {
	t.Helper()
	m, err := load.Open(filepath.Join("../../testdata/eager", name))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// What transformers makes of a state dict before it writes it, as it was recorded.
func TestSaveReverts(t *testing.T) {
	for _, line := range strings.Split(strings.TrimSpace(saved), "\n")[1:] {
		name, bytes, _ := strings.Cut(line, "\t")
		want, err := strconv.ParseInt(bytes, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		w := work(t, "bf16-params", "adamw", "fused")
		w.Engine, w.Training.Save = workload.Engine{Name: "transformers", Version: "5.24.0"}, &workload.Save{}
		if strings.HasPrefix(name, "dinov2") {
			w.Inputs[0].Dimensions = map[workload.Dimension]int64{workload.MicroBatch: 2}
		}
		a := accountOf(t, ofFamily(t, name), w)
		if got := held(a, phase(t, a, account.PhaseSave, 0), account.TermSavedCopy); !exactly(got, want) {
			t.Errorf("%s: %v, want %d bytes", name, got, want)
		}
	}
}

// exactly reports a figure of so many bytes; a term of none is not there.
func exactly(f account.Figure, bytes int64) bool {
	high, known := f.High()
	return bytes == 0 && f.Low() == 0 && high == 0 || known && f.Low() == bytes && high == bytes
}

// Releases before 5 make nothing, adapters are saved by PEFT, and of a loop that nobody
// named, or of a release that nobody read, it is a bound. Of a full copy in main memory
// it is there.
func TestSaveRevertsWhere(t *testing.T) {
	const all = 6_291_456
	newest := workload.Engine{Name: "transformers"}
	for _, c := range []struct {
		name      string
		engine    workload.Engine
		save      workload.Save
		low, high int64
	}{
		{"newest", newest, workload.Save{}, all, all},
		{"before", workload.Engine{Name: "transformers", Version: "4.57"}, workload.Save{}, 0, 0},
		{"not read", workload.Engine{Name: "transformers", Version: "5.0"}, workload.Save{}, 0, all},
		{"a loop", workload.Engine{}, workload.Save{}, 0, all},
		{"parts", newest, workload.Save{On: workload.InParts}, 0, 0},
	} {
		w := work(t, "bf16-params", "adamw", "fused")
		w.Engine, w.Training.Save = c.engine, &c.save
		a := accountOf(t, ofFamily(t, "mixtral"), w)
		got := held(a, phase(t, a, account.PhaseSave, 0), account.TermSavedCopy)
		if high, _ := got.High(); got.Low() != c.low || high != c.high {
			t.Errorf("%s: %v, want %d to %d", c.name, got, c.low, c.high)
		}
	}
	w := work(t, "bf16-params", "adamw", "fused")
	w.Engine, w.Training.Save = newest, &workload.Save{Copy: dtype.BF16, On: workload.OnEveryRank, Offload: true}
	a := accountOf(t, ofFamily(t, "mixtral"), w)
	p := phase(t, a, account.PhaseSave, 0)
	whole, _ := ofFamily(t, "mixtral").WithFormat("bf16")
	weights, _ := whole.WeightsBytes().High()
	if got, _ := fit.HostNeed([]account.Account{a}, p.ID); got.Low() != weights+all {
		t.Errorf("%d bytes in main memory, want %d", got.Low(), weights+all)
	}
}
