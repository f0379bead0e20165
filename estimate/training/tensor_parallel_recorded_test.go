package training

import (
	_ "embed"
	"strconv"
	"strings"
	"testing"

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
	small    bool // of 600 tokens, so that the layers are higher than the embedding
	workload workload.Workload
	levels   rankSteps
}

func readTensorRows(t *testing.T) (rows []tensorRow) {
	t.Helper()
	kinds := map[string]workload.CheckpointingKind{"none": "", "full": workload.FullCheckpointing, "selective": workload.SelectiveCheckpointing}
	for line := range strings.Lines(tensorRows) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(line, "vocabulary") {
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
		r := tensorRow{name: strings.Join(f[:6], " "), small: f[0] == "600", workload: workload.Workload{
			Operation: workload.Training, Precision: p, Mesh: workload.Mesh{TensorParallel: int(number(1)), DataParallel: int(number(2))},
			Engine: workload.Engine{Name: "torchtitan", Version: "0.1.0.dev20241115", PyTorch: "2.15"},
			Inputs: []workload.Input{{Dimensions: map[workload.Dimension]int64{workload.Context: 128 / number(3), workload.MicroBatch: number(3)}}},
			Training: &workload.Train{Optimizer: o, Loss: workload.Loss(f[5]), Checkpointing: workload.Checkpointing{Kind: kinds[f[4]], Every: 1},
				Sharding: &workload.Sharding{Kind: workload.FSDP2, ReduceFormat: dtype.F32}}}}
		for i := range r.levels {
			r.levels[i] = number(6 + i)
		}
		rows = append(rows, r)
	}
	return rows
}

// titanModels is the Llama of the recordings, of 6,000 tokens and of 600.
func titanModels(t *testing.T) map[bool]*model.Model {
	t.Helper()
	all := map[bool]*model.Model{}
	for small, folder := range map[bool]string{false: "../../testdata/eager/torchtitan-20241115", true: "testdata/tensor_parallel"} {
		m, err := load.Open(folder)
		if err == nil {
			all[small], err = m.WithFormat("fp32")
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// predicted is the second step of a recording.
func (r tensorRow) predicted(t *testing.T, m *model.Model) rankSteps {
	t.Helper()
	return levelsOfSecondStep(t, m, r.workload)
}

// misses reports a level that is another than the recorded one by more than the masks
// and the numbers a row of a loss over parts of the vocabulary, which are not counted:
// 512 bytes were seen.
func (r tensorRow) misses(got rankSteps) (at int, misses bool) {
	return r.levels.misses(got, 1024)
}

// TestRecordedTensorParallel compares a rank of torchtitan's Llama with what PyTorch
// 2.15 allocated on a CPU (oracle/tensor_parallel.py): layers divided over two and four
// ranks, with fully_shard around them and without, what is computed again, and logits
// that stay divided or are gathered.
func TestRecordedTensorParallel(t *testing.T) {
	models := titanModels(t)
	for _, r := range readTensorRows(t) {
		got := r.predicted(t, models[r.small])
		t.Logf("%-32s %v, was %v", r.name, got, r.levels)
		if at, misses := r.misses(got); misses {
			t.Errorf("%s: level %d is %d bytes, was %d", r.name, at, got[at], r.levels[at])
		}
	}
}

// TestSabotagedTensorParallel: what stands for one setting fails the table of another.
func TestSabotagedTensorParallel(t *testing.T) {
	models := titanModels(t)
	for name, change := range map[string]func(*workload.Workload){
		"the loss": func(w *workload.Workload) {
			w.Training.Loss = map[workload.Loss]workload.Loss{"plain": "gathered", "gathered": "plain"}[w.Training.Loss]
		},
		"who divides": func(w *workload.Workload) {
			w.Mesh.DataParallel, w.Mesh.TensorParallel = w.Mesh.TensorParallel*w.Mesh.DataParallel, 1
		},
		"what is kept": func(w *workload.Workload) {
			w.Training.Checkpointing.Kind = map[workload.CheckpointingKind]workload.CheckpointingKind{"": "full", "full": "selective", "selective": ""}[w.Training.Checkpointing.Kind]
		},
		"release of PyTorch": func(w *workload.Workload) { w.Engine.PyTorch = "2.6" },
	} {
		missed := 0
		for _, r := range readTensorRows(t) {
			change(&r.workload)
			if _, misses := r.misses(r.predicted(t, models[r.small])); misses {
				missed++
			}
		}
		if missed == 0 {
			t.Errorf("%s can be another, and the table does not tell", name)
		}
	}
}
