package torch

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/timeline"
)

// Options say what the machine imitates.
type Options struct {
	Device  Device
	Release Release // of PyTorch; the zero one is the newest
	// Source of the figures: what a term of the timeline names.
	Provenance account.Provenance
}

// ErrReferences says that a program released a tensor that it did not hold.
var ErrReferences = errors.New("a tensor is released more often than it is held")

// ErrShape says that operands of an operator do not fit together.
var ErrShape = errors.New("shapes do not fit")

// Machine runs a program of operators and writes down what it allocates and
// frees. It has the state of one process: a device, a thread that runs the
// program and one that runs backward.
type Machine struct {
	device  Device
	release Release
	tl      *timeline.Timeline
	terms   [termCount]uint32

	stream     uint32 // on which tensors are allocated now
	pool       Pool   // and out of what
	noGrad     int    // depth of no_grad
	inference  int    // depth of inference_mode
	casts      autocast
	thread     thread
	workspaces []uint32 // of cuBLAS, one of each thread for each stream: 2 × stream + thread
	work       []int64  // see ConvolutionWork
	sequence   uint64   // of the next node
	epoch      int32    // of the next backward

	chosen    Chosen     // of the checkpoint that begins next
	packing   *recompute // the checkpoint that the program is in
	replaying *recompute // the checkpoint that runs again
	stopped   bool       // it has all it needs: nothing is computed any more
	running   int        // backwards that run, one within another
	retaining bool       // the next one leaves its graph as it is

	sites sites
	// hooks wait for the gradients of nodes' outputs, accumulated for those of leaves.
	hooks       map[*node][]func()
	accumulated map[*impl]func()

	watching *Saved             // notes what operators save; nil for nobody
	unpinned map[int64][]uint32 // main memory that moves are done with, by bytes

	deleting []*node // references of graphs that are being taken down
	impls    slab[impl]
	storages slab[storage]
	nodes    slab[node]
	unary    [unaryCount]elementwise
	binaries [binaryCount]elementwise
	unknown  []unknownPart
	before   bool // nothing has run yet: what is made lived before the first event
	err      error
}

type thread uint8

const (
	forwardThread thread = iota
	autogradThread
)

// unknownPart is an operator without a contract, and the span in which it ran.
type unknownPart struct {
	span   int32
	reason string
}

// New starts a process that holds nothing. What is made before the first phase
// lives before the first event.
func New(o Options) *Machine {
	m := &Machine{device: o.Device, release: o.Release, before: true}
	m.tl = &timeline.Timeline{Device: -1, Streams: []string{"default"}}
	m.unary, m.binaries = unaryContracts(o.Release), binaryContracts()
	for t := term(0); t < termCount; t++ {
		id, category := t.words()
		m.terms[t] = uint32(t)
		p := o.Provenance
		p.Scope = account.Requested
		m.tl.Terms = append(m.tl.Terms, account.Term{ID: id, Category: category, Provenance: p})
	}
	m.sites = newSites(&m.tl.Stacks)
	return m
}

// Reserve takes memory for so many allocations at once.
func (m *Machine) Reserve(allocations int) {
	m.tl.Allocs = append(make([]timeline.Alloc, 0, allocations), m.tl.Allocs...)
	m.tl.Events = append(make([]timeline.Event, 0, 2*allocations), m.tl.Events...)
}

// Moment is the event that comes next.
func (m *Machine) Moment() int { return len(m.tl.Events) }

// Phase ends the phase before and begins another.
func (m *Machine) Phase(id account.PhaseID, step int) {
	m.before = false
	m.endPhase()
	n := len(m.tl.Events)
	m.tl.Phases = append(m.tl.Phases, timeline.Span{Phase: id, Step: step, First: n, Last: n})
}

func (m *Machine) endPhase() {
	if n := len(m.tl.Phases); n > 0 {
		m.tl.Phases[n-1].Last = len(m.tl.Events)
	}
}

// Unknown notes an operator without a contract: the activations of its phase
// have no high then.
func (m *Machine) Unknown(reason string) {
	m.unknown = append(m.unknown, unknownPart{int32(max(len(m.tl.Phases)-1, 0)), reason})
}

// Unpredicted is why the first operator without a contract has none, or "".
func (m *Machine) Unpredicted() string {
	if len(m.unknown) == 0 {
		return ""
	}
	return m.unknown[0].reason
}

// Timeline ends the program and is what it allocated. The error is a fault of
// the program, or an overflow; the timeline is no prediction then.
func (m *Machine) Timeline() (*timeline.Timeline, error) {
	m.endPhase()
	for _, u := range m.unknown {
		p := m.tl.Terms[m.terms[termActivations]].Provenance
		m.tl.Bounds = append(m.tl.Bounds, timeline.Bound{Term: m.terms[termActivations], From: u.span, To: u.span, Figure: account.Unknown(u.reason, p)})
	}
	m.unknown = nil
	return m.tl, m.err
}

// Err is the first fault of the program so far.
func (m *Machine) Err() error { return m.err }

func (m *Machine) fail(err error) {
	if m.err == nil {
		m.err = fmt.Errorf("%s: %w", m.sites.where(), err)
	}
}

