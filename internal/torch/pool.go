package torch

import "floodmark/timeline"

// Pool is out of what a program's tensors are allocated.
type Pool uint8

const (
	Cached   Pool = iota
	Captured      // of the private pool of a CUDA graph that is being captured
	Replayed      // nothing: a graph that was captured runs again in what its pool had
)

func (p Pool) space() timeline.Space {
	if p == Captured {
		return timeline.PrivatePool
	}
	return timeline.Caching
}

// In runs a part of the program out of a pool, and later what it recorded for backward.
func (m *Machine) In(p Pool, run func()) {
	was := m.pool
	m.pool = p
	run()
	m.pool = was
}

// EmptyCache is torch.cuda.empty_cache.
func (m *Machine) EmptyCache() {
	m.tl.Events = append(m.tl.Events, timeline.Event{Kind: timeline.EmptyCache})
}
