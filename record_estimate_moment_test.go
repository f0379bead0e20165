package floodmark

import (
	"context"
	"slices"
	"testing"

	"floodmark/record"
	"floodmark/workload"
)

// The bar of a rank, its table of terms and the verdict speak of one moment, whatever
// is unknown of the others: the term that the verdict names has a row.
func TestVerdictAndTermsAreOfOneMoment(t *testing.T) {
	const plain = "bf16-params"
	for name, c := range map[string]struct {
		card    string
		settled func(*workload.Workload)
	}{
		"all is known":            {"h100-sxm5-80gb", func(*workload.Workload) {}},
		"it does not fit":         {"rtx-4090", func(w *workload.Workload) { w.Inputs[0].Dimensions[workload.Context] = 8192 }},
		"no length":               {"rtx-4090", func(w *workload.Workload) { delete(w.Inputs[0].Dimensions, workload.Context) }},
		"no batch":                {"rtx-4090", func(w *workload.Workload) { delete(w.Inputs[0].Dimensions, workload.MicroBatch) }},
		"no length, and it saves": {"l4", func(w *workload.Workload) { w.Inputs = nil; w.Operation = workload.FineTuning }},
		"a generation":            {"l4", func(w *workload.Workload) { w.Operation, w.Training = workload.Generation, nil }},
		"the cache of buckets": {"rtx-4090", func(w *workload.Workload) {
			w.Mesh.DataParallel, w.Training.Sharding = 8, &workload.Sharding{Kind: workload.FSDP2}
			w.Inputs[0].Dimensions[workload.Context] = 4096
		}},
	} {
		r := billion(t, plain, "adamw", "foreach", c.card)
		c.settled(&r.Workload)
		p, err := Estimate(context.Background(), r)
		if err != nil {
			t.Fatal(name, err)
		}
		e := p.Record(record.Tool{}).(*record.Estimate)
		v, peak := e.Verdict, e.Ranks[0].Peak
		if *v.Phase != peak.Phase || v.Step != peak.Step {
			t.Errorf("%s: %s in %s, step %d, and terms of %s, step %d", name, v.Value, *v.Phase, v.Step, peak.Phase, peak.Step)
		}
		if !slices.ContainsFunc(peak.Composition, func(s record.Share) bool { return s.Term == *v.Term }) {
			t.Errorf("%s: %s names %s, which is no row", name, v.Value, *v.Term)
		}
		for _, phase := range e.Ranks[0].Phases { // nothing fits of which something is unknown
			open := slices.ContainsFunc(phase.Composition, func(s record.Share) bool { return s.Bytes == nil && s.HighBytes == nil })
			if open && phase.Verdict.Value == "fits" {
				t.Errorf("%s: %s, step %d fits, and something in it is unknown", name, phase.Name, phase.Step)
			}
		}
	}
}
