package torch

import "floodmark/dtype"

// Function is a torch.autograd.Function: an operator that a program brings along.
// Its forward is not recorded; its backward is one node of the graph.
type Function struct {
	Name string
	// Forward makes the results. What it makes beside them and does not free goes
	// when it returns.
	Forward func(*Call) []Tensor
	// Backward gives the gradients of the inputs.
	Backward func(*Gradients)
}

// Call is one run of a function's forward.
type Call struct {
	m     *Machine
	made  []*impl // references
	saved []*impl // references
}

// Empty is a new tensor that the call holds.
func (c *Call) Empty(f dtype.Format, shape ...int64) Tensor {
	i := c.m.empty(f, shape)
	c.made = append(c.made, i)
	return Tensor{impl: i}
}

// Free ends a tensor that the call made.
func (c *Call) Free(t Tensor) { c.made = c.m.dropFrom(c.made, t.impl) }

// Choose is an operator of the call whose result a checkpoint may keep by its name: it
// is made, or what was kept is taken.
func (c *Call) Choose(op string, f dtype.Format, shape ...int64) Tensor {
	if kept := c.m.recalled(op); kept != nil {
		c.made = append(c.made, kept[0])
		return Tensor{impl: kept[0]}
	}
	t := c.Empty(f, shape...)
	c.m.remember(t.impl)
	return t
}

// Save keeps tensors for backward (ctx.save_for_backward).
func (c *Call) Save(list ...Tensor) {
	for _, t := range list {
		if t.impl != nil {
			c.saved = append(c.saved, c.m.alias(t.impl))
		}
	}
}

// dropFrom drops a reference of a list, where the list has it.
func (m *Machine) dropFrom(list []*impl, i *impl) []*impl {
	for n, have := range list {
		if have == i {
			m.drop(i)
			return append(list[:n], list[n+1:]...)
		}
	}
	return list
}

// Apply runs a function on inputs, as an operator.
func (m *Machine) Apply(f Function, inputs ...Tensor) []Tensor {
	impls := make([]*impl, len(inputs))
	for n, t := range inputs {
		impls[n] = t.impl
	}
	wants := m.wants(impls...)
	c := &Call{m: m}
	m.sites.op = f.Name
	m.noGrad++
	results := f.Forward(c)
	m.noGrad--
	if wants {
		n := m.record(f.Name+"Backward", func(p *pass) { f.run(p, len(inputs)) }, impls...)
		m.saveResults(n, c.saved...)
		for _, r := range results {
			n.computes(r.impl)
		}
	}
	m.drop(c.saved...)
	out := make([]Tensor, len(results))
	for n, r := range results {
		out[n] = result(retain(r.impl))
	}
	m.drop(c.made...)
	m.consume(inputs...)
	return out
}

// Apply1 is [Machine.Apply] of a function with one result.
func (m *Machine) Apply1(f Function, inputs ...Tensor) Tensor { return m.Apply(f, inputs...)[0] }

func (f Function) run(p *pass, inputs int) {
	p.m.sites.op = f.Name
	g := &Gradients{p: p}
	f.Backward(g)
	p.m.drop(g.made...)
}

// Gradients is one run of a function's backward.
type Gradients struct {
	p    *pass
	made []*impl // references
}

// Grad is the gradient of a result; None where none arrived.
func (g *Gradients) Grad(result int) Tensor { return Tensor{impl: g.p.in[result]} }

// Saved is a tensor that forward saved.
func (g *Gradients) Saved(i int) Tensor { return Tensor{impl: g.p.saved(i)} }

// Needs reports that somebody wants the gradient of an input.
func (g *Gradients) Needs(input int) bool { return g.p.needs(input) }

// Empty is a new tensor that the run holds.
func (g *Gradients) Empty(f dtype.Format, shape ...int64) Tensor {
	i := g.p.m.empty(f, shape)
	g.made = append(g.made, i)
	return Tensor{impl: i}
}

// Free ends a tensor that the run made.
func (g *Gradients) Free(t Tensor) { g.made = g.p.m.dropFrom(g.made, t.impl) }

// Release ends a saved tensor before the run does.
func (g *Gradients) Release(i int) {
	g.p.m.drop(g.p.n.saved[i])
	g.p.n.saved[i] = nil
}

// Give is the gradient of an input.
func (g *Gradients) Give(input int, t Tensor) { g.p.out[input] = retain(t.impl) }

// Alias is another tensor over the storage of t, in another shape of as many
// elements, that backward may give on.
func (g *Gradients) Alias(t Tensor, shape ...int64) Tensor {
	a := g.p.m.alias(t.impl)
	a.reshaped(shape)
	g.made = append(g.made, a)
	return Tensor{impl: a}
}

// Alias is another tensor over the storage of t, in another shape of as many
// elements.
func (c *Call) Alias(t Tensor, shape ...int64) Tensor {
	a := c.m.alias(t.impl)
	a.reshaped(shape)
	c.made = append(c.made, a)
	return Tensor{impl: a}
}

func (i *impl) reshaped(shape []int64) {
	i.dims = int8(len(shape))
	i.size = [maxDims]int64{}
	copy(i.size[:], shape)
	i.contiguousStrides()
}

// ReduceInto says that the gradient of a leaf is added to a buffer of the
// program's as soon as it is there, and goes (Megatron's main_grad).
func (m *Machine) ReduceInto(p Tensor) { p.reduced = true }

// Deallocate frees the bytes of a tensor of which only the graph is used any
// more: its data becomes that of an empty one. Views and saved tensors keep
// theirs.
func (m *Machine) Deallocate(t Tensor) {
	m.sites.op = "deallocate"
	old := t.storage
	t.storage = m.allocate(itemSize(t.dtype), termTemporaries)
	m.free(old)
}

// Hold is one more name for a tensor, for its maker to drop.
func (m *Machine) Hold(t Tensor) Tensor {
	if t.impl != nil {
		t.refs++
	}
	t.slot = 0
	return t
}

// PlaceIn puts a tensor into the storage of another one, which holds it from then
// on; its own goes (param.data = a view of the buffer).
func (m *Machine) PlaceIn(t, buffer Tensor) {
	old := t.storage
	t.storage = buffer.storage
	t.storage.refs++
	m.free(old)
}
