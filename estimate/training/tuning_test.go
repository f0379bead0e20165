package training_test

import (
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/checklist"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/workload"
)

// A merge makes the product of one module after another, of the module's own
// size, however the base is stored: q_proj of Llama-3.2-1B is 2048 × 2048.
func TestMergeIsOfEachModule(t *testing.T) {
	checklist.Covers(t, 212)
	m := llama(t)
	const product = 4 * 2048 * 2048
	for _, c := range []struct {
		format string
		want   int64
	}{{"bf16", 2 * product}, {"nf4", product + product/2 + product}, {"nf4-double", product + product/2 + product}, {"int8", product + product/2 + product}} {
		base, err := m.WithFormat(c.format)
		if err != nil {
			t.Fatal(err)
		}
		w := work(t, "bf16-params", "adamw", "fused")
		w.Phases = []account.PhaseID{account.PhaseMerge}
		tune(t, base, &w, workload.Tuning{Rank: 8, Targets: []string{"q_proj"}})
		a := accountOf(t, base, w)
		const loss = 4 // which the loop still has, where operators are run
		if got := bytesOf(a, phase(t, a, account.PhaseMerge, 0), account.TermTemporaries); got != c.want && got != c.want+loss {
			t.Errorf("%s: merging takes %d bytes, want %d", c.format, got, c.want)
		}
	}
}

// An adapter that has no program makes activations unknown, with the reason, and
// so does a layer in which something is missing: to the end of backward.
func TestTuningWithoutProgram(t *testing.T) {
	checklist.Covers(t, 34)
	m := llama(t)
	packed, err := m.WithFormat("nf4")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		base   *model.Model
		tuning workload.Tuning
		want   string
	}{
		{m, workload.Tuning{Rank: 8, Targets: []string{"embed_tokens"}}, "an adapter on an embedding"},
		{m, workload.Tuning{Rank: 8, Targets: []string{"lm_head"}}, "an adapter on a tied weight"},
		{packed, workload.Tuning{Kind: "dora", Rank: 8, Targets: []string{"q_proj"}}, "DoRA beside packed weights"},
		{packed, workload.Tuning{Rank: 8, Targets: []string{"q_proj"}, Saved: []string{"v_proj"}}, "a trained copy of a packed weight"},
		{postNormOfLayerNorms(m), workload.Tuning{Rank: 8, Targets: []string{"q_proj"}}, "joined as post_norm"},
	} {
		w := work(t, "bf16-params", "adamw", "fused")
		tune(t, c.base, &w, c.tuning)
		a := accountOf(t, c.base, w)
		for _, id := range []account.PhaseID{account.PhaseForward, account.PhaseLoss, account.PhaseBackward} {
			f := held(a, phase(t, a, id, 2), account.TermActivations)
			if f.Known() || !strings.Contains(f.Reason(), c.want) {
				t.Errorf("%s: activations in %s: known %v, %q", c.want, id, f.Known(), f.Reason())
			}
		}
	}
}

// postNormOfLayerNorms is layers joined as BERT's are, which no decoder here is.
func postNormOfLayerNorms(m *model.Model) *model.Model {
	own := *m
	own.Stacks = append([]model.Stack(nil), m.Stacks...)
	own.Stacks[0].Layers = append([]model.Layer(nil), m.Stacks[0].Layers...)
	for i := range own.Stacks[0].Layers {
		l := &own.Stacks[0].Layers[i]
		l.Residual = model.PostNorm
		l.Norms = append([]model.Norm(nil), l.Norms...)
		for k := range l.Norms {
			l.Norms[k].Kind, l.Norms[k].Bias = model.LayerNorm, true
		}
	}
	return &own
}

// GPT-2 stores its linear layers [in, out]. An adapter's matrices and a packed
// weight are those of a layer [out, in], so all of it has a program.
func TestTransposedLayersAreTuned(t *testing.T) {
	checklist.Covers(t, 210)
	m, err := load.Open("../../testdata/eager/gpt2")
	if err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"fp32", "nf4-double"} {
		base, err := m.WithFormat(format)
		if err != nil {
			t.Fatal(err)
		}
		w := work(t, "fp32-params", "adamw", "fused")
		tune(t, base, &w, workload.Tuning{Rank: 8, Targets: []string{"all-linear"}})
		a := accountOf(t, base, w)
		if f := held(a, phase(t, a, account.PhaseForward, 2), account.TermActivations); !f.Known() || f.Low() == 0 {
			t.Errorf("%s: activations are %+v", format, f)
		}
	}
}

// What the peak of the process is made of sums to it, also where the allocator
// reserves more after the peak of what is allocated: at one moment each.
func TestTermsSumToTheProcess(t *testing.T) {
	m := llama(t)
	w := work(t, "fp32-params", "adamw", "")
	w.Inputs[0].Dimensions[workload.Context], w.Inputs[0].Dimensions[workload.MicroBatch], w.Training.Accumulation = 1000, 1, 2
	a := accountOf(t, m, w)
	apart := 0
	for _, p := range a.Phases {
		var low int64
		for _, s := range p.AtHighest() {
			low += s.Bytes.Low()
		}
		if want := p.Peak(account.Process).Figure.Low(); low != want {
			t.Errorf("%s, step %d: terms sum to %d, the process is %d", p.ID, p.Step, low, want)
		}
		if p.AtProcess != nil {
			apart++
		}
	}
	if apart == 0 {
		t.Error("the process stands highest where most is allocated in every phase: nothing was tested")
	}
}
