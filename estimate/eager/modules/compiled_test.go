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
// the byte, tensor by tensor; in FP8 too, beside scalars.
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
		if !c.region.kept.gate {
			continue
		}
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

// A compiled loss keeps what the code that inductor wrote keeps beside logits and
// labels, and its backward makes what that code makes.
func TestCompiledLossKeeps(t *testing.T) {
	lossCases(t, func(name string, n *Net, logits, labels torch.Tensor, kept, made []int64) {
		if gotKept, gotMade := heldByLoss(n.m, func() torch.Tensor { return n.compiledLoss(logits, labels) }); !slices.Equal(gotKept, kept) || !slices.Equal(gotMade, made) {
			t.Errorf("%s: keeps %v and makes %v, recorded are %v and %v", name, gotKept, gotMade, kept, made)
		}
	})
}

// The loss of operators, whose logits are in 32 bits, meets no recorded case.
func TestCompiledLossIsNotEager(t *testing.T) {
	lossCases(t, func(name string, n *Net, logits, labels torch.Tensor, kept, made []int64) {
		gotKept, gotMade := heldByLoss(n.m, func() torch.Tensor {
			return n.m.CrossEntropy(n.m.To(n.m.Reshape(logits, -1, logits.Size(-1)), dtype.F32), n.m.Reshape(labels, -1))
		})
		if slices.Equal(gotKept, kept) || slices.Equal(gotMade, made) {
			t.Errorf("%s is met in eager mode", name)
		}
	})
}

// lossCases are the recorded losses: testdata/compiled/loss.txt.
func lossCases(t *testing.T, each func(name string, n *Net, logits, labels torch.Tensor, kept, made []int64)) {
	data, err := os.ReadFile("../../../testdata/compiled/loss.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(string(data)), "\n") {
		var release string
		var batch, length, vocabulary int64
		parts := strings.Split(line, " : ")
		if _, err := fmt.Sscan(parts[0], &release, &batch, &length, &vocabulary); err != nil || len(parts) != 3 {
			t.Fatalf("%s: %v", line, err)
		}
		m := torch.New(torch.Options{Device: torch.H100()})
		logits := m.Parameter(dtype.BF16, true, batch, length, vocabulary)
		labels := m.Parameter(dtype.I64, false, batch, length)
		each(parts[0], &Net{m: m}, logits, labels, numbers(parts[1]), numbers(parts[2]))
	}
}

// heldByLoss is what a loss keeps between forward and backward beside itself and its
// operands, which are there before, and what its backward makes.
func heldByLoss(m *torch.Machine, loss func() torch.Tensor) (kept, made []int64) {
	kept, made = heldAfter(m, loss)
	kept = slices.Delete(kept, slices.Index(kept, 4), slices.Index(kept, 4)+1) // the loss
	return kept, made[1:]                                                      // and its gradient
}

// heldAfter is what stands between forward and backward of a function, its result among
// it, and what its backward makes.
func heldAfter(m *torch.Machine, forward func() torch.Tensor) (kept, made []int64) {
	m.Phase("forward", 1)
	l := m.Keep(forward())
	m.Phase("backward", 1)
	m.Backward(m.Hold(l))
	tl, err := m.Timeline()
	if err != nil {
		panic(err)
	}
	for moment, e := range tl.Events {
		size := tl.Allocs[e.Alloc].Requested
		switch backward := tl.Phases[len(tl.Phases)-1].First; {
		case e.Kind == timeline.Born && moment >= backward:
			made = append(made, size)
		case e.Kind == timeline.Born:
			kept = append(kept, size)
		case e.Kind == timeline.FreeCompleted && moment < backward:
			kept = slices.Delete(kept, slices.Index(kept, size), slices.Index(kept, size)+1)
		}
	}
	slices.Sort(kept)
	slices.Sort(made)
	return kept, made
}

func numbers(text string) (list []int64) {
	for _, field := range strings.Fields(text) {
		var n int64
		fmt.Sscan(field, &n)
		list = append(list, n)
	}
	return list
}

type compiledCase struct {
	name   string
	region region
	kept   []int64
}

// compiledCases are the recorded ones, in 16 bits, with products in FP8, and with query,
// key and value in one product.
func compiledCases(t *testing.T) []compiledCase {
	var list []compiledCase
	for _, name := range []string{"llama_block.txt", "float8_block.txt", "fused_block.txt"} {
		data, err := os.ReadFile("../../../testdata/compiled/" + name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, compiledCasesOf(t, string(data), name == "fused_block.txt")...)
	}
	return list
}

func compiledCasesOf(t *testing.T, data string, fused bool) (list []compiledCase) {
	for _, line := range strings.Split(strings.TrimSpace(data), "\n") {
		what, bytes, _ := strings.Cut(line, " :")
		c := compiledCase{name: what, region: region{format: dtype.BF16, fused: fused}}
		r, how, release := &c.region, "", ""
		if _, err := fmt.Sscan(what, &release, &how, &r.batch, &r.length, &r.width, &r.heads, &r.kvHeads, &r.head, &r.inner); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		n := &Net{o: Options{Chooses: how == "selective", Checkpointing: how == "full"}}
		r.kept = n.keptBy(&layer{})
		c.kept = numbers(bytes)
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
