package replay

import (
	"errors"

	"floodmark/allocator"
)

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
	// Refused is the first request that failed here as it did in the recording.
	// The run goes on, because what the program did then is recorded. Nil when
	// there was none.
	Refused *Stop
}

// Failure is where a run first ran out of memory, nil where it never did.
func (r *Run) Failure() *Stop {
	if r.Refused == nil && r.Stopped != nil && !r.Stopped.Served() {
		return r.Stopped
	}
	return r.Refused
}

// Stop is the request at which a run ended.
type Stop struct {
	Moment    int
	Requested int64 // bytes, as the program asked
	Reserved  int64 // bytes that were reserved and could not be released
	Rejected  bool  // by throw_on_cudamalloc_oom
	Err       error // out of memory, a request that no allocator serves, or ErrServed
}

// ErrServed ends a run at a request that failed in the recording and is served
// here. The bytes are held then; what the program would have done with them is
// not recorded, so that the peaks are lower bounds.
var ErrServed = errors.New("a request that failed in the recording is served here, and what the program would have done then is not recorded")

// Served reports that the run did not fail, but left what was recorded.
func (s *Stop) Served() bool { return errors.Is(s.Err, ErrServed) }

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

// stopAt describes a request at which something ended.
func (r *recorder) stopAt(moment int, requested int64, err error) *Stop {
	stop := &Stop{Moment: moment, Requested: requested, Reserved: r.a.Reserved(), Err: err}
	var oom *allocator.OutOfMemoryError
	if errors.As(err, &oom) {
		stop.Rejected = oom.Rejected
	}
	return stop
}

// refuse notes a request that failed as it did in the recording; the first of
// them is kept.
func (r *recorder) refuse(moment int, requested int64, err error) {
	if r.Refused == nil {
		r.Refused = r.stopAt(moment, requested, err)
	}
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
