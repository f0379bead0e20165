package torch

import "floodmark/dtype"

// Checkpoint runs a part of the forward so that backward runs it again instead of
// keeping what its operators save: torch.utils.checkpoint. run must make the same
// operators from its arguments every time. The arguments are kept.
func (m *Machine) Checkpoint(reentrant bool, run func(args []Tensor) Tensor, args ...Tensor) Tensor {
	if m.noGrad > 0 || m.inference > 0 || m.packing != nil || m.replaying != nil {
		m.chosen = nil
		return m.runPlain(run, args)
	}
	r := &recompute{run: run, format: m.casts.format, module: m.sites.module, chosen: m.chosen}
	m.chosen = nil
	if r.chosen != nil {
		r.calls = map[string]int{}
	}
	for _, a := range args {
		r.args = append(r.args, retain(a.impl))
		m.keptForBackward(a.storage)
	}
	var out Tensor
	if reentrant {
		out = m.checkpointReentrant(r)
	} else {
		out = m.checkpointPacked(r)
	}
	m.consume(args...)
	return out
}

// Chosen says which results a checkpoint keeps: of the n-th call of an operator, by
// its name and counted from 1.
type Chosen func(op string, n int) bool

// CheckpointKeeping is [Machine.Checkpoint] not reentrant which keeps the results of
// chosen operators: forward keeps them beside the arguments, and where the part runs
// again each is taken from there instead of being computed
// (https://github.com/pytorch/pytorch/blob/v2.4.0/torch/utils/checkpoint.py,
// create_selective_checkpoint_contexts).
func (m *Machine) CheckpointKeeping(chosen Chosen, run func(args []Tensor) Tensor, args ...Tensor) Tensor {
	m.chosen = chosen
	return m.Checkpoint(false, run, args...)
}

// recalled is the results of an operator that a checkpoint kept, where it runs again;
// nil where they are to be made.
func (m *Machine) recalled(op string) []*impl {
	r := m.packing
	if m.replaying != nil {
		r = m.replaying
	}
	if r == nil || r.chosen == nil || m.stopped {
		return nil
	}
	r.calls[op]++
	r.takes = r.chosen(op, r.calls[op])
	if m.replaying == nil || !r.takes || len(r.kept) == 0 {
		return nil
	}
	list := r.kept[0]
	r.kept = r.kept[1:]
	return list
}

// remember keeps the results of the operator that [Machine.recalled] was asked for,
// where the checkpoint chose it.
func (m *Machine) remember(results ...*impl) {
	r := m.packing
	if r == nil || m.replaying != nil || !r.takes {
		return
	}
	r.takes = false
	list := make([]*impl, len(results))
	for n, i := range results {
		if i != nil {
			list[n] = m.alias(i)
			m.keptForBackward(i.storage)
		}
	}
	r.kept = append(r.kept, list)
}

func (m *Machine) runPlain(run func([]Tensor) Tensor, args []Tensor) Tensor {
	held := make([]Tensor, len(args))
	for i, a := range args {
		held[i] = Tensor{impl: a.impl}
	}
	out := run(held)
	m.consume(args...)
	return out
}

// recompute is a part of the forward that runs again in backward.
type recompute struct {
	run    func([]Tensor) Tensor
	args   []*impl // references
	format dtype.Format
	module uint32

	refs  int     // nodes that wait for what it saved
	count int     // tensors that its operators save
	next  int     // the tensor that is saved next, while it runs again
	saved []*impl // what it saved when it ran again: references
	done  bool

	chosen Chosen // nil: nothing is kept
	calls  map[string]int
	takes  bool      // the operator that runs is chosen
	kept   [][]*impl // results that were: references, in their order
}

// checkpointPacked is use_reentrant=False: nodes are recorded as ever, but what
// they save is a place in a list. When the first of them runs in backward, the
// part runs again and fills the list; it stops when the last tensor is there.
// Each node's tensors go when it has run.
func (m *Machine) checkpointPacked(r *recompute) Tensor {
	m.packing = r
	out := r.run(r.tensors())
	m.packing = nil
	if r.refs == 0 {
		m.dropKept(r)
		m.drop(r.args...)
	}
	return out
}

// tensors are the arguments, held by the checkpoint.
func (r *recompute) tensors() []Tensor {
	list := make([]Tensor, len(r.args))
	for i, a := range r.args {
		list[i] = Tensor{impl: a}
	}
	return list
}

