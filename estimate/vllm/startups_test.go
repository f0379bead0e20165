package vllm

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/model/load"
	"floodmark/workload"
)

// started is one start-up whose trial run printed its peak.
type started struct {
	model                                   string
	tensor, pipeline                        int
	peak                                    float64 // GiB
	requested, weights, nonTorch, cacheRoom float64
}

// starts reads testdata/startups.csv, those that started.
func starts(t *testing.T) []started {
	t.Helper()
	f, err := os.Open("testdata/startups.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, name := range rows[0] {
		at[name] = i
	}
	var list []started
	for _, r := range rows[1:] {
		if r[at["status"]] != "ok" || r[at["dtype"]] == "torch.float32" {
			continue
		}
		real := func(name string) float64 { f, _ := strconv.ParseFloat(r[at[name]], 64); return f }
		list = append(list, started{model: r[at["model"]], tensor: int(real("tp")), pipeline: int(real("pp")), peak: real("activation_memory_gib"),
			requested: real("requested_memory_gib"), weights: real("weights_memory_gib"), nonTorch: real("non_torch_forward_gib"), cacheRoom: real("kv_cache_memory_gib")})
	}
	return list
}

// trial is the trial run of a start, with another coefficient of the stream.
func (s started) trial(t *testing.T, streams float64) (profile, bool) {
	t.Helper()
	m, err := load.Open(filepath.Join("testdata/models", strings.ReplaceAll(s.model, "/", "__")+".json"))
	if err != nil {
		t.Fatal(err)
	}
	w := &workload.Workload{Engine: workload.Engine{Name: "vllm", Version: "0.19.0"}, Mesh: workload.Mesh{TensorParallel: s.tensor, PipelineParallel: s.pipeline},
		Precision: workload.Precision{Compute: dtype.BF16}, Serving: &workload.Serving{MaxLength: 8192}}
	plans, err := Rules(w).Plan(m, w.Mesh)
	if err != nil {
		t.Fatal(err)
	}
	in := estimate.Input{Model: m, Plan: plans[0], Workload: w, Memory: h100()}
	o := resolve(in)
	o.streams = streams
	return o.profileOf(in, plans[0]), !hasExperts(m) && !seesImages(m)
}

func h100() estimate.Memory {
	return estimate.Memory{Total: account.Exact(7919*gib/100, account.Provenance{}), Name: "H100", Arch: "Hopper"}
}

// middle is the middle of an interval, in GiB.
func middle(f account.Figure) float64 {
	most, _ := f.High()
	return (float64(f.Low()) + float64(most)) / 2 / float64(gib)
}

// The peak of the trial run of dense text models, whose one fitted coefficient is
// fitted anew without the model that is asked about.
func TestTrialRunLeaveOneModelOut(t *testing.T) {
	list := starts(t)
	// What a start says of the coefficient, where its forward pass is the peak.
	says := func(s started) (float64, bool) {
		zero, dense := s.trial(t, 0)
		one, _ := s.trial(t, 1)
		sampling := middle(account.Sum(account.Provenance{}, zero.stream, zero.sampler, zero.stays))
		rest := s.peak - middle(zero.forward) - middle(zero.stays)
		return rest / (middle(one.forward) - middle(zero.forward)), dense && s.peak > sampling+0.02
	}
	told := map[started]float64{}
	for _, s := range list {
		if c, tells := says(s); tells {
			told[s] = c
		}
	}
	worst := 0.0
	for _, s := range list {
		var sum, n float64
		for other, c := range told {
			if other.model != s.model {
				sum, n = sum+c, n+1
			}
		}
		if n == 0 {
			t.Fatal("no other model tells the coefficient")
		}
		pr, dense := s.trial(t, sum/n)
		if !dense {
			continue
		}
		miss := math.Abs(middle(pr.peak) - s.peak)
		worst = max(worst, miss)
		if miss > 0.1 {
			t.Errorf("%s tp%d pp%d: %.3f GiB with the coefficient %.2f of the other models, measured %.2f", s.model, s.tensor, s.pipeline, middle(pr.peak), sum/n, s.peak)
		}
	}
	t.Logf("worst held-out error %.3f GiB", worst)
}

// The trial run of every start lies in its interval, to the printed hundredth.
func TestTrialRunInterval(t *testing.T) {
	for _, s := range starts(t) {
		pr, _ := s.trial(t, fittedStreams)
		most, known := pr.peak.High()
		low, up := float64(pr.peak.Low())/float64(gib), float64(most)/float64(gib)
		if !known || s.peak < low-0.01 || s.peak > up+0.01 {
			t.Errorf("%s tp%d pp%d: %.3f to %.3f GiB, measured %.2f", s.model, s.tensor, s.pipeline, low, up, s.peak)
		}
	}
}

// The identity of the budget: what a start printed for weights, peak and
// non-torch memory leaves what it printed for the cache.
func TestBudgetIdentity(t *testing.T) {
	for _, s := range starts(t) {
		if s.pipeline > 1 {
			continue // another rank decides
		}
		left := s.requested - s.weights - s.peak - s.nonTorch
		if math.Abs(left-s.cacheRoom) > 0.01*s.cacheRoom || math.Abs(left-s.cacheRoom) > 0.021 {
			t.Errorf("%s tp%d: %.2f left, printed %.2f", s.model, s.tensor, left, s.cacheRoom)
		}
	}
	o := options{Budget: workload.Budget{Utilization: 0.95}, rules: table()[0]}
	if got := middle(o.requested(h100().Total)); math.Abs(got-75.23) > 0.005 {
		t.Errorf("0.95 of 79.19 GiB are %.3f", got)
	}
}
