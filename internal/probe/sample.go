package probe

import (
	"context"
	"sort"
	"sync"
	"time"

	"floodmark/account"
	"floodmark/device"
	"floodmark/device/owners"
)

// SampleInterval is the time between two samples.
const SampleInterval = 100 * time.Millisecond

// Sampler reads devices and processes from outside the program at a fixed rate,
// from before it starts. It keeps only what changed.
type Sampler struct {
	reader device.Reader
	table  owners.Table
	base   time.Time // one moment on both clocks
	zero   int64
	cancel context.CancelFunc
	ended  sync.WaitGroup

	mu     sync.Mutex
	ticks  map[int][]int64 // by device
	tracks map[holder]*track
	ours   map[int]bool // PIDs of the driver that are those of this machine
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

// Sample starts a sampler, which has read every device once when this returns.
func Sample(reader device.Reader, interval time.Duration) *Sampler {
	return sample(reader, owners.Open("/proc"), interval)
}

func sample(reader device.Reader, table owners.Table, interval time.Duration) *Sampler {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Sampler{reader: reader, table: table, base: time.Now(), zero: monotonic(), cancel: cancel,
		ticks: map[int][]int64{}, tracks: map[holder]*track{}, ours: map[int]bool{}}
	s.once()
	s.ended.Go(func() { device.Watch(ctx, reader, s.indexes(), interval, s.take) })
	return s
}

// Stop ends the sampling, with one sample more.
func (s *Sampler) Stop() {
	s.cancel()
	s.ended.Wait()
	s.once()
}

func (s *Sampler) indexes() []int {
	list := make([]int, len(s.reader.Devices()))
	for i := range list {
		list[i] = i
	}
	return list
}

func (s *Sampler) once() {
	for _, i := range s.indexes() {
		s.take(device.Sample{Index: i, Memory: s.reader.Read(context.Background(), i)})
	}
}

// take keeps a sample. Its time is on Go's monotonic clock, which is the
// machine's.
func (s *Sampler) take(sample device.Sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.zero + int64(sample.At.Sub(s.base))
	s.ticks[sample.Index] = append(s.ticks[sample.Index], at)
	seen := map[holder]bool{}
	s.set(seen, holder{sample.Index, 0}, at, sample.Used)
	for _, p := range sample.Processes {
		if s.isOurs(p) {
			s.set(seen, holder{sample.Index, p.PID}, at, p.Bytes)
		} else {
			s.set(seen, holder{sample.Index, stranger}, at, account.Figure{})
		}
	}
	for h, t := range s.tracks {
		if h.device == sample.Index && !seen[h] {
			t.set(at, -1)
		}
	}
}

// stranger stands for processes that the driver lists and that cannot be
// matched with one of this machine, as inside a container.
const stranger = -1

// isOurs reports that a PID of the driver is that process of this machine.
func (s *Sampler) isOurs(p device.Process) bool {
	if s.table.Host() || s.ours[p.PID] {
		return true
	}
	owner := s.table.Owners(device.Memory{Processes: []device.Process{p}})[0]
	s.ours[p.PID] = owner.Name != ""
	return s.ours[p.PID]
}

func (s *Sampler) set(seen map[holder]bool, h holder, at int64, f account.Figure) {
	seen[h] = true
	t := s.tracks[h]
	if t == nil {
		t = &track{}
		s.tracks[h] = t
	}
	bytes, exact := f.IsExact()
	if !exact {
		bytes = -1
	}
	t.set(at, bytes)
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
	t, ticks := s.tracks[h], between(s.ticks[h.device], from, to)
	if t == nil || len(ticks) == 0 {
		return nil
	}
	most := int64(-1)
	i := sort.Search(len(t.since), func(i int) bool { return t.since[i] > ticks[0] })
	for i = max(i-1, 0); i < len(t.since) && t.since[i] <= ticks[len(ticks)-1]; i++ {
		most = max(most, t.bytes[i])
	}
	if most < 0 {
		return nil
	}
	return &most
}

// between are the samples that were taken from one moment to another.
func between(ticks []int64, from, to int64) []int64 {
	first := sort.Search(len(ticks), func(i int) bool { return ticks[i] >= from })
	last := sort.Search(len(ticks), func(i int) bool { return ticks[i] > to })
	return ticks[first:max(first, last)]
}

// count is how many samples of a device were taken from one moment to another.
func (s *Sampler) count(device int, from, to int64) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(between(s.ticks[device], from, to))
}

// neighbours are the samples of a device just before a moment and just after it.
func (s *Sampler) neighbours(device int, at int64) (before, after int64, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ticks := s.ticks[device]
	i := sort.Search(len(ticks), func(i int) bool { return ticks[i] >= at })
	if i == 0 || i == len(ticks) {
		return 0, 0, false
	}
	return ticks[i-1], ticks[i], true
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