// pack notes that a node saves a tensor which will be computed again.
func (m *Machine) pack(n *node) {
	r := m.packing
	if n.program == nil {
		n.program, n.firstSaved = r, int32(r.count)
		r.refs++
	}
	n.saved = append(n.saved, nil)
	r.count++
}

// refill keeps a tensor that is computed again. After the last one nothing more
// is computed.
func (m *Machine) refill(i *impl) {
	r := m.replaying
	if r.next < r.count {
		a := m.alias(i)
		m.keptForBackward(i.storage)
		r.saved[r.next] = a
	}
	if r.next++; r.next == r.count && m.release.stopsRecomputing() {
		m.stopped = true
	}
}

// unpack gives a node what it saved, after the part ran again.
func (m *Machine) unpack(n *node) {
	r := n.program
	if !r.done {
		m.again(r)
	}
	for i := range n.saved {
		n.saved[i] = r.saved[int(n.firstSaved)+i]
		r.saved[int(n.firstSaved)+i] = nil
	}
}

// again runs a part of the forward within backward.
func (m *Machine) again(r *recompute) {
	r.saved = make([]*impl, r.count)
	r.done = true
	clear(r.calls)
	noGrad, module, name := m.noGrad, m.sites.module, m.sites.node
	m.noGrad, m.sites.module, m.sites.node = 0, r.module, "recompute"
	m.replaying = r
	args := r.tensors()
	run := func() {
		out := r.run(args)
		m.stopped = false
		m.Drop(out)
	}
	if r.format != dtype.Unknown {
		m.Autocast(r.format, run)
	} else {
		run()
	}
	m.replaying = nil
	m.noGrad, m.sites.module, m.sites.node = noGrad, module, name
}

// repacked takes from a node what it was given for one run, the last first.
func (m *Machine) repacked(n *node) {
	for i := len(n.saved) - 1; i >= 0; i-- {
		m.drop(n.saved[i])
		n.saved[i] = nil
	}
}

// dropRecompute ends a node's part in a checkpoint. With the last node go the
// arguments.
func (m *Machine) dropRecompute(n *node) {
	r := n.program
	n.program = nil
	if r.refs--; r.refs > 0 {
		return
	}
	m.drop(r.saved...)
	r.saved = nil
	m.dropKept(r)
	args := r.args
	r.args = nil
	m.drop(args...)
}

// dropKept ends what was kept and not taken: what is computed after the last tensor
// that is saved is never asked for again.
func (m *Machine) dropKept(r *recompute) {
	for _, list := range r.kept {
		m.drop(list...)
	}
	r.kept = nil
}

// checkpointReentrant is use_reentrant=True: the part runs without a graph, and
// one node stands for it. In backward it runs on detached arguments with a graph
// of its own, through which a backward runs to its end.
func (m *Machine) checkpointReentrant(r *recompute) Tensor {
	if !m.wants(r.args...) {
		out := m.runUnrecorded(r)
		m.drop(r.args...)
		return out
	}
	n := m.record("CheckpointFunctionBackward", reentrantBackward, r.args...)
	n.program, r.refs = r, 1
	out := m.runUnrecorded(r)
	n.computes(out.impl)
	return out
}

func (m *Machine) runUnrecorded(r *recompute) Tensor {
	m.noGrad++
	out := r.run(r.tensors())
	m.noGrad--
	if out.slot != temporary {
		out = result(m.view(out.impl))
	}
	return out
}

func reentrantBackward(p *pass) {
	m, r := p.m, p.n.program
	args := make([]Tensor, len(r.args))
	for i, a := range r.args {
		d := m.view(a)
		d.requiresGrad = a.requiresGrad
		args[i] = Tensor{impl: d}
	}
	noGrad := m.noGrad
	m.noGrad = 0
	var out Tensor
	run := func() { out = r.run(args) }
	if r.format != dtype.Unknown {
		m.Autocast(r.format, run)
	} else {
		run()
	}
	m.noGrad = noGrad
	m.backwardFrom([]*impl{out.impl}, []*impl{p.grad()})
	for i, a := range args {
		if a.grad != nil && p.needs(i) {
			p.out[i] = retain(a.grad)
		}
	}
	m.Drop(out)
	m.Drop(args...)
}
