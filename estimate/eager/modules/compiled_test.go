package modules

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/timeline"
)

// What a compiled block keeps is what the partition of PyTorch 2.6 and 2.15 kept, to
// the byte, tensor by tensor.
func TestCompiledBlockKeeps(t *testing.T) {
	for _, c := range compiledCases(t) {
		if got := keptBytes(c.region); !slices.Equal(got, c.kept) {
			t.Errorf("%s: keeps %v, recorded are %v", c.name, got, c.kept)
		}
	}
}

// Without the product of the gate no recorded case is met.
func TestCompiledBlockMissesItsGate(t *testing.T) {
	for _, c := range compiledCases(t) {
		c.region.kept.gate = false
		if slices.Equal(keptBytes(c.region), c.kept) {
			t.Errorf("%s is met without the gate", c.name)
		}
	}
}

// Backward ends with the gradients alone: what was kept and what was made is gone.
func TestCompiledBackwardEndsWithGradients(t *testing.T) {
	for _, c := range compiledCases(t) {
		c.region.run(func(m *torch.Machine, out torch.Tensor) {
			m.Phase("backward", 1)
			m.Backward(m.Sum(out, false))
		}, func(alive []int64) {
			r := c.region
			positions := r.batch * r.length
			want := []int64{2 * positions * r.width, 2 * positions * r.width} // the input and its gradient
			for _, elements := range r.weightShapes() {
				want = append(want, 2*elements[0]*elements[1], 2*elements[0]*elements[1])
			}
			slices.Sort(want)
			if !slices.Equal(alive, want) {
				t.Errorf("%s: %v are alive, expected are %v", c.name, alive, want)
			}
		})
	}
}

type compiledCase struct {
	name   string
	region region
	kept   []int64
}

// compiledCases are the recorded ones: testdata/compiled/llama_block.txt.
func compiledCases(t *testing.T) []compiledCase {
	data, err := os.ReadFile("../../../testdata/compiled/llama_block.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []compiledCase
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		what, bytes, _ := strings.Cut(line, " : ")
		c := compiledCase{name: what, region: region{format: dtype.BF16}}
		r, how, release := &c.region, "", ""
		if _, err := fmt.Sscan(what, &release, &how, &r.batch, &r.length, &r.width, &r.heads, &r.kvHeads, &r.head, &r.inner); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		n := &Net{o: Options{Chooses: how == "selective"}}
		r.kept = n.keptBy(&layer{})
		for _, field := range strings.Fields(bytes) {
			var b int64
			fmt.Sscan(field, &b)
			c.kept = append(c.kept, b)
		}
		list = append(list, c)
	}
	return list
}

func (r region) weightShapes() [][]int64 {
	q, kv := r.heads*r.head, r.kvHeads*r.head
	return [][]int64{{r.width, 1}, {q, r.width}, {kv, r.width}, {kv, r.width}, {r.width, q}, {r.width, 1}, {r.inner, r.width}, {r.inner, r.width}, {r.width, r.inner}}
}

// run runs the region on a machine, then more, and reads what is alive.
func (r region) run(more func(*torch.Machine, torch.Tensor), read func([]int64)) {
	m := torch.New(torch.Options{Device: torch.H100()})
	x := m.Parameter(r.format, true, r.batch, r.length, r.width)
	var weights []torch.Tensor
	for _, shape := range r.weightShapes() {
		weights = append(weights, m.Parameter(r.format, true, shape...))
	}
	m.Phase("forward", 1)
	out := m.Keep(m.Apply1(r.function(x, weights), append([]torch.Tensor{x}, weights...)...))
	if more != nil {
		more(m, out)
		m.Drop(out)
	}
	tl, err := m.Timeline()
	if err != nil {
		panic(err)
	}
	var alive []int64
	dead := map[uint32]bool{}
	for _, e := range tl.Events {
		if e.Kind == timeline.FreeCompleted {
			dead[e.Alloc] = true
		}
	}
	for i, a := range tl.Allocs {
		if !dead[uint32(i)] {
			alive = append(alive, a.Requested)
		}
	}
	slices.Sort(alive)
	read(alive)
}

// keptBytes is what is alive after a forward beside the input, the weights and the
// output.
func keptBytes(r region) (kept []int64) {
	r.run(nil, func(alive []int64) {
		kept = alive
		gone := []int64{2 * r.batch * r.length * r.width, 2 * r.batch * r.length * r.width}
		for _, shape := range r.weightShapes() {
			gone = append(gone, 2*shape[0]*shape[1])
		}
		for _, g := range gone {
			at := slices.Index(kept, g)
			kept = slices.Delete(kept, at, at+1)
		}
	})
	return kept
}
