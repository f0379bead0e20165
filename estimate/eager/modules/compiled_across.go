package modules

import (
	_ "embed"
	"strconv"
	"strings"

	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
)

// What a block of torchtitan's Llama becomes under torch.compile between tensor-parallel
// ranks where it is computed again (a full checkpoint inside of the compiled region, of
// which nothing but the input stays): the buffers that the wrapper of inductor makes and
// lets go of, in their order. Recorded with PyTorch 2.6.0 and torchao 0.8.0 by
// oracle/compiled_across.py, of Llama 3.1 405B over 8 ranks, 4 sequences of 8,192; a
// wrapper for a CPU, whose fusions are others than a GPU's. What symmetric memory makes
// for a product is from torch/distributed/_symmetric_memory/__init__.py of that release.
//
// A line is the format of the products, how ranks exchange (async: through symmetric
// memory), the pass, and its buffers, counted from 0: +PD2 is one of P times D elements of
// 2 bytes, -3 the end of the fourth, F3 flash attention whose query is that, which makes
// two, B3 its backward, which makes three, = what is given out: the result, or the
// gradients of the input and of the weights.
//
//go:embed compiled_across.txt
var acrossText string

// wrapper is such a block: one pass of it while it runs.
type wrapper struct {
	buffers
	gradients *torch.Gradients // of backward
	programs  [2]string        // of forward and of backward
	format    dtype.Format
	sizes     []int64 // of the letters of dimensions
	query     []int64
	made      []torch.Tensor
}

// wrapperOf is the block of a rank with so many positions of its own, and with all of
// them in attention and products.
func (n *Net) wrapperOf(format dtype.Format, batch, own, width, heads, keyHeads, head, inner int64) wrapper {
	all := own * n.tensorRanks()
	return wrapper{programs: [2]string{n.acrossProgram(" forward "), n.acrossProgram(" backward ")}, format: format, query: []int64{batch, heads, all / batch, head},
		sizes: []int64{all, own, width, heads * head, keyHeads * head, inner, heads}}
}

// dimensions are the letters of a block's sizes: P positions, S those of one rank, D
// width, Q and K the rank's width of queries and of keys, I that of its network, H its
// query heads.
const dimensions = "PSDQKIH"

// acrossProgram is the recorded wrapper of a pass.
func (n *Net) acrossProgram(pass string) string {
	name := "\n16"
	if n.o.FP8 {
		name = "\nfp8"
	}
	if n.o.Async {
		name += " async"
	} else {
		name += " sync"
	}
	_, program, _ := strings.Cut(acrossText, name+pass)
	program, _, _ = strings.Cut(program, "\n")
	return program
}

// acrossBlock is the block as a compiled region of a rank, of which x has the rank's
// positions. Worked number: of Llama 3.1 405B over 8 ranks backward of 4 sequences of
// 8,192 positions in FP8 makes 8,780,840,960 bytes at its height, among them three
// partial sums of 1,073,741,824 and six gathered tensors of 536,870,912.
func (n *Net) acrossBlock(l *layer, x torch.Tensor, batch int64) torch.Tensor {
	a := l.Mixers[0].(model.Attention)
	inputs := []torch.Tensor{x, l.at(model.RoleNorm, 0).weight, l.one(model.RoleQuery), l.one(model.RoleKey), l.one(model.RoleValue), l.one(model.RoleAttentionOutput),
		l.at(model.RoleNorm, 1).weight, l.one(model.RoleGate), l.one(model.RoleUp), l.one(model.RoleDown)}
	width := x.Size(-1)
	w := n.wrapperOf(x.Dtype(), batch, x.Elements()/width, width, int64(a.QueryHeads), int64(a.KVHeads), int64(a.KeyDim), inputs[7].Size(0))
	n.blocksFrom = 0
	return n.m.Apply1(w.function(inputs, n.backs), inputs...)
}

// function is the block as an operator on its input and weights, which is all that it
// keeps; it tells of each backward.
func (w wrapper) function(inputs []torch.Tensor, begins func()) torch.Function {
	return torch.Function{Name: "CompiledFunction",
		Forward: func(c *torch.Call) []torch.Tensor {
			c.Save(inputs...)
			forward := w
			forward.buffers = c
			return []torch.Tensor{c.Alias(forward.run(w.programs[0])[0], inputs[0].Shape()...)}
		},
		Backward: func(g *torch.Gradients) {
			begins()
			backward := w
			backward.buffers, backward.gradients = g, g
			for i, out := range backward.run(w.programs[1]) {
				g.Give(i, g.Alias(out, inputs[i].Shape()...))
			}
		},
	}
}

// run runs a program, and returns what it gives out.
func (w *wrapper) run(program string) (out []torch.Tensor) {
	for _, token := range strings.Fields(program) {
		at, _ := strconv.Atoi(token[1:])
		switch token[0] {
		case '+':
			w.made = append(w.made, w.sized(token[1:]))
		case '-':
			w.Free(w.made[at])
		case 'F', 'B':
			query := w.Alias(w.made[at], w.query...)
			if token[0] == 'F' {
				o, lse := w.Flash(query, query)
				w.made = append(w.made, o, lse)
			} else {
				q, k, v := w.gradients.FlashGradients(query, query, query)
				w.made = append(w.made, q, k, v)
			}
			w.Free(query)
		case '=':
			for _, number := range strings.Split(token[1:], ",") {
				at, _ := strconv.Atoi(number)
				out = append(out, w.made[at])
			}
		}
	}
	return out
}

// sized is a buffer of so many elements, whose last letter is their bytes.
func (w *wrapper) sized(size string) torch.Tensor {
	last, shape := len(size)-1, []int64{} // not their product, which may overflow
	for i := range last {
		shape = append(shape, w.sizes[strings.IndexByte(dimensions, size[i])])
	}
	switch size[last] {
	case '1':
		return w.Empty(dtype.F8E4M3, shape...)
	case '2':
		return w.Empty(w.format, shape...)
	}
	return w.Empty(dtype.F32, shape...)
}

// acrossLacks is why a compiled block between tensor-parallel ranks is not known.
func (n *Net) acrossLacks(l *layer) string {
	if n.o.Chooses || !n.titanRecomputes(l) {
		return "what torch.compile keeps of a block between tensor-parallel ranks is known where each block is computed again (full checkpoints) alone"
	}
	return ""
}

// reorderedAcross is the operands of the gradients of all matrices, which stay until
// these are made where they are made last: four tensors of the whole width, and those of
// the rank's part of queries, keys and network. The recorded wrapper keeps some of them
// at its height. Worked number: over 32,768 positions of Llama 3.1 405B between 8 ranks
// 2,948,595,712 bytes in FP8.
func (n *Net) reorderedAcross(l *layer, positions int64) int64 {
	width := 4*l.one(model.RoleQuery).Size(1) + 3*l.one(model.RoleGate).Size(0)
	for _, role := range []model.Role{model.RoleQuery, model.RoleKey, model.RoleValue} {
		width += l.one(role).Size(0)
	}
	width += l.one(model.RoleAttentionOutput).Size(1)
	format := l.at(model.RoleNorm, 0).weight.Dtype()
	if n.o.FP8 {
		format = dtype.F8E4M3
	}
	bytes, _ := format.Size([]int64{positions, width})
	return bytes
}
