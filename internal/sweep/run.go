package sweep

import (
	"context"
	"fmt"
	"path/filepath"
	"time"
)

// Measure runs one value in a new process. The result files it makes begin with
// the given path. An error is one of the sweep's own, such as a full disk; how the
// program ended is in the point.
type Measure func(ctx context.Context, value int64, path string) (Point, error)

// Progress is told what was known before and what comes next.
type Progress func(done []Point, next int64, left int)

// Run measures what is missing, one value after the other.
func (l *Ledger) Run(ctx context.Context, measure Measure, progress Progress) error {
	missing := l.Missing()
	for i, value := range missing {
		progress(l.Points(), value, len(missing)-i)
		if _, err := l.one(ctx, value, measure); err != nil {
			return err
		}
	}
	return nil
}

// one measures a value and writes it down, unless another process of the same
// sweep does: then its line is awaited. A run that was interrupted is not a point:
// it is run again.
func (l *Ledger) one(ctx context.Context, value int64, measure Measure) (Point, error) {
	_, before := l.Point(value)
	release, err := l.claim(ctx, value)
	if err != nil {
		return Point{}, err
	}
	defer release()
	if err := l.Reload(); err != nil {
		return Point{}, err
	}
	if p, known := l.Point(value); known && (!before || p.Status != Lost) {
		return p, nil
	}
	name, attempt, err := l.NewAttempt(value)
	if err != nil {
		return Point{}, err
	}
	began := time.Now()
	p, err := measure(ctx, value, filepath.Join(l.Folder, name))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return Point{}, err
	}
	p.Value, p.Attempt, p.Began, p.Took = value, attempt, began.UTC(), time.Since(began)
	return p, l.Append(p)
}

// Task measures one value and writes it down, as a task of a cluster does.
func (l *Ledger) Task(ctx context.Context, value int64, measure Measure) error {
	_, err := l.one(ctx, value, measure)
	return err
}

// StoppedError is a search that a failure stopped which is not about memory.
type StoppedError struct{ Point Point }

func (e *StoppedError) Error() string {
	return fmt.Sprintf("at %d the program ended for a reason that is not memory (%s): the search stops, since the boundary would not be one of memory; once that is mended, --resume with --retry asks again", e.Point.Value, e.Point.Error)
}

// FindLimit brackets the largest value that passes, both ends asked first: the
// boundary then lies within one step, in at most [Limit.MaxRuns] runs. What the
// ledger knows is not run again.
func (l *Ledger) FindLimit(ctx context.Context, measure Measure, progress Progress) error {
	return l.FindLimitBy(ctx, func(ctx context.Context, value int64) error {
		progress(l.Points(), value, 0)
		return l.Task(ctx, value, measure)
	})
}

// FindLimitBy is [Ledger.FindLimit] for who writes a value's line himself.
func (l *Ledger) FindLimitBy(ctx context.Context, write func(ctx context.Context, value int64) error) error {
	limit := *l.Plan.Limit
	ask := func(step int64) (passed bool, err error) {
		value := limit.at(step)
		p, known := l.Point(value)
		if !known {
			if err := write(ctx, value); err != nil {
				return false, err
			}
			if p, known = l.Point(value); !known {
				return false, fmt.Errorf("%s = %d left no result", l.Plan.Dimension, value)
			}
		}
		if p.Status != Passed && p.Status != OutOfMemory {
			return false, &StoppedError{p}
		}
		return p.Status == Passed, nil
	}
	low, high := int64(0), limit.steps()
	if passed, err := ask(low); err != nil || !passed || high == low {
		return err
	}
	if passed, err := ask(high); err != nil || passed {
		return err
	}
	return halve(low, high, ask)
}

// halve narrows a step that passes and one that does not to neighbours.
func halve(low, high int64, ask func(step int64) (bool, error)) error {
	for high-low > 1 {
		middle := low + (high-low)/2
		passed, err := ask(middle)
		switch {
		case err != nil:
			return err
		case passed:
			low = middle
		default:
			high = middle
		}
	}
	return nil
}
