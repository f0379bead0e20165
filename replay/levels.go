package replay

import "floodmark/allocator"

// Levels are the bytes of one moment that the caching allocator accounts for.
// Requested and Active count an allocation until its free is completed,
// Allocated until its free is requested.
type Levels struct {
	Requested, Allocated, Active, Reserved int64
}

// Peak is the highest level of one scope and the first moment at which it is
// reached: an index into the events, −1 for before the first.
type Peak struct {
	Bytes  int64
	Moment int
}

// Peaks are the peaks of each scope. They may be of different moments and are
// never subtracted from one another.
type Peaks struct {
	Requested, Allocated, Active, Reserved Peak
}

// Run is one pass of a timeline through the allocator.
type Run struct {
	Settings allocator.Settings // as they were in effect
	Start    Levels             // before the first event
	Curve    []Levels           // after each event that was reached; nil when no curve was asked for
	Peaks    Peaks
	Stats    allocator.Statistics // at the end
	Stopped  *Stop                // nil when the timeline ran to its end
}

// Stop is the request at which a run ended.
type Stop struct {
	Moment    int
	Requested int64 // bytes, as the program asked
	Reserved  int64 // bytes that were reserved and could not be released
	Rejected  bool  // by throw_on_cudamalloc_oom
	Err       error // out of memory, or a request that no allocator serves
}

// recorder follows the levels of an allocator through a run.
type recorder struct {
	*Run
	a    *allocator.Allocator
	keep bool // the curve
}

func newRecorder(a *allocator.Allocator, events int, keep bool) recorder {
	a.Stats().ResetPeaks()
	run := &Run{Settings: a.Settings(), Start: levelsOf(a.Stats())}
	if keep {
		run.Curve = make([]Levels, 0, events)
	}
	l := run.Start
	run.Peaks = Peaks{Peak{l.Requested, -1}, Peak{l.Allocated, -1}, Peak{l.Active, -1}, Peak{l.Reserved, -1}}
	return recorder{Run: run, a: a, keep: keep}
}

// after notes the levels after an event. The peak of reserved comes from the
// statistics, which also see what rose and fell within it.
func (r *recorder) after(moment int) {
	s := r.a.Stats()
	l := levelsOf(s)
	r.put(l)
	r.Peaks.Requested.raise(l.Requested, moment)
	r.Peaks.Allocated.raise(l.Allocated, moment)
	r.Peaks.Active.raise(l.Active, moment)
	r.Peaks.Reserved.raise(s.ReservedBytes.All.Peak, moment)
}

// put adds a point to the curve.
func (r *recorder) put(l Levels) {
	if r.keep {
		r.Curve = append(r.Curve, l)
	}
}

// finish copies the statistics out.
func (r *recorder) finish() *Run {
	r.Stats = *r.a.Stats()
	return r.Run
}

func (p *Peak) raise(bytes int64, moment int) {
	if bytes > p.Bytes {
		*p = Peak{bytes, moment}
	}
}

func levelsOf(s *allocator.Statistics) Levels {
	return Levels{
		Requested: s.RequestedBytes.All.Current,
		Allocated: s.AllocatedBytes.All.Current,
		Active:    s.ActiveBytes.All.Current,
		Reserved:  s.ReservedBytes.All.Current,
	}
}
