package torch

import "floodmark/dtype"

// Packed is a weight that bitsandbytes keeps in 4 bits: half a byte an element,
// and a scale for each block, which with double quantisation is packed itself.
type Packed struct {
	Weight Tensor // the packed bytes
	Shape  []int64
	Format dtype.Format // into which it is unpacked
	Block  int64        // elements that share a scale
	Nested bool         // the scales are packed too
	// KeepsInput says that the input lives as long as the graph does, beyond
	// backward: it is an attribute of the node, which nothing reads and backward
	// does not release.
	KeepsInput bool
	// Torchao says that it is an NF4Tensor of torchao, which unpacks itself in other
	// steps. Beside is what it keeps beside its words.
	Torchao bool
	Beside  []Tensor
}

// scalesOf is the scales in 32 bits where they must be unpacked first.
func (m *Machine) scalesOf(p Packed) *impl {
	if !p.Nested {
		return nil
	}
	m.sites.op = "dequantize_blockwise"
	return m.empty(dtype.F32, []int64{ceilDiv(product(p.Shape), p.Block)})
}

// unpacked is the whole weight in the format of the product it goes into.
func (m *Machine) unpacked(p Packed, f dtype.Format) *impl {
	if p.Torchao {
		return m.fromNF4(p)
	}
	scales := m.scalesOf(p)
	m.sites.op = "dequantize_4bit"
	w := m.empty(p.Format, p.Shape)
	m.drop(scales)
	if p.Format == f {
		return w
	}
	c := m.cast(w, f)
	m.drop(w)
	return c
}

// Linear4Bit is bitsandbytes' MatMul4Bit: the weight is unpacked in whole for
// every product, in backward once more, and since 0.44 the input is not kept
// (https://github.com/bitsandbytes-foundation/bitsandbytes/blob/0.45.3/bitsandbytes/autograd/_functions.py).
// Before that it was, as an attribute of the node (ctx.tensors of 0.43.1).
// Worked number: a weight of 4096 × 11008 in bfloat16 needs 90,177,536 bytes for
// the moment of each product, and 2,818,048 for its scales before that.
func (m *Machine) Linear4Bit(x Tensor, p Packed, bias Tensor) Tensor {
	a := x.impl
	var n *node
	if m.wants(a, bias.impl) {
		n = m.record("MatMul4Bit", packedBackward, a, bias.impl)
		n.packed = &p
		if p.KeepsInput {
			n.attribute = retain(a)
			m.keptForBackward(a.storage)
		}
	}
	m.noGrad++
	w := m.unpacked(p, a.dtype)
	out := m.linear(a, w, bias.impl)
	m.noGrad--
	m.drop(w)
	attach(n, out)
	m.consume(x, bias)
	return result(out)
}

// packedBackward: the bias's gradient, then the input's: the output's gradient
// times the weight, which is unpacked again.
func packedBackward(p *pass) {
	m := p.m
	if p.needs(1) {
		p.give(1, m.sumTo(p.grad(), p.n.next[1].node.outputs[p.n.next[1].input]))
	}
	if p.needs(0) {
		w := m.unpacked(*p.n.packed, p.grad().dtype)
		p.give(0, m.matmul(p.grad(), w))
		m.drop(w)
	}
}
