package torch

// Frame is a running function of Python: its local names and, of a module, the
// arguments that the call holds.
type Frame struct {
	m      *Machine
	locals []*impl // references, in the order in which the names were first bound
	held   []*impl // references of the call, which go after the locals
	module uint32
}

// Module enters a module's forward, which is called name within the module that
// runs. The arguments become names of the frame. The call holds them too, until
// it returns, whatever the forward does with its names.
func (m *Machine) Module(name string, args ...*Tensor) *Frame {
	f := m.Function(args...)
	f.module = m.sites.enter(name)
	for _, a := range f.locals {
		if a != nil {
			a.refs++
		}
		f.held = append(f.held, a)
	}
	return f
}

// Function enters a function. The arguments become names of the frame, and
// nobody else holds a temporary then (from Python 3.11 on).
func (m *Machine) Function(args ...*Tensor) *Frame {
	f := &Frame{m: m, module: m.sites.module}
	for _, a := range args {
		if a.impl != nil && a.slot != temporary {
			a.refs++
		}
		f.locals = append(f.locals, a.impl)
		a.slot = int16(len(f.locals))
	}
	return f
}

// Let gives a value a new name in the frame.
func (f *Frame) Let(t Tensor) Tensor {
	if t.impl != nil && t.slot != temporary {
		t.refs++
	}
	f.locals = append(f.locals, t.impl)
	t.slot = int16(len(f.locals))
	return t
}

// Set binds a name of the frame again: the old value goes when the new one is
// there.
func (f *Frame) Set(name *Tensor, value Tensor) {
	if name.slot <= 0 || int(name.slot) > len(f.locals) {
		*name = f.Let(value)
		return
	}
	if value.impl != nil && value.slot != temporary {
		value.refs++
	}
	old := f.locals[name.slot-1]
	f.locals[name.slot-1] = value.impl
	name.impl = value.impl
	f.m.drop(old)
}

// Del ends a name of the frame.
func (f *Frame) Del(name *Tensor) { f.Set(name, Tensor{}) }

// Return leaves the frame with a value: names go in order, arguments first, and
// of a module at last what the call held.
func (f *Frame) Return(t Tensor) Tensor {
	t = f.keep(t)
	f.leave()
	return t
}

// Return2 leaves the frame with two values.
func (f *Frame) Return2(a, b Tensor) (Tensor, Tensor) {
	a, b = f.keep(a), f.keep(b)
	f.leave()
	return a, b
}

// Return3 leaves the frame with three values.
func (f *Frame) Return3(a, b, c Tensor) (x, y, z Tensor) {
	x, y, z = f.keep(a), f.keep(b), f.keep(c)
	f.leave()
	return x, y, z
}

// End leaves the frame without a value.
func (f *Frame) End() { f.leave() }

func (f *Frame) keep(t Tensor) Tensor {
	if t.impl != nil && t.slot != temporary {
		t.refs++
	}
	t.slot = temporary
	return t
}

func (f *Frame) leave() {
	f.m.drop(f.locals...)
	f.m.drop(f.held...)
	f.locals, f.held = nil, nil
	f.m.sites.module = f.module
}

// Scope names a part of the program that is no call; leave ends it.
func (m *Machine) Scope(name string) (leave func()) {
	from := m.sites.enter(name)
	return func() { m.sites.module = from }
}

// consume ends the temporaries that an operator took, from left to right.
func (m *Machine) consume(list ...Tensor) {
	for _, t := range list {
		if t.slot == temporary && t.impl != nil {
			m.release1(t.impl)
		}
	}
}

// Drop ends a tensor that its maker holds, or a temporary that nobody takes.
func (m *Machine) Drop(list ...Tensor) {
	for _, t := range list {
		if t.impl != nil {
			m.release1(t.impl)
		}
	}
}

// Keep takes a temporary out of all frames: its maker holds it until [Machine.Drop].
func (m *Machine) Keep(t Tensor) Tensor {
	if t.impl != nil && t.slot != temporary {
		t.refs++
	}
	t.slot = 0
	return t
}

// result is what an operator returns.
func result(i *impl) Tensor { return Tensor{impl: i, slot: temporary} }

// NoGrad runs a part of the program that is not recorded for backward.
func (m *Machine) NoGrad(run func()) {
	m.noGrad++
	run()
	m.noGrad--
}

// InferenceMode runs a part of the program without backward and without views
// that know what they are views of.
func (m *Machine) InferenceMode(run func()) {
	m.inference++
	run()
	m.inference--
}
