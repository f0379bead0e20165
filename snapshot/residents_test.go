package snapshot

import (
	"testing"

	"floodmark/account"
)

// layers are the sizes of a model of four layers: matrices and norms, and two
// tables; 9 norms, so that the counts have no divisor in common.
func (p *program) layers() (list []uint64) {
	list = append(list, p.resident(16, 1<<20)...)
	list = append(list, p.resident(9, 4096)...)
	return append(list, p.resident(2, 10<<20)...)
}

const layerBytes = 16<<20 + 9*4096 + 2*(10<<20)

// forwards is a pass that keeps nothing.
func (p *program) forwards() { p.free(p.alloc(512, inModel, inMain), inModel, inMain) }

// backwards is a backward that adds to gradients which are there.
func (p *program) backwards() {
	p.free(p.alloc(512, inNode, inEngine), inEngine)
}

// Without a stack, only the shape of the whole tells what residents are.
func TestResidents(t *testing.T) {
	for _, c := range []struct {
		name                                      string
		play                                      func(p *program)
		parameter, gradient, state, buffer, other int64
	}{
		{"weights that only a forward reads", func(p *program) {
			p.layers()
			p.forwards()
		}, layerBytes, 0, 0, 0, 0},
		{"tables that recur, but have not the width of the model in them", func(p *program) {
			p.layers()
			p.resident(8, 6000)
			p.forwards()
		}, layerBytes, 0, 0, 8 * 6000, 0},
		{"a few more of a norm's size: an even count is chance in inference", func(p *program) {
			p.layers()
			p.resident(1, 4096)
			p.forwards()
		}, layerBytes + 4096, 0, 0, 0, 0},
		{"a second copy, and a backward that makes no gradient", func(p *program) {
			p.layers()
			p.layers()
			p.forwards()
			p.backwards()
		}, layerBytes, layerBytes, 0, 0, 0},
		{"two copies, and a forward that awaits its backward: nothing tells of what", func(p *program) {
			p.layers()
			p.layers()
			p.alloc(100, inModel, inMain)
		}, 0, 0, 0, 0, 2 * layerBytes},
		{"four copies, of which nobody can say what they are", func(p *program) {
			for range 4 {
				p.layers()
			}
			p.forwards()
		}, 0, 0, 0, 0, 4 * layerBytes},
		{"moments that a step replaces tell how many weights there are", func(p *program) {
			p.layers()
			moments := append(p.layers(), p.layers()...)
			p.resident(3, 77)
			p.backwards()
			for _, m := range moments {
				p.free(m, inStep, inMain)
			}
		}, layerBytes, 0, 2 * layerBytes, 0, 3 * 77},
		{"with gradients that a step reads and nobody made", func(p *program) {
			moments := append(p.layers(), p.layers()...)
			p.layers()
			p.layers()
			for _, m := range moments {
				p.free(m, inStep, inMain)
			}
		}, layerBytes, layerBytes, 2 * layerBytes, 0, 0},
		{"too little recurs to be a model", func(p *program) {
			p.resident(3, 1<<20)
			p.forwards()
		}, 0, 0, 0, 0, 3 << 20},
		{"no trace: to live throughout means nothing", func(p *program) { p.layers() }, 0, 0, 0, 0, layerBytes},
	} {
		p := newProgram()
		c.play(p)
		r, s := p.record()
		got := s.Explain(r).Compose(-1, account.Requested)
		for category, want := range map[account.Category]int64{
			account.CategoryParameter: c.parameter, account.CategoryGradient: c.gradient, account.CategoryOptimizerState: c.state,
			account.CategoryBuffer: c.buffer, account.CategoryUnattributed: c.other,
		} {
			if bytes := got.bytes(category); bytes != want {
				t.Errorf("%s: %d bytes of %s, want %d", c.name, bytes, category, want)
			}
		}
	}
}

// While a step makes new moments and still holds the old ones, the new are a
// second copy; the new moments whose old ones are gone are not, though others
// still await their turn.
func TestSecondCopies(t *testing.T) {
	p := newProgram()
	old := p.resident(3, 4096)
	p.backwards()
	for i := range 3 {
		p.alloc(4096, inStep, inMain)
		p.free(old[i], inStep, inMain)
	}
	r, s := p.record()
	x := s.Explain(r)
	first := r.Trace.Len() - 9
	for i, second := range []int64{4096, 4096, 0, 4096, 4096, 0, 4096, 4096, 0} {
		c := x.Compose(first+i, account.Requested)
		if c.bytes(account.CategoryOptimizerState) != 3*4096 || c.bytes(account.CategoryTemporary) != second {
			t.Errorf("after entry %d of the step %d bytes are a second copy, want %d: %+v", i, c.bytes(account.CategoryTemporary), second, c.Shares)
		}
	}
}
