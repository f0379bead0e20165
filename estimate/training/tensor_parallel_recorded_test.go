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

//go:embed testdata/tensor_parallel/ranks.tsv
var tensorRows string

// tensorRow is one recording of testdata/tensor_parallel/ranks.tsv.
type tensorRow struct {
	name     string
	workload workload.Workload
	levels   rankSteps
}

func readTensorRows(t *testing.T) (rows []tensorRow) {
	t.Helper()
	kinds := map[string]workload.CheckpointingKind{"none": "", "full": workload.FullCheckpointing, "selective": workload.SelectiveCheckpointing}
	for line := range strings.Lines(tensorRows) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(line, "tensor") {
			continue
		}
		number := func(at int) int64 {
			n, err := strconv.ParseInt(f[at], 10, 64)
			if err != nil {
				t.Fatal(line, err)
			}
			return n
		}
		p, _, _ := workload.ParseLayout("fp32-params")
		o, _ := workload.ParseOptimizer("sgd", "fused")
		r := tensorRow{name: strings.Join(f[:5], " "), workload: workload.Workload{
			Operation: workload.Training, Precision: p, Mesh: workload.Mesh{TensorParallel: int(number(0)), DataParallel: int(number(1))},
			Engine: workload.Engine{Name: "torchtitan", Version: "0.1.0.dev20241115", PyTorch: "2.15"},
			Inputs: []workload.Input{{Dimensions: map[workload.Dimension]int64{workload.Context: 128 / number(2), workload.MicroBatch: number(2)}}},
			Training: &workload.Train{Optimizer: o, Loss: workload.Loss(f[4]), Checkpointing: workload.Checkpointing{Kind: kinds[f[3]], Every: 1},
				Sharding: &workload.Sharding{Kind: workload.FSDP2, ReduceFormat: dtype.F32}}}}
		for i := range r.levels {
			r.levels[i] = number(5 + i)
		}
		rows = append(rows, r)
	}
	return rows
}

func titanModel(t *testing.T) *model.Model {
	t.Helper()
	m, err := load.Open("../../testdata/eager/torchtitan-20241115")
	if err == nil {
		m, err = m.WithFormat("fp32")
	}
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// predicted is the second step of a recording.
func (r tensorRow) predicted(t *testing.T, m *model.Model) rankSteps {
	t.Helper()
	phases := phasesOfSecondStep(t, m, r.workload)
	start, peak := overStart(phases)
	end := func(id account.PhaseID) int64 { return phases[id].End.Requested.Low() - start }
	return rankSteps{max(peak(account.PhaseForward), peak(account.PhaseLoss)), end(account.PhaseLoss), peak(account.PhaseBackward), end(account.PhaseBackward)}
}

// misses reports a level that is another than the recorded one by more than the masks
// and the numbers a row of a loss over parts of the vocabulary, which are not counted.
func (r tensorRow) misses(got rankSteps) (at int, misses bool) {
	for i, want := range r.levels {
		if d := got[i] - want; d > 6144 || d < -6144 {
			return i, true
		}
	}
	return 0, false
}

// TestRecordedTensorParallel compares a rank of torchtitan's Llama with what PyTorch
// 2.15 allocated on a CPU (oracle/tensor_parallel.py): layers divided over two and four
// ranks, with fully_shard around them and without, what is computed again, and logits
// that stay divided or are gathered.
func TestRecordedTensorParallel(t *testing.T) {
	m := titanModel(t)
	for _, r := range readTensorRows(t) {
		got := r.predicted(t, m)
		t.Logf("%-28s %v, was %v", r.name, got, r.levels)
		if at, misses := r.misses(got); misses {
			t.Errorf("%s: level %d is %d bytes, was %d", r.name, at, got[at], r.levels[at])
		}
	}
}
