package floodmark

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/checklist"
	"floodmark/record"
	"floodmark/workload"
)

// explained is a text beside the estimate of the start that printed it.
func explained(t *testing.T, text string, r Request) *record.Against {
	t.Helper()
	path := filepath.Join(t.TempDir(), "server.log")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	e, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := Estimate(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	log, err := Against(e, p.Record(record.Tool{}).(*record.Estimate), record.Tool{})
	if err != nil {
		t.Fatal(err)
	}
	return log.(*record.Log).Against
}

// A failure that was wrapped over lines has its numbers in all of them, and free
// blocks of private pools are no part of what was needed: 9.67 GiB − 299.88 MiB +
// 252 MiB.
func TestAgainstWrappedFailure(t *testing.T) {
	r := served(t, "Qwen__Qwen3-8B", "rtx-3090", func(*workload.Workload) {})
	a := explained(t, strings.Join([]string{
		"torch.OutOfMemoryError: CUDA out of memory.",
		"Tried to allocate 252.00 MiB. GPU 0 has a total capacity of 10.57 GiB of which 163.12 MiB is free.",
		"Including non-PyTorch memory, this process has 10.41 GiB memory in use.",
		"Of the allocated memory 9.67 GiB is allocated by PyTorch,",
		"with 299.88 MiB allocated in private pools (e.g., CUDA Graphs),",
		"and 26.44 MiB is reserved by PyTorch but unallocated.",
	}, "\n"), r)
	for _, row := range a.Rows {
		switch low := row.ObservedLow; {
		case row.Term == "peak" && (low == nil || *low < 9610*(1<<30)/1000 || *low > 9630*(1<<30)/1000):
			t.Errorf("peak: %+v", row)
		case row.Term == "outside_the_allocator" && low == nil:
			t.Errorf("outside the allocator: %+v", row)
		}
	}
}

// A start on H100: every printed term lies in its interval, and nothing is left.
func TestAgainstStart(t *testing.T) {
	r := served(t, "Qwen__Qwen3-8B", "h100-sxm5-80gb", func(w *workload.Workload) { w.Serving.Budget.Utilization = 0.95 })
	c := r.Card.WithTotal(account.Exact(7919*(1<<30)/100, account.Provenance{Scope: account.Device}))
	r.Card = &c
	a := explained(t, strings.Join([]string{
		"(EngineCore pid=248) DEBUG Initial free memory: 78.68 GiB; Requested memory: 0.950000 (util), 75.23 GiB",
		"(EngineCore pid=248) DEBUG Memory profiling takes 23.00 seconds. Total non KV cache memory: 17.73GiB; torch peak memory increase: 2.21GiB; non-torch forward increase memory: 0.25GiB; weights memory: 15.27GiB.",
		"(EngineCore pid=248) INFO Available KV cache memory: 57.5 GiB",
		"(EngineCore pid=248) INFO GPU KV cache size: 418,688 tokens",
		"(EngineCore pid=248) INFO Graph capturing finished in 5 secs, took 0.96 GiB",
	}, "\n"), r)
	for i, r := range a.Rows {
		if r.Inside != nil && !*r.Inside {
			t.Errorf("%s: %s", r.Term, r.Cause)
		}
		if last := i == len(a.Rows)-1; last != (r.Term == "residual") {
			t.Errorf("the residual is last, and row %d is %s", i, r.Term)
		}
	}
}

// The first generation's sum (vllm 13882): the shares that leave room for nothing and
// for one request follow from what it printed.
func TestLeastShares(t *testing.T) {
	r := served(t, "Qwen__Qwen2.5-7B-Instruct", "rtx-4060", func(w *workload.Workload) {
		w.Engine.Version, w.Serving.MaxLength, w.Serving.Budget.Utilization = "0.7.2", 4096, 0.7
	})
	c := r.Card.WithTotal(account.Exact(8<<30, account.Provenance{Scope: account.Device}))
	r.Card = &c
	a := explained(t, "the current vLLM instance can use total_gpu_memory (8.00GiB) x gpu_memory_utilization (0.70) = 5.60GiB\n"+
		"model weights take 5.20GiB; non_torch_memory takes 0.03GiB; PyTorch activation peak memory takes 1.42GiB; the rest of the memory reserved for KV Cache is -1.05GiB.\n", r)
	if a.BareUtilization == nil || math.Abs(*a.BareUtilization-0.832) > 1e-9 || a.OneUtilization == nil || math.Abs(*a.OneUtilization-0.859) > 1e-9 {
		t.Errorf("%v, %v; want 0.832 and 0.859", a.BareUtilization, a.OneUtilization)
	}
}

// A difference stands in its own row with its size, and never in another's.
func TestAgainstDifference(t *testing.T) {
	a := explained(t, strings.Join([]string{
		"DEBUG Initial free memory: 78.68 GiB; Requested memory: 0.900000 (util), 71.27 GiB",
		"DEBUG Memory profiling takes 23.00 seconds. Total non KV cache memory: 22.73GiB; torch peak memory increase: 7.21GiB; non-torch forward increase memory: 0.25GiB; weights memory: 15.27GiB.",
		"INFO Available KV cache memory: 44.54 GiB",
	}, "\n"), served(t, "Qwen__Qwen3-8B", "h100-sxm5-80gb", func(*workload.Workload) {}))
	for _, r := range a.Rows {
		switch r.Term {
		case "peak_activation":
			if *r.Inside || !strings.Contains(r.Cause, "more than estimated") || *r.DifferenceLow < 4<<30 {
				t.Errorf("%+v", r)
			}
		case "residual":
			if !strings.Contains(r.Cause, "no printed term") || *r.Inside {
				t.Errorf("4 GiB are in no printed term: %+v", r)
			}
		}
	}
}

// A log of one model beside the estimate of another is no comparison; a name and a
// folder can mean the same model.
func TestAgainstAnotherModel(t *testing.T) {
	name := "models/Qwen__Qwen3-8B"
	e := &record.Estimate{}
	e.Model.Name = &name
	for printed, other := range map[string]bool{"": false, "Qwen/Qwen3-8B": false, "/data/qwen3-8b/": false, "/hub/models--Qwen--Qwen3-8B": false, "google/gemma-2-9b-it": true, "Qwen/Qwen3-8B-FP8": true} {
		if got := anotherModel(printed, e); (len(got) == 1) != other {
			t.Errorf("%q: %v", printed, got)
		}
	}
}

// gib is the middle of an interval in GiB, to two digits.
func gib(low, high *int64) float64 {
	if low == nil || high == nil {
		return math.NaN()
	}
	return math.Round(float64(*low+*high)/2/(1<<30)*100) / 100
}

// The published case of an estimate that was off by 6.91 GiB only, because weights
// that stay in main memory and compute buffers that nobody counted cancel.
func TestErrorsThatCancel(t *testing.T) {
	checklist.Covers(t, 160, 218)
	plan, err := Open("testdata/against/compensating_plan.json")
	if err != nil {
		t.Fatal(err)
	}
	e, err := Open("testdata/against/compensating.log")
	if err != nil {
		t.Fatal(err)
	}
	document, err := Against(e, plan.Record(record.Tool{}).(*record.Estimate), record.Tool{})
	if err != nil {
		t.Fatal(err)
	}
	a := document.(*record.Log).Against
	want := map[string][3]float64{"weights": {103.69, 76.23, -27.46}, "all_other_terms": {10.57, 31.12, 20.55}, "total": {114.26, 107.35, -6.91}}
	for _, r := range a.Rows {
		if w, asked := want[r.Term]; asked {
			got := [3]float64{gib(r.PredictedLow, r.PredictedHigh), gib(r.ObservedLow, r.ObservedHigh), gib(r.DifferenceLow, r.DifferenceHigh)}
			if got != w {
				t.Errorf("%s: %v, want %v", r.Term, got, w)
			}
			delete(want, r.Term)
		}
		if r.Term == "weights" && !strings.Contains(r.Cause, "27.45 GiB of weights are in main memory (CPU_Mapped, line 1)") {
			t.Errorf("weights: %s", r.Cause)
		}
	}
	if len(want) > 0 || len(a.Cancelling) != 1 || !strings.Contains(a.Cancelling[0].Text, "looks good only because errors cancel: weights −27.46 GiB, all other terms +20.55 GiB") {
		t.Errorf("missing %v; %+v", want, a.Cancelling)
	}
	if last := a.Rows[len(a.Rows)-1]; last.Term != "residual" || !*last.Inside {
		t.Errorf("the terms are all that the driver counts, and last is %+v", last)
	}
}
