package snapshot

import (
	"path/filepath"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/timeline"
)

// cached adds a free segment to what the program holds.
func (p *program) cached(size int64) {
	p.next += 1 << 40
	p.s.Segments = append(p.s.Segments, Segment{Address: p.next, Total: size, Stack: timeline.NoStack, First: len(p.s.Blocks), Count: 1})
	p.s.Blocks = append(p.s.Blocks, Block{Address: p.next, Size: size, Stack: timeline.NoStack, placed: true})
}

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
		}, "The peak of 112.07 MiB is in a forward: 40.00 MiB of it is activations because it is made by a forward and held for its backward (1 tensor, 100 % of it in project/model.py); " +
			"36.04 MiB is parameters because it is held through the whole trace, one for each of this size that has a gradient or state (27 tensors); " +
			"36.04 MiB is gradients because the gradients of the step before are still held while the next forward runs (27 tensors); at the end 36.04 MiB is still held." + begins("72.07 MiB")},
		{"a failed request", func(p *program) {
			p.alloc(3<<30, inUser, inMain)
			p.entry(OutOfMemory, 1<<30, 2<<30, nil)
		}, "The peak is 3.00 GiB: 3.00 GiB of it is not attributed because nothing on its stack says what it is for, and it is still held at the end (1 tensor, 100 % of it in project/other.py); " +
			"a request of 2.00 GiB failed at event 1; at the end 3.00 GiB is still held."},
		{"no trace", func(p *program) { p.resident(1, 1<<20) },
			"The snapshot holds 1.00 MiB: 1.00 MiB of it is not attributed because it has no stack and is held at the dump (1 tensor)."},
		{"a leak of forwards", func(p *program) {
			p.alloc(2<<20, inSoftmax, inModel, inMain)
			p.alloc(1<<20, inSoftmax, inModel, inMain)
		}, "The peak of 3.00 MiB is in a forward: 3.00 MiB of it is activations because it is made by a forward and still held at the end " +
			"(no backward in this trace, 2 tensors, 100 % of it in project/model.py); at the end 3.00 MiB is still held."},
		{"a forward at the dump", func(p *program) {
			p.place(100)
			p.blocks[0].Stack = p.stack(inSoftmax, inModel, inMain)
		}, "The snapshot holds 100 B: 100 B of it is activations because it is made by a forward and held at the dump (1 tensor, 100 % of it in project/model.py)."},
		{"a cache that could go back", func(p *program) {
			p.alloc(1<<30, inCache, inModel)
			p.cached(3 << 30)
		}, "The peak of 1.00 GiB is in a forward: 1.00 GiB of it is KV cache because it is made by a cache of keys and values (1 tensor, 100 % of it in project/model.py); " +
			"the allocator then holds 3.00 GiB more; at the end 1.00 GiB is still held, and the allocator holds 3.00 GiB more, all of which empty_cache could return."},
	} {
		p := newProgram()
		c.play(p)
		r, s := p.record()
		r.Timeline.Warnings, r.Contradictions = nil, nil // no segment stands for what the program freed
		x := s.Explain(r)
		at := x.Compose(r.Peaks().Requested.Entry, account.Requested)
		if got := x.Summary(at, at.Bytes).String(); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// A file that contradicts itself has no certain peak, and is said to.
func TestSummaryOfAContradiction(t *testing.T) {
	p := newProgram()
	p.free(p.alloc(3<<30, inUser, inMain), inMain)
	p.alloc(466, inUser, inMain)
	r, s := p.record()
	x := s.Explain(r)
	if len(r.Timeline.Warnings) == 0 {
		t.Fatal("3 GiB were in use where 466 bytes are reserved, and nothing is said")
	}
	c := x.Compose(r.Peaks().Requested.Entry, account.Requested)
	got := x.Summary(c, c.Bytes).String()
	if !strings.HasPrefix(got, "The file contradicts itself, so no peak of it is certain; as its entries stand they add up to 3.00 GiB: ") || !strings.HasSuffix(got, "at the end 466 B is still held.") {
		t.Error(got)
	}
}

// What is stuck and what could go back are told apart.
func TestSummaryOfWhatIsStuck(t *testing.T) {
	r, s := readRecording(t, filepath.Join("testdata", "real", "llm-inference.pickle"))
	x := s.Explain(r)
	r.End.Active = r.End.Reserved - 2<<30
	stuck := x.stuck(2 << 30).String()
	if !strings.HasPrefix(stuck, ", of which ") || !strings.HasSuffix(stuck, " is stuck in segments that something still uses") {
		t.Error(stuck)
	}
}

// Amounts that are read together have one unit, as far as it fits them.
func TestSentenceInOneUnit(t *testing.T) {
	s := Say("of ", int64(3<<30), ", ", int64(512<<20), " and ", int64(466), " and ", int64(5<<40)).InOneUnit()
	if got := s.String(); got != "of 3.00 GiB, 0.50 GiB and 466 B and 5.00 TiB" {
		t.Errorf("it reads %q", got)
	}
	if got := Say("nothing").InOneUnit().String(); got != "nothing" {
		t.Errorf("words read %q", got)
	}
}
