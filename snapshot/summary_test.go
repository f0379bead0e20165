package snapshot

import (
	"testing"

	"floodmark/account"
)

func TestSummary(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(p *program)
		want string
	}{
		{"nothing", func(*program) {}, "Nothing is allocated in this snapshot."},
		{"a training step, at the end of its forward", func(p *program) {
			old := p.layers()
			weights := p.layers()
			held := p.alloc(40<<20, inSoftmax, inModel, inMain)
			p.free(held, inNode, inEngine)
			for _, g := range old[:len(weights)] {
				p.free(g, inZeroGrad, inMain)
			}
		}, "The peak of 112.07 MiB is in a forward: 40.00 MiB of it is activations because a forward holds 1 tensor for its backward, 100 % of it in project/model.py; " +
			"36.04 MiB is parameters because the weights live throughout (27 tensors); " +
			"36.04 MiB is gradients because the gradients of the step before are still held while the next forward runs; at the end 36.04 MiB is still held."},
		{"a failed request", func(p *program) {
			p.alloc(3<<30, inUser, inMain)
			p.entry(OutOfMemory, 1<<30, 2<<30, nil)
		}, "The peak is 3.00 GiB: 3.00 GiB of it is not attributed because nothing on its stack says what it is for, and it is never freed; " +
			"a request of 2.00 GiB failed after event 1; at the end 3.00 GiB is still held."},
		{"no trace", func(p *program) { p.resident(1, 1<<20) },
			"The snapshot holds 1.00 MiB: 1.00 MiB of it is not attributed because it has no stack and is never freed."},
	} {
		p := newProgram()
		c.play(p)
		r, s := p.record()
		x := s.Explain(r)
		at := x.Compose(r.Peaks().Requested.Entry, account.Requested)
		if got := x.Summary(at, at.Bytes); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}
