package modules

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"floodmark/dtype"
	"floodmark/internal/torch"
)

// acrossCase is a block between tensor-parallel ranks whose wrappers were recorded, and
// the heights of its passes: testdata/compiled/across_block.txt.
type acrossCase struct {
	name                                               string
	net                                                Net
	batch, length, width, heads, keyHeads, head, inner int64
	forward, backward                                  int64
	own                                                bool // its wrappers are the program
}

func acrossCases(t *testing.T) (list []acrossCase) {
	t.Helper()
	data, err := os.ReadFile("../../../testdata/compiled/across_block.txt")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var release, format, how string
		what, heights, _ := strings.Cut(line, " : ")
		c := acrossCase{name: what, own: i < 4}
		if _, err := fmt.Sscan(what, &release, &format, &how, &c.net.o.TensorParallel, &c.batch, &c.length, &c.width, &c.heads, &c.keyHeads, &c.head, &c.inner); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		fmt.Sscan(heights, &c.forward, &c.backward)
		c.net.o.FP8, c.net.o.Async = format == "fp8", how == "async"
		list = append(list, c)
	}
	return list
}

// heights runs both passes, and says how far either rises above what stands before it.
func (c acrossCase) heights(t *testing.T) (forward, backward int64) {
	t.Helper()
	ranks := c.net.tensorRanks()
	heads, keyHeads, inner, own := c.heads/ranks, c.keyHeads/ranks, c.inner/ranks, c.batch*c.length/ranks
	r := region{width: c.width, heads: heads, kvHeads: keyHeads, head: c.head, inner: inner}
	m := torch.New(torch.Options{Device: torch.H100()})
	inputs := []torch.Tensor{m.Parameter(dtype.BF16, true, own, c.width)}
	for _, shape := range r.weightShapes() {
		inputs = append(inputs, m.Parameter(dtype.BF16, true, shape...))
	}
	w := c.net.wrapperOf(dtype.BF16, c.batch, own, c.width, heads, keyHeads, c.head, inner)
	m.Phase("forward", 1)
	out := m.Keep(m.Apply1(w.function(inputs, func() {}), inputs...))
	m.Phase("backward", 1)
	m.BackwardWith(out, out)
	tl, err := m.Timeline()
	if err != nil {
		t.Fatal(err)
	}
	for i, phase := range tl.Phases {
		var level, peak int64
		for _, e := range tl.Events[phase.First:phase.Last] {
			level += tl.Delta(e)
			peak = max(peak, level)
		}
		if i == len(tl.Phases)-1 {
			backward = peak
		} else if phase.Phase == "forward" {
			forward = peak
		}
	}
	return forward, backward
}

// extra is what flash attention on a GPU holds in its backward beside its results.
func (c acrossCase) extra() int64 {
	return c.batch * c.heads / c.net.tensorRanks() * c.length * (4 + 4*c.head)
}

// TestRecordedAcross: the heights are those of the recorded wrappers, beside what flash
// attention of a GPU works with; of other sizes, which inductor orders otherwise, they
// are at most a sixteenth higher, and what reordering may add is more than is missing.
func TestRecordedAcross(t *testing.T) {
	for _, c := range acrossCases(t) {
		forward, backward := c.heights(t)
		t.Logf("%s: %d, %d", c.name, forward, backward)
		above := backward - c.backward
		switch {
		case forward != c.forward:
			t.Errorf("%s: forward rises by %d, was %d", c.name, forward, c.forward)
		case c.own && above != 0 && above != c.extra():
			t.Errorf("%s: backward rises by %d, was %d", c.name, backward, c.backward)
		case above > c.backward/16+c.extra(), -above > c.backward/12:
			t.Errorf("%s: backward rises by %d, was %d", c.name, backward, c.backward)
		}
	}
}

// TestSabotagedAcross: another way to exchange, or another format, fails the table.
func TestSabotagedAcross(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"how ranks exchange": func(o *Options) { o.Async = !o.Async },
		"FP8":                func(o *Options) { o.FP8 = !o.FP8 },
		"how many ranks":     func(o *Options) { o.TensorParallel /= 2 },
	} {
		for _, c := range acrossCases(t)[:1] {
			change(&c.net.o)
			if forward, _ := c.heights(t); forward == c.forward {
				t.Errorf("%s can be another, and the table does not tell", name)
			}
		}
	}
}
