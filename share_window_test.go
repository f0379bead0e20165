package floodmark

import (
	"context"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/workload"
)

// served is a model as vLLM 0.19 would serve it on a card.
func served(t *testing.T, name, card string, change func(*workload.Workload)) Request {
	t.Helper()
	m, err := LoadModel("estimate/vllm/testdata/models/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	c, err := FindCard(card)
	if err != nil {
		t.Fatal(err)
	}
	w := workload.Workload{Operation: workload.Generation, Engine: workload.Engine{Name: "vllm", Version: "0.19.0"}, Mesh: workload.Single(),
		Serving: &workload.Serving{MaxLength: 8192, Budget: &workload.Budget{}}}
	change(&w)
	return Request{Model: m, Workload: w, Card: &c, Platform: "linux"}
}

// The window of shares, which way the knob goes from where it stands, and what
// reopens a window that is shut.
func TestUtilizationWindow(t *testing.T) {
	for _, c := range []struct {
		name, model, card string
		change            func(*workload.Workload)
		free              int64
		direction, says   string
	}{
		{"inside", "meta-llama__Llama-3.1-8B-Instruct", "h100-sxm5-80gb", func(w *workload.Workload) {}, 0, "keep", "segments"},
		{"graphs have no room: lower it", "openai__gpt-oss-20b", "h100-sxm5-80gb", func(w *workload.Workload) {
			w.Mesh.TensorParallel, w.Serving.Budget.Utilization = 2, 0.95
		}, 0, "lower", "beside its share"},
		{"no block has room: raise it", "meta-llama__Llama-3.1-8B-Instruct", "h100-sxm5-80gb", func(w *workload.Workload) {
			w.Serving.Budget.Utilization = 0.2
		}, 0, "raise", "weights"},
		{"others hold the card: lower it", "Qwen__Qwen3-8B", "rtx-3090", func(w *workload.Workload) {
			w.Serving.Budget.Utilization = 0.95
			w.Serving.MaxLength = 4096
		}, 22060, "lower", ""},
		{"no share works", "meta-llama__Llama-3.1-8B-Instruct", "rtx-3090", func(w *workload.Workload) { w.Serving.MaxLength = 131072 }, 0, "none", ""},
	} {
		r := served(t, c.model, c.card, c.change)
		if c.free > 0 {
			r.Free = map[int]account.Figure{0: account.Exact(c.free<<20, account.Provenance{Scope: account.Device})}
		}
		s, err := Solve(context.Background(), SolveRequest{Request: r, Field: Utilization})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		w := s.Solution.Window
		if w.Direction != c.direction {
			t.Errorf("%s: %s, want %s: %+v", c.name, w.Direction, c.direction, *w)
		}
		if c.direction == "none" && (len(w.Changes) == 0 || !strings.Contains(w.Changes[0].Change, "--")) {
			t.Errorf("%s: nothing reopens it: %+v", c.name, *w)
		}
	}
	if _, err := Solve(context.Background(), SolveRequest{Request: generation(t, "eager"), Field: Utilization}); err == nil {
		t.Error("plain generation takes no share of its card")
	}
}

// A share that the window admits starts, and one outside it does not.
func TestWindowAgreesWithVerdict(t *testing.T) {
	base := served(t, "microsoft__phi-4", "h100-sxm5-80gb", func(*workload.Workload) {})
	s, err := Solve(context.Background(), SolveRequest{Request: base, Field: Utilization})
	if err != nil {
		t.Fatal(err)
	}
	w := s.Solution.Window
	for _, c := range []struct {
		share float64
		want  string
	}{{w.Low + 0.001, "fits"}, {w.High - 0.001, "fits"}, {w.PossibleLow - 0.02, "does_not_fit"}, {w.PossibleHigh + 0.01, "does_not_fit"}} {
		base.Workload.Serving.Budget.Utilization = c.share
		p, err := Estimate(context.Background(), base)
		if err != nil {
			t.Fatal(err)
		}
		if string(p.Starts.Value) != c.want {
			t.Errorf("at %.3f it is said %s, want %s (%v)", c.share, p.Starts.Value, c.want, p.Starts.Reasons)
		}
	}
}
