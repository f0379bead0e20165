package torch

import "floodmark/dtype"

// class is what autocast does with an operator's arguments
// (https://pytorch.org/docs/stable/amp.html#cuda-op-specific-behavior).
type class uint8

const (
	unlisted class = iota
	lower          // computed in the lower format
	float32s       // computed in 32 bits
	widest         // arguments are brought to the widest format among them
)

// autocast is the state of torch.autocast.
type autocast struct {
	format dtype.Format // Unknown: off
	depth  int
	cache  []cachedCast
}

// cachedCast is a weight that was cast: both references are the cache's.
type cachedCast struct{ weight, cast *impl }

// Autocast runs a part of the program under autocast to a format. At the end of
// the outermost one the casts of weights go.
func (m *Machine) Autocast(f dtype.Format, run func()) {
	was := m.casts.format
	m.casts.format = f
	m.casts.depth++
	run()
	m.casts.format = was
	if m.casts.depth--; m.casts.depth > 0 {
		return
	}
	cache := m.casts.cache
	m.casts.cache = nil
	for _, c := range cache {
		m.drop(c.cast)
	}
}

// Autocasts reports that autocast is on.
func (m *Machine) Autocasts() bool { return m.casts.format != dtype.Unknown }

// Lowered is the format in which products of a tensor are computed: that of
// autocast where it is on, else the tensor's own.
func (m *Machine) Lowered(t Tensor) dtype.Format {
	if to := m.castsTo(lower, t.impl); to != dtype.Unknown && isFloat(t.dtype) {
		return to
	}
	return t.dtype
}

// castsTo is the format that an operator of a class computes in; Unknown where
// its arguments stay as they are.
func (m *Machine) castsTo(c class, args ...*impl) dtype.Format {
	switch {
	case m.casts.format == dtype.Unknown:
	case c == lower:
		return m.casts.format
	case c == float32s && !m.device.CPU:
		return dtype.F32
	case c == widest:
		to := m.casts.format
		for _, a := range args {
			if a != nil && isFloat(a.dtype) {
				to = wider(to, a.dtype)
			}
		}
		return to
	}
	return dtype.Unknown
}

// eased is an argument as an operator takes it: itself, or a cast of it, with a
// reference to end in both cases.
func (m *Machine) eased(i *impl, to dtype.Format) *impl {
	if i == nil {
		return nil
	}
	if to == dtype.Unknown || i.dtype == to || !isFloat(i.dtype) || i.dtype == dtype.F64 {
		return retain(i)
	}
	cacheable := to == m.casts.format && i.dtype == dtype.F32 && i.requiresGrad && i.leaf() && i.base == nil && !i.flat &&
		(m.inference == 0 || m.release.cachesInInferenceMode())
	if !cacheable {
		return m.toCopy(i, to)
	}
	for _, c := range m.casts.cache {
		if c.weight == i {
			return retain(c.cast)
		}
	}
	// A cast that is kept has its history even where none is recorded: it may be
	// used again where one is.
	noGrad := m.noGrad
	if m.release.castsWithHistory() {
		m.noGrad = 0
	}
	c := m.toCopy(i, to)
	m.noGrad = noGrad
	m.casts.cache = append(m.casts.cache, cachedCast{i, retain(c)})
	return c
}

// toCopy is a cast that backward casts back.
func (m *Machine) toCopy(i *impl, to dtype.Format) *impl {
	var n *node
	if m.wants(i) && isFloat(to) {
		n = m.record("ToCopyBackward0", toCopyBackward, i)
	}
	out := m.cast(i, to)
	return attach(n, out)
}

// attach makes the result of an operator the output of its node, if it has one.
func attach(n *node, out *impl) *impl {
	if n != nil {
		n.computes(out)
	}
	return out
}

func toCopyBackward(p *pass) {
	to := p.n.next[0].node.outputs[p.n.next[0].input].dtype
	if p.grad().dtype == to {
		p.same(0, p.grad())
		return
	}
	p.give(0, p.m.cast(p.grad(), to))
}

// To is a tensor in another format: itself where it has it.
func (m *Machine) To(t Tensor, f dtype.Format) Tensor {
	if t.dtype == f {
		return t
	}
	r := m.toCopy(t.impl, f)
	m.consume(t)
	return result(r)
}
