package probe

import (
	"sort"
	"sync"
	"time"
)

// Outside reads what devices and processes hold, from outside the program.
type Outside interface {
	Sample() ([]DeviceUse, error)
}

// DeviceUse is what one device holds at a moment, and for whom.
type DeviceUse struct {
	Index     int
	UUID      string
	Bytes     *int64 // in use, whoever holds it; nil where the driver does not say
	Processes []ProcessUse
}

// ProcessUse is what one process holds on a device. Bytes is nil where the
// driver lists the process and not its bytes.
type ProcessUse struct {
	PID   int
	Bytes *int64
}

// SampleInterval is the time between two samples.
const SampleInterval = 100 * time.Millisecond

// Sampler reads from outside at a fixed rate, from before the program starts. It
// keeps only what changed.
type Sampler struct {
	outside Outside
	now     func() int64
	stop    chan struct{}
	ended   sync.WaitGroup

	mu     sync.Mutex
	ticks  []int64
	tracks map[holder]*track
	uuids  map[int]string
	failed error // the last sample that could not be taken
}

// holder is a device, and a process on it; no process for the whole device.
type holder struct {
	device, pid int
}

// track is the bytes of one holder since each moment; −1 where they are not
// known.
type track struct {
	since []int64
	bytes []int64
}

// Sample starts a sampler, which has taken its first sample when this returns.
func Sample(outside Outside, interval time.Duration) *Sampler {
	s := &Sampler{outside: outside, now: monotonic, stop: make(chan struct{}), tracks: map[holder]*track{}, uuids: map[int]string{}}
	s.take()
	s.ended.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				s.take()
			case <-s.stop:
				return
			}
		}
	})
	return s
}

// Stop ends the sampling, with one sample more.
func (s *Sampler) Stop() {
	close(s.stop)
	s.ended.Wait()
	s.take()
}

func (s *Sampler) take() {
	uses, err := s.outside.Sample()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed = err
		return
	}
	// After the reading: what was read was so at this moment or before it.
	at := s.now()
	s.ticks = append(s.ticks, at)
	seen := map[holder]bool{}
	for _, d := range uses {
		s.uuids[d.Index] = d.UUID
		s.set(seen, holder{d.Index, 0}, at, d.Bytes)
		for _, p := range d.Processes {
			s.set(seen, holder{d.Index, p.PID}, at, p.Bytes)
		}
	}
	for h, t := range s.tracks {
		if !seen[h] {
			t.set(at, -1)
		}
	}
}

func (s *Sampler) set(seen map[holder]bool, h holder, at int64, bytes *int64) {
	seen[h] = true
	t := s.tracks[h]
	if t == nil {
		t = &track{}
		s.tracks[h] = t
	}
	if bytes == nil {
		t.set(at, -1)
		return
	}
	t.set(at, *bytes)
}

func (t *track) set(at, bytes int64) {
	if n := len(t.bytes); n > 0 && t.bytes[n-1] == bytes {
		return
	}
	t.since, t.bytes = append(t.since, at), append(t.bytes, bytes)
}

// highest is the most that a holder had in the samples from one moment to
// another; nil where none of them knows.
func (s *Sampler) highest(h holder, from, to int64) *int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tracks[h]
	first, last := s.between(from, to)
	if t == nil || first == last {
		return nil
	}
	most := int64(-1)
	i := sort.Search(len(t.since), func(i int) bool { return t.since[i] > s.ticks[first] })
	for i = max(i-1, 0); i < len(t.since) && t.since[i] <= s.ticks[last-1]; i++ {
		most = max(most, t.bytes[i])
	}
	if most < 0 {
		return nil
	}
	return &most
}

// count is how many samples were taken from one moment to another.
func (s *Sampler) count(from, to int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, last := s.between(from, to)
	return last - first
}

// between is the range of samples that were taken from one moment to another.
func (s *Sampler) between(from, to int64) (first, last int) {
	first = sort.Search(len(s.ticks), func(i int) bool { return s.ticks[i] >= from })
	last = sort.Search(len(s.ticks), func(i int) bool { return s.ticks[i] > to })
	return first, max(first, last)
}

// neighbours are the samples just before a moment and just after it.
func (s *Sampler) neighbours(at int64) (before, after int64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := sort.Search(len(s.ticks), func(i int) bool { return s.ticks[i] >= at })
	if i == 0 || i == len(s.ticks) {
		return 0, 0, false
	}
	return s.ticks[i-1], s.ticks[i], true
}

// listed reports whether the driver ever listed a process on a device, and
// whether it listed any.
func (s *Sampler) listed(device, pid int) (this, any bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.tracks {
		if h.device == device && h.pid != 0 {
			any = true
			this = this || h.pid == pid
		}
	}
	return this, any
}
