package megatron_test

import (
	"slices"
	"testing"

	"floodmark/account"
	"floodmark/internal/source"
	"floodmark/model/megatronmodel"
	"floodmark/timeline"
	"floodmark/workload"
)

// Release 0.18 has the batches of all micro-batches of a step until the next one, on
// the first of the ranks that divide matrices: 4 × 1,024 tokens of 12 bytes on the last
// stage and 16 on the first, and a mask of 4 × 1,024² bytes each. A run of the last
// stage left 4 × 4,243,456 bytes (golden_values_dev_dgx_h100.json of
// gpt3_mcore_te_tp1_pp4_vp1, Megatron-LM @ 6e091e1b).
func TestBatchesThatStay(t *testing.T) {
	const mask = 4 << 20
	for _, c := range []struct {
		version, layout string
		micro           int64
		first, last     int64 // bytes that are held, or may be
		bound           bool
	}{
		{"", "pipeline_parallel: 4", 4, 0, 0, false},
		{"0.17", "pipeline_parallel: 4", 4, 0, 0, false},
		{"0.19.0", "pipeline_parallel: 4", 4, 0, 0, false},
		{"0.18", "pipeline_parallel: 4", 4, 4 * (4096*16 + mask), 4 * (4096*12 + mask), false},
		{"0.18.2", "pipeline_parallel: 4", 64, 64 * (4096*16 + mask), 64 * (4096*12 + mask), false},
		{"0.18", "pipeline_parallel: 1", 64, 64 * (4096*28 + mask), 64 * (4096*28 + mask), false},
		{"0.18", "pipeline_parallel: 2, tensor_parallel: 2", 4, 4 * (4096*16 + mask), 4 * (4096*12 + mask), true},
	} {
		w := read(t, "inputs: {only: {context: 1024, micro_batch: 4}}\nlayout: {"+c.layout+"}\ntraining: {optimizer: adamw}\n")
		w.Engine.Version, w.Training.Accumulation = c.version, c.micro
		m, err := megatronmodel.New("test", small())
		if err != nil {
			t.Fatal(err)
		}
		list, err := stages(m, w)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range map[int]int64{0: c.first, len(list) - 1: c.last} {
			low := want
			if c.bound {
				low = 0
			}
			if got := alive(list[i], account.TermInput); got != low {
				t.Errorf("%+v: stage %d holds %d bytes of batches, want %d", c, i, got, low)
			}
			if got := upTo(list[i], account.TermInput); got != want-low {
				t.Errorf("%+v: stage %d may hold %d bytes of batches more, want %d", c, i, got, want-low)
			}
		}
	}
}

// read is a workload of Megatron-LM.
func read(t *testing.T, text string) *workload.Workload {
	t.Helper()
	f, err := workload.ReadFile(source.Bytes("test", []byte("engine: {name: megatron}\noperation: training\nprecision: bf16-params-fp32-grads-fp32-master-fp32-moments\n"+text)))
	if err != nil {
		t.Fatal(err)
	}
	return &f.Workload
}

// upTo is the high of what a term may hold beside its allocations.
func upTo(tl *timeline.Timeline, id account.TermID) (n int64) {
	for _, b := range tl.Bounds {
		if tl.Terms[b.Term].ID == id {
			high, _ := b.Figure.High()
			n += high
		}
	}
	return n
}

// The last of the ranks that divide the optimizer's states is laid out: an eighth of
// the buffer, whose end is the table of tokens, in one piece. A run's last rank held
// 581,489,664 bytes after a step, 4,608 more than states and workspaces
// (gpt3_mcore_te_tp1_pp1_dist_optimizer_no_mmap_bin_files on H100).
func TestLastRankOfTheOptimizer(t *testing.T) {
	list := run(t, small(), "inputs: {only: {context: 1024, micro_batch: 4}}\nlayout: {data_parallel: 8}\ntraining: {optimizer: adamw, sharding: {kind: distributed}}\n")
	var sizes []int64
	for _, a := range list[0].AliveAt(len(list[0].Events) - 1) {
		if al := list[0].Allocs[a]; list[0].Terms[al.Term].ID == account.TermOptimizerState {
			sizes = append(sizes, al.Requested)
		}
	}
	if want := []int64{32_054_784, 32_054_784}; !slices.Equal(sizes, want) {
		t.Errorf("moments of %v bytes, want %v", sizes, want)
	}
}
