package solve

import (
	"context"
	"fmt"

	"floodmark/fit"
)

// Judge decides one value of the dimension. A larger value hardly ever needs less.
type Judge func(ctx context.Context, value int64) (fit.Verdict, error)

// Solution is the largest value that is known to fit, and the largest that is
// not known to be too much. Between the two nobody can say.
type Solution struct {
	// Value fits, and Value+1 is not known to. It is −1 when no value fits.
	Value int64
	// Open is the largest value that is not known to be too much; −1 when even
	// the least is.
	Open int64
	// At is the verdict at Value, or at the least value when none fits.
	At fit.Verdict
	// Limit is the verdict one step above Value: why it is not more. It is At
	// where Value is the highest that was asked for.
	Limit fit.Verdict
}

// Largest finds the largest value low ≤ v ≤ high by bisection. The answer is
// exact for a judge that is monotone; beside each end it is judged again, and where
// that goes back and forth the value is below and the open value above.
func Largest(ctx context.Context, low, high int64, judge Judge) (Solution, error) {
	if low < 0 || high < low {
		return Solution{}, fmt.Errorf("there is no value between %d and %d", low, high)
	}
	b := bisection{ctx: ctx, judge: judge, low: low, high: high, seen: map[int64]fit.Verdict{}}
	value, err := b.last(func(v fit.Verdict) bool { return v.Value == fit.Fits }, false)
	if err != nil {
		return Solution{}, err
	}
	open, err := b.last(func(v fit.Verdict) bool { return v.Value == fit.Fits || v.Value == fit.CannotTell }, true)
	if err != nil {
		return Solution{}, err
	}
	s := Solution{Value: value, Open: max(open, value)}
	if s.At, err = b.at(max(value, low)); err != nil {
		return Solution{}, err
	}
	s.Limit = s.At
	if value >= low && value < high {
		s.Limit, err = b.at(value + 1)
	}
	return s, err
}

// bisection keeps the verdicts that it asked for.
type bisection struct {
	ctx       context.Context
	judge     Judge
	low, high int64
	seen      map[int64]fit.Verdict
}

func (b *bisection) at(value int64) (fit.Verdict, error) {
	if v, ok := b.seen[value]; ok {
		return v, nil
	}
	if err := b.ctx.Err(); err != nil {
		return fit.Verdict{}, err
	}
	v, err := b.judge(b.ctx, value)
	if err == nil {
		b.seen[value] = v
	}
	return v, err
}

// last is the largest value for which ok holds, or −1 when it holds for none. Beside
// a place where the judge goes back and forth it is below all of it, or with up above.
func (b *bisection) last(ok func(fit.Verdict) bool, up bool) (int64, error) {
	holds := func(value int64) (bool, error) {
		v, err := b.at(value)
		return ok(v), err
	}
	if is, err := holds(b.low); err != nil || !is {
		return -1, err
	}
	if is, err := holds(b.high); err != nil || is {
		return b.high, err
	}
	yes, no := b.low, b.high
	for range mostTurns {
		end, err := between(yes, no, holds)
		if err != nil {
			return 0, err
		}
		beside := end - 1
		if up {
			beside = end + 2
		}
		if beside <= b.low || beside >= b.high {
			return end, nil
		}
		switch is, err := holds(beside); {
		case err != nil || is != up:
			return end, err
		case up:
			yes, no = beside, b.high
		default:
			yes, no = b.low, beside
		}
	}
	return 0, fmt.Errorf("the estimate is not monotone: between %d and %d it goes back and forth", yes, no)
}

// mostTurns is how often the search goes on beside a place where the judge is not
// monotone: blocks of a caching allocator come in sizes, so that one position more may
// need less.
const mostTurns = 16

// between is the value from which holds is true to where it is not, found by halves.
func between(yes, no int64, holds func(int64) (bool, error)) (int64, error) {
	for no-yes > 1 {
		mid := yes + (no-yes)/2
		is, err := holds(mid)
		if err != nil {
			return 0, err
		}
		if is {
			yes = mid
		} else {
			no = mid
		}
	}
	return yes, nil
}

// Payloads is how many whole payloads of so many bytes fit into a room, and the
// bytes that are left. Worked number: 38 GiB holds 121 payloads of 320 MiB and
// leaves 192 MiB; 38 GB holds 113.
func Payloads(room, payload int64) (count, left int64, err error) {
	if room < 0 || payload < 1 {
		return 0, 0, fmt.Errorf("a room of %d bytes and a payload of %d bytes cannot be divided", room, payload)
	}
	return room / payload, room % payload, nil
}