// allocate is bytes from the device. PyTorch asks for none where there are none.
func (m *Machine) allocate(bytes int64, t term) *storage {
	s := m.storages.take()
	*s = storage{refs: 1, alloc: noAlloc, bytes: bytes}
	if bytes < 0 {
		m.fail(bytesize.ErrOverflow)
	}
	if bytes <= 0 || m.stopped || m.pool == Replayed {
		return s
	}
	s.alloc = uint32(len(m.tl.Allocs))
	m.tl.Allocs = append(m.tl.Allocs, timeline.Alloc{Requested: bytes, Term: m.terms[t], Stack: m.sites.stack(), Stream: m.stream, Space: m.pool.space()})
	if m.before {
		m.tl.Before = append(m.tl.Before, s.alloc)
	} else {
		m.tl.Events = append(m.tl.Events, timeline.Event{Kind: timeline.Born, Alloc: s.alloc})
	}
	return s
}

// free drops one reference of a storage.
func (m *Machine) free(s *storage) {
	if s.refs--; s.refs != 0 {
		if s.refs < 0 {
			m.fail(ErrReferences)
		}
		return
	}
	if s.alloc != noAlloc {
		m.tl.Events = append(m.tl.Events, timeline.Event{Kind: timeline.FreeCompleted, Alloc: s.alloc})
	}
	m.storages.give(s)
}

// become says what a storage turned out to be for.
func (m *Machine) become(s *storage, t term) {
	if s.alloc != noAlloc {
		m.tl.Allocs[s.alloc].Term = m.terms[t]
	}
}

// saved says that a storage is kept for backward: an activation, unless it has a
// purpose of its own.
func (m *Machine) keptForBackward(s *storage) {
	if s.alloc != noAlloc && m.tl.Allocs[s.alloc].Term == m.terms[termTemporaries] {
		m.tl.Allocs[s.alloc].Term = m.terms[termActivations]
	}
}

// retain adds a reference.
func retain(i *impl) *impl {
	i.refs++
	return i
}

// drop releases references, in order; nil is None.
func (m *Machine) drop(list ...*impl) {
	for _, i := range list {
		if i != nil {
			m.release1(i)
		}
	}
}

// release1 drops one reference of a tensor. With the last go what it is a view
// of, the graph behind it, its gradient and its storage, in this order
// (AutogradMeta goes before the storage in TensorImpl::release_resources).
func (m *Machine) release1(i *impl) {
	if i.refs--; i.refs != 0 {
		if i.refs < 0 {
			m.fail(ErrReferences)
		}
		return
	}
	if i.base != nil {
		m.release1(i.base)
	}
	if i.node != nil {
		m.unlink(i.node)
	}
	if i.grad != nil {
		m.release1(i.grad)
	}
	m.free(i.storage)
	if i.requiresGrad && i.node == nil {
		delete(m.accumulated, i)
	}
	m.impls.give(i)
}

// empty is a new contiguous tensor. The sizes are copied.
func (m *Machine) empty(f dtype.Format, size []int64) *impl {
	if !shaped(size) {
		m.fail(ErrShape)
		size = make([]int64, min(len(size), maxDims))
	}
	i := m.impls.take()
	*i = impl{refs: 1, dtype: f, dims: int8(len(size))}
	copy(i.size[:], size)
	i.contiguousStrides()
	i.storage = m.allocate(bytesOf(i), termTemporaries)
	return i
}

// emptyLike is a new tensor of the strides of i where those are dense; elsewhere
// its dimensions are in the order of i's strides, without gaps
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/TensorFactories.cpp,
// empty_like, and infer_dense_strides).
func (m *Machine) emptyLike(f dtype.Format, i *impl) *impl {
	if i.dense() {
		return m.emptyStrided(f, i)
	}
	like := impl{dims: i.dims, size: i.size}
	step := int64(1)
	for _, d := range i.fastestFirst() {
		like.stride[d] = step
		step *= max(i.size[d], 1)
	}
	return m.emptyStrided(f, &like)
}

// fastestFirst is the dimensions in the order of their strides, the last first
// where those are equal.
func (i *impl) fastestFirst() []int {
	order := make([]int, i.dims)
	for d := range order {
		order[d] = int(i.dims) - 1 - d
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(i.stride[a], i.stride[b]), b-a) })
	return order
}

func (m *Machine) emptyStrided(f dtype.Format, like *impl) *impl {
	i := m.impls.take()
	*i = impl{refs: 1, dtype: f, dims: like.dims, size: like.size, stride: like.stride}
	i.storage = m.allocate(bytesOf(i), termTemporaries)
	return i
}

// bytesOf is the bytes of a tensor whose elements do not overlap.
func bytesOf(i *impl) int64 {
	n := product(i.Shape())
	if n < 0 {
		return -1
	}
	if b, fits := bytesize.Mul(n, itemSize(i.dtype)); fits {
		return b
	}
	return -1
}

// alias is another tensor over the same storage, no view of anything.
func (m *Machine) alias(i *impl) *impl {
	a := m.impls.take()
	*a = impl{refs: 1, dtype: i.dtype, dims: i.dims, size: i.size, stride: i.stride, storage: i.storage}
	i.storage.refs++
	return a
}

// view is a tensor over the same storage that keeps its root alive.
func (m *Machine) view(i *impl) *impl {
	v := m.alias(i)
	if m.inference > 0 {
		return v
	}
	root := i
	if i.base != nil {
		root = i.base
	}
	v.base = retain(root)
	return v
}

// bufferOf is bytes that a kernel works with.
func (m *Machine) bufferOf(bytes int64) *storage { return m.allocate(bytes, termTemporaries) }
