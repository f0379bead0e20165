package training

import (
	_ "embed"
	"strconv"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/workload"
)

//go:embed testdata/sharding/ranks.tsv
var rankRows string

// rankRow is one recording of testdata/sharding/ranks.tsv: layers that are computed
// again together while each is gathered by itself, and parts that several ranks have.
type rankRow struct {
	name      string
	format    string
	compute   dtype.Format
	sharding  workload.Sharding
	every     int
	reentrant bool
	software  string    // "" for the newest
	levels    rankSteps // as they were recorded
}

// rankSteps is the peak and the end of a forward and of a backward pass.
type rankSteps [4]int64

func readRankRows(t *testing.T) (rows []rankRow) {
	t.Helper()
	for line := range strings.Lines(rankRows) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(line, "kind") {
			continue
		}
		r := rankRow{name: strings.Join(f[:5], " "), format: "fp32", reentrant: f[2] == "reentrant"}
		number := func(at int) int64 {
			n, err := strconv.ParseInt(f[at], 10, 64)
			if err != nil {
				t.Fatal(line, err)
			}
			return n
		}
		for i := range r.levels {
			r.levels[i] = number(5 + i)
		}
		kind, format, _ := strings.Cut(f[0], "-")
		r.every = int(number(1))
		r.sharding = workload.Sharding{Kind: workload.ShardingKind(kind), ReduceFormat: dtype.F32, Group: 4 / number(4), KeepsGathered: f[3] == "keep"}
		if f[3] != "keep" && f[3] != "free" {
			r.sharding.ReshardsOver = number(3)
		}
		switch format {
		case "bf16":
			r.compute = dtype.BF16
		case "mixed":
			r.format = "bf16"
		case "2.9":
			r.software = format
		}
		rows = append(rows, r)
	}
	return rows
}

// shardedModels is the Llama of the recordings in each format.
func shardedModels(t *testing.T) map[string]*model.Model {
	t.Helper()
	all := map[string]*model.Model{}
	m, err := load.Open("testdata/sharding")
	for _, format := range []string{"fp32", "bf16"} {
		if err == nil {
			all[format], err = m.WithFormat(format)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// predicted is the second step of a recording.
func (r rankRow) predicted(t *testing.T, m *model.Model) rankSteps {
	t.Helper()
	p, _, _ := workload.ParseLayout(r.format + "-params")
	p.Compute = r.compute
	o, _ := workload.ParseOptimizer("sgd", "fused")
	w := workload.Workload{Operation: workload.Training, Precision: p, Mesh: workload.Mesh{DataParallel: 4}, Engine: workload.Engine{Version: r.software},
		Training: &workload.Train{Optimizer: o, Sharding: &r.sharding, Reentrant: &r.reentrant},
		Inputs:   []workload.Input{{Dimensions: map[workload.Dimension]int64{workload.Context: 64, workload.MicroBatch: 2}}}}
	if r.every > 0 {
		w.Training.Checkpointing = workload.Checkpointing{Kind: workload.EveryCheckpointing, Every: r.every}
	}
	return levelsOfSecondStep(t, m, w)
}

// levelsOfSecondStep is those of a predicted second step over its start, in bytes.
func levelsOfSecondStep(t *testing.T, m *model.Model, w workload.Workload) rankSteps {
	t.Helper()
	phases := phasesOfSecondStep(t, m, w)
	start, peak := overStart(phases)
	end := func(id account.PhaseID) int64 { return phases[id].End.Requested.Low() - start }
	return rankSteps{max(peak(account.PhaseForward), peak(account.PhaseLoss)), end(account.PhaseLoss), peak(account.PhaseBackward), end(account.PhaseBackward)}
}

// misses reports the first level that is further than so many bytes from the recorded one.
func (recorded rankSteps) misses(got rankSteps, within int64) (at int, misses bool) {
	for i, want := range recorded {
		if d := got[i] - want; d > within || d < -within {
			return i, true
		}
	}
	return 0, false
}

// misses reports which of the levels is another than the recorded one: a CPU keeps
// positions and a norm's part a moment longer.
func (r rankRow) misses(got rankSteps) (at int, misses bool) {
	return r.levels.misses(got, 2048)
}

// TestRecordedSegments: a layer is gathered by itself where several are computed
// again together, and what becomes of it until its own backward differs between FSDP1,
// which frees it, and FSDP2, which keeps it.
func TestRecordedSegments(t *testing.T) {
	models := shardedModels(t)
	for _, r := range readRankRows(t) {
		got := r.predicted(t, models[r.format])
		if at, misses := r.misses(got); misses {
			t.Errorf("%s: %s is %d bytes, was %d", r.name, []string{"the peak of forward", "what forward leaves", "the peak of backward", "what backward leaves"}[at], got[at], r.levels[at])
		}
	}
}

// TestRecordedSegmentsSabotage: without one of the rules the table fails.
func TestRecordedSegmentsSabotage(t *testing.T) {
	models := shardedModels(t)
	for name, c := range map[string]struct {
		of    func(rankRow) bool
		spoil func(*rankRow)
	}{
		"freed after each layer of a segment": {func(r rankRow) bool {
			return r.sharding.Kind == workload.FSDP2 && r.every > 0 && !r.sharding.KeepsGathered && r.software == ""
		},
			func(r *rankRow) { r.software = "2.9" }},
		"kept after each layer of a segment": {func(r rankRow) bool { return r.software == "2.9" },
			func(r *rankRow) { r.software = "" }},
		"replicas keep nothing of what they reduced": {func(r rankRow) bool { return r.format == "bf16" && r.sharding.Group < 4 },
			func(r *rankRow) { r.software = "2.5" }},
		"the other way to compute again": {func(r rankRow) bool { return r.every > 0 },
			func(r *rankRow) { r.reentrant = !r.reentrant }},
		"another segment": {func(r rankRow) bool { return r.every > 0 },
			func(r *rankRow) { r.every++ }},
		"parts over fewer ranks are freed": {func(r rankRow) bool { return r.sharding.ReshardsOver > 0 },
			func(r *rankRow) { r.sharding.ReshardsOver = 0 }},
		"replicas have parts of their own": {func(r rankRow) bool { return r.sharding.Group < 4 },
			func(r *rankRow) { r.sharding.Group = 4 }},
		"kept from forward": {func(r rankRow) bool { return r.sharding.KeepsGathered },
			func(r *rankRow) { r.sharding.KeepsGathered = false }},
	} {
		tried := 0
		for _, r := range readRankRows(t) {
			if !c.of(r) || tried == 2 { // two of each are enough to notice it
				continue
			}
			tried++
			c.spoil(&r)
			if _, misses := r.misses(r.predicted(t, models[r.format])); !misses {
				t.Errorf("%s: %s is predicted all the same", name, r.name)
			}
		}
		if tried == 0 {
			t.Errorf("%s: no recording asks for it", name)
		}
	}
}
