package torch

import (
	"math/bits"
	"slices"

	"floodmark/account"
	"floodmark/timeline"
)

// Saved is tensors that operators saved for backward while a program watched
// (saved_tensors_hooks of torch.autograd.graph): each place in which a node keeps one.
type Saved struct {
	m      *Machine
	places []place
	moved  []place
}

// place is where a node keeps a tensor.
type place struct {
	node *node
	at   int
	host uint32 // of a tensor that was moved: its allocation in main memory
}

// Watch notes what operators save while run runs. One watch does not contain another.
func (m *Machine) Watch(run func()) *Saved {
	s := &Saved{m: m}
	m.watching = s
	run()
	m.watching = nil
	return s
}

// Offload moves the tensors of so many elements or more to main memory, each by itself
// even where two are one. Parameters stay.
func (s *Saved) Offload(least int64) {
	m := s.m
	for _, p := range s.places {
		old := p.node.saved[p.at]
		if old == nil || product(old.Shape()) < least || old.storage.alloc == noAlloc || m.tl.Allocs[old.storage.alloc].Term == m.terms[termWeights] {
			continue
		}
		moved := m.impls.take()
		*moved = impl{refs: 1, dtype: old.dtype, dims: old.dims, size: old.size, stride: old.stride}
		moved.storage = m.storages.take()
		*moved.storage = storage{refs: 1, alloc: noAlloc, bytes: old.storage.bytes}
		p.node.saved[p.at] = moved
		p.host, p.node.moved = m.pinned(old.storage.bytes), s
		m.drop(old)
		s.moved = append(s.moved, p)
	}
	s.places = nil
}

// Reload brings back what was moved and is not back yet.
func (s *Saved) Reload() { s.reload(nil) }

// reload brings back the tensors of one node, nil for all.
func (s *Saved) reload(n *node) {
	m, left := s.m, s.moved[:0]
	for _, p := range s.moved {
		if n != nil && p.node != n {
			left = append(left, p)
			continue
		}
		i := p.node.saved[p.at]
		back := m.allocate(i.storage.bytes, termActivations)
		i.storage.alloc, back.alloc = back.alloc, noAlloc
		m.free(back)
		m.unpin(p.host)
		p.node.moved = nil
	}
	s.moved = left
}

// forget ends what a node moved that never runs.
func (s *Saved) forget(n *node) {
	s.moved = slices.DeleteFunc(s.moved, func(p place) bool {
		if p.node == n {
			s.m.unpin(p.host)
		}
		return p.node == n
	})
	n.moved = nil
}

// pinned is bytes of page-locked main memory: some that an earlier move is done with,
// else new ones, which stay with the process. They are a power of two
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/core/CachingHostAllocator.h).
func (m *Machine) pinned(bytes int64) uint32 {
	bytes = 1 << bits.Len64(uint64(bytes-1))
	if free := m.unpinned[bytes]; len(free) > 0 {
		m.unpinned[bytes] = free[:len(free)-1]
		return free[len(free)-1]
	}
	p := m.tl.Terms[m.terms[termActivations]].Provenance
	p.Scope = account.Host
	return m.tl.Bear(timeline.Pinned, m.tl.Term(account.TermOffloadedActivations, account.CategoryActivation, p), bytes)
}

// unpin lets a later move have the bytes of one.
func (m *Machine) unpin(a uint32) {
	if m.unpinned == nil {
		m.unpinned = map[int64][]uint32{}
	}
	bytes := m.tl.Allocs[a].Requested
	m.unpinned[bytes] = append(m.unpinned[bytes], a)
}
