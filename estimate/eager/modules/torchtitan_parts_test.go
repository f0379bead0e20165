package modules

import (
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/timeline"
)

// Head and loss run part by part of the sequence: at most stand the copies of all parts
// with their labels, the sum of their gradients in 32 bits, the head's gradient so far in
// 32 bits and that of a part, the logits of a part and their gradient, and what the
// compiled loss makes.
func TestHeadInParts(t *testing.T) {
	for _, c := range []struct{ batch, length, width, vocabulary int64 }{{2, 64, 32, 1000}, {1, 128, 64, 512}} {
		positions := c.batch * c.length
		rows := positions / lossChunks
		copies, labels, sum := 2*positions*c.width, 8*positions, 4*positions*c.width
		added, gradient, logits := 4*c.vocabulary*c.width, 2*c.vocabulary*c.width, 2*rows*c.vocabulary
		ofPart := 2 * rows * c.width
		const loss = 4 + 4 // and its own gradient
		want := copies + labels + sum + added + 2*logits + gradient + ofPart + loss
		if got := peakOfHead(t, Options{Compiles: true}, c.batch, c.length, c.width, c.vocabulary); got != want {
			t.Errorf("%+v: %d bytes stand, expected are %d", c, got, want)
		}
		// Logits in 32 bits, what their softmax keeps and their gradients are more.
		if got := peakOfHead(t, Options{Compiles: true, EagerLoss: true}, c.batch, c.length, c.width, c.vocabulary); got <= want {
			t.Errorf("%+v: an eager loss holds %d bytes, a compiled one %d", c, got, want)
		}
	}
}

// peakOfHead is what a step of the head in parts holds at most beside the head and what
// goes into it.
func peakOfHead(t *testing.T, o Options, batch, length, width, vocabulary int64) int64 {
	m := torch.New(torch.Options{Device: torch.H100()})
	head := m.Parameter(dtype.BF16, true, vocabulary, width)
	hidden := m.Parameter(dtype.BF16, true, batch*length, width)
	o.Software, o.Release, o.Loss = TorchTitan, Release{Minor: 1, Day: 20260805}, ChunkedLoss
	n := &Net{m: m, o: o, outside: weights{model.RoleHead: []linear{{weight: head}}}}
	m.Phase("loss", 1)
	m.Drop(n.headInParts(hidden, batch))
	tl, err := m.Timeline()
	if err != nil {
		t.Fatal(err)
	}
	var level, most int64
	for moment, e := range tl.Events {
		switch size := tl.Allocs[e.Alloc].Requested; {
		case tl.Terms[tl.Allocs[e.Alloc].Term].ID == account.TermWorkspace: // of the products
		case moment < tl.Phases[len(tl.Phases)-1].First:
		case e.Kind == timeline.Born:
			level += size
		case e.Kind == timeline.FreeCompleted:
			level -= size
		}
		most = max(most, level)
	}
	return most
}
