package torch

import "floodmark/dtype"

// elementwise is the contract of an operator that computes element by element:
// one result of the broadcast shape, in the layout of its operands.
type elementwise struct {
	name     string
	node     string // of backward; empty: no gradient
	class    class
	saves    saving
	backward backward
	boolean  bool // the result is bool
}

// saving says what an operator keeps for backward.
type saving uint8

const (
	savesSelf     saving = 1 << iota
	savesOther           // of two operands
	savesResult          //
	savesCross           // each operand that the other's gradient needs
	savesForOther        // self, where other's gradient is wanted
)

// unary runs an operator of one operand.
func (m *Machine) unaryOp(c *elementwise, x *impl) *impl {
	a := m.eased(x, m.castsTo(c.class, x))
	var n *node
	if c.backward != nil && m.wants(a) {
		n = m.record(c.node, c.backward, a)
	}
	if n != nil && c.saves&savesSelf != 0 {
		m.save(n, a)
	}
	m.sites.op = c.name
	f := a.dtype
	if c.boolean {
		f = dtype.Bool
	}
	out := m.iterated(f, a)
	if n != nil {
		n.computes(out)
		if c.saves&savesResult != 0 {
			m.saveOutput(n, out)
		}
	}
	m.drop(a)
	return out
}

// binaryOp runs an operator of two operands.
func (m *Machine) binaryOp(c *elementwise, x, y *impl) *impl {
	to := m.castsTo(c.class, x, y)
	a, b := m.eased(x, to), m.eased(y, to)
	var n *node
	if c.backward != nil && m.wants(a, b) {
		n = m.record(c.node, c.backward, a, b)
		m.saveOperands(n, c.saves, a, b)
	}
	f := promote(a, b)
	out := m.computedTogether(c, f, a, b)
	if n != nil {
		n.computes(out)
		if c.saves&savesResult != 0 {
			m.saveOutput(n, out)
		}
	}
	m.drop(a, b)
	return out
}

// computedTogether is the kernel of two operands. On a CPU an operand of another
// format is cast first, and the cast goes at the end
// (TensorIterator, promote_inputs_to_common_dtype); CUDA casts while it reads.
func (m *Machine) computedTogether(c *elementwise, f dtype.Format, a, b *impl) *impl {
	var casts [2]*impl
	m.sites.op = c.name
	if m.device.CPU {
		for i, x := range []*impl{a, b} {
			if x.dtype != f && x.dims > 0 {
				casts[i] = m.emptyLike(f, x)
			}
		}
	}
	if c.boolean {
		f = dtype.Bool
	}
	out := m.iterated(f, a, b)
	m.drop(casts[0], casts[1])
	return out
}

// saveOperands keeps operands in the order in which they are released: by name,
// other before self.
func (m *Machine) saveOperands(n *node, s saving, self, other *impl) {
	if s&savesOther != 0 || s&savesCross != 0 && self.requiresGrad {
		m.save(n, other)
	}
	if s&savesSelf != 0 || s&(savesCross|savesForOther) != 0 && other.requiresGrad {
		m.save(n, self)
	}
}

// savedOther and savedSelf are the operands that [Machine.saveOperands] kept.
func (p *pass) savedOther() *impl { return p.n.saved[0] }

func (p *pass) savedSelf() *impl { return p.n.saved[len(p.n.saved)-1] }

// like is a new tensor that a kernel of one operand writes.
func (m *Machine) like(op string, i *impl) *impl {
	m.sites.op = op
	return m.iterated(i.dtype, i)
}

// both is a new tensor that a kernel of two operands writes.
func (m *Machine) both(op string, a, b *impl) *impl {
	m.sites.op = op
	return m.computedTogether(&elementwise{name: op}, promote(a, b), a, b)
}

// Unary is an operator of one operand by its name.
func (m *Machine) Unary(op UnaryOp, x Tensor) Tensor {
	if !(given(x)) {
		return m.refuse(x)
	}
	r := m.unaryOp(&m.unary[op], x.impl)
	m.consume(x)
	return result(r)
}

// Binary is an operator of two operands by its name.
func (m *Machine) Binary(op BinaryOp, a, b Tensor) Tensor {
	if !(together(a, b)) {
		return m.refuse(a, b)
	}
	r := m.binaryOp(&m.binaries[op], a.impl, b.impl)
	m.consume(a, b)
	return result(r)
}

// InPlace is an operator that writes into its first operand, as x.add_(y) does.
// The result is that operand. It is for tensors without a gradient, or whose
// gradient passes unchanged.
func (m *Machine) InPlace(op BinaryOp, x, y Tensor) Tensor {
	if !(together(x, y)) {
		return m.refuse(y)
	}
	c := &m.binaries[op]
	if m.wants(x.impl, y.impl) {
		old := x.impl
		n := m.record(c.node, c.backward, old, y.impl)
		m.saveOperands(n, c.saves, old, y.impl)
		if old.node != nil {
			m.unlink(old.node)
			old.node = nil
		}
		n.computes(old)
	}
	m.consume(y)
	return x
}

// InPlaceScalar is an operator with a number that writes into its operand.
func (m *Machine) InPlaceScalar(op UnaryOp, x Tensor) Tensor {
	c := &m.unary[op]
	if c.backward != nil && m.wants(x.impl) {
		n := m.record(c.node, c.backward, x.impl)
		if x.node != nil {
			m.unlink(x.node)
			x.node = nil
		}
		n.computes(x.impl)
	}
	return x
}
