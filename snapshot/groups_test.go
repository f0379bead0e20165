package snapshot

import (
	"strings"
	"testing"

	"floodmark/account"
)

// Two tensors of one line, one of a library called by it, and one of autograd.
func TestGroups(t *testing.T) {
	p := newProgram()
	p.alloc(100, inSoftmax, inModel, inCall, inMain)
	second := p.alloc(100, inSoftmax, inModel, inCall, inMain)
	p.alloc(50, "linear site-packages/torch/nn/functional.py:7", inModel, inMain)
	p.alloc(30, inNode, inEngine)
	p.alloc(20)
	peak := len(p.s.Traces[0].Action) - 1
	p.free(second, inNode, inEngine)
	r, s := p.record()
	x := s.Explain(r)
	c := x.Compose(peak, account.Requested)
	stacks := x.ByStack(c)
	if g := stacks[0]; g.Bytes != 200 || g.Count != 2 || g.AtEnd != 100 || g.First != 0 || g.Last != 1 || g.Freed != peak+1 || g.Category != account.CategoryActivation {
		t.Errorf("the largest stack is %+v", g)
	}
	names := func(groups []Group) string {
		var list []string
		for _, g := range groups {
			list = append(list, g.Name)
		}
		return strings.Join(list, "|")
	}
	if got := names(x.ByFile(c)); got != "project/model.py|" {
		t.Errorf("files %q", got)
	}
	if got := names(x.ByPlace(c)); got != "softmax (project/model.py:30) ← forward (project/model.py:10)|"+
		"linear (nn/functional.py:7) ← forward (project/model.py:10)|MulBackward0|" {
		t.Errorf("places %q", got)
	}
	if mixed := x.ByFile(c)[0]; mixed.Bytes != 250 || mixed.Category != account.CategoryActivation {
		t.Errorf("the file of activations is %+v", mixed)
	}
	if got := names(x.ByModule(c)); got != "forward (project/model.py:10)|" {
		t.Errorf("modules %q", got)
	}
	if g := stacks[len(stacks)-1]; g.Name != "" || len(g.Stack) != 0 || g.Freed != never {
		t.Errorf("the allocation without a stack is %+v", g)
	}
}

// What one line makes for two purposes is two rows by stack, and a row of no one
// category by file.
func TestGroupsOfMixedCategories(t *testing.T) {
	p := newProgram()
	held := p.alloc(100, inSoftmax, inModel, inMain)
	p.free(p.alloc(100, inSoftmax, inModel, inMain), inModel, inMain)
	peak := 1
	p.free(held, inNode, inEngine)
	r, s := p.record()
	x := s.Explain(r)
	c := x.Compose(peak, account.Requested)
	stacks, files := x.ByStack(c), x.ByFile(c)
	if len(stacks) != 2 || stacks[0].Category != account.CategoryActivation || stacks[1].Category != account.CategoryTemporary {
		t.Errorf("stacks are %+v", stacks)
	}
	if len(files) != 1 || files[0].Bytes != 200 || files[0].Category != "" {
		t.Errorf("files are %+v", files)
	}
}

func TestAliveAt(t *testing.T) {
	p := newProgram()
	p.resident(1, 8)
	a := p.alloc(100, inModel)
	p.free(a, inModel)
	p.alloc(50, inModel)
	r, s := p.record()
	x := s.Explain(r)
	for entry, want := range map[int]int64{-1: 8, 0: 108, 1: 108, 2: 8, 3: 58, 4: 58} {
		if got := x.Compose(entry, account.Requested).Bytes; got != want {
			t.Errorf("%d bytes are alive after entry %d, want %d", got, entry, want)
		}
	}
	// A requested free counts in requested until it is completed, in allocated not.
	if got := x.Compose(1, account.Allocated).Bytes; got != 8 {
		t.Errorf("%d allocated bytes are alive after the request, want 8", got)
	}
}
