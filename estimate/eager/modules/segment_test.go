package modules_test

import (
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/internal/torch"
	"floodmark/model"
)

// TestSegments: of layers that are computed again in backward, the graph keeps the
// inputs of segments; a longer segment keeps fewer, and brings more back at once.
func TestSegments(t *testing.T) {
	source := modelOf(t, "llama")
	layers := int64(len(source.Stacks[0].Layers))
	keptBy := func(segment int) (kept int) {
		m := torch.New(torch.Options{Device: torch.CPU()})
		n := modules.New(m, source, modules.Options{
			CPU: true, Attention: modules.SDPA, Experts: modules.GroupedExperts, Training: true, Checkpointing: true, Segment: segment,
			Weight: func(model.Tensor) modules.Weight { return modules.Weight{Format: dtype.F32, Trained: true} },
		})
		ids := m.Input(dtype.I64, 2, 64)
		m.Phase(account.PhaseForward, 1)
		loss := m.Keep(n.Loss(modules.Batch{IDs: ids, Labels: ids}))
		tl, err := m.Timeline()
		if err != nil {
			t.Fatal(err)
		}
		input := n.Parameters()[0].Size(1) * 2 * 64 * 4
		for _, a := range tl.AliveAt(len(tl.Events) - 1) {
			if tl.Allocs[a].Requested == input && tl.Terms[tl.Allocs[a].Term].ID == account.TermActivations {
				kept++
			}
		}
		m.Drop(loss)
		return kept
	}
	one := keptBy(0)
	for _, segment := range []int{1, 2, int(layers)} {
		if got, want := keptBy(segment), one-int(layers)+int((layers+int64(segment)-1)/int64(segment)); got != want {
			t.Errorf("segments of %d of %d layers keep %d tensors of the stream, want %d", segment, layers, got, want)
		}
	}
}
