package workload

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"floodmark/internal/sorting"
)

// Lengths is how long the sequences are that training meets: a list, each of which
// is met equally often, or what is known of their distribution. The context is the
// longest that a batch can have.
type Lengths struct {
	Of []int64 // positions; empty where a distribution is declared
	// Mean to Longest are positions, of sequences as they are before the context
	// limits them. Without a mean nothing is known but the ends, between which every
	// length is met equally often.
	Mean, Deviation, Shortest, Longest int64
	// Drops says that sequences longer than the context are left out; else they are
	// cut to it.
	Drops bool
	// Sequences is how many the data have, those that are left out included; 0 is
	// [DefaultSequences].
	Sequences int64
}

// DefaultSequences is how many sequences the data have where nobody says it.
const DefaultSequences = 1000

// Bounds of what is followed.
const (
	maxSequences = 100_000
	maxLengths   = 4096
)

// Check says what of the lengths contradicts itself.
func (l *Lengths) Check() error {
	if l.Sequences < 0 || l.Sequences > maxSequences {
		return fmt.Errorf("have %d sequences, expected 1 to %d", l.Sequences, maxSequences)
	}
	if len(l.Of) > 0 {
		return l.checkList()
	}
	if l.even() && l.Shortest >= 1 && l.Longest >= l.Shortest {
		return nil
	}
	if l.Shortest < 1 || l.Mean < l.Shortest || l.Longest < l.Mean {
		return fmt.Errorf("have the shortest %d, the mean %d and the longest %d, expected 1 ≤ shortest ≤ mean ≤ longest; or leave the mean out, or list them with of", l.Shortest, l.Mean, l.Longest)
	}
	if l.Deviation < 1 {
		return fmt.Errorf("have the deviation %d, expected 1 or more", l.Deviation)
	}
	return nil
}

// checkList checks lengths that are listed.
func (l *Lengths) checkList() error {
	if l.Mean != 0 || l.Deviation != 0 || l.Shortest != 0 || l.Longest != 0 {
		return errors.New("are a list, beside which mean, deviation, shortest and longest say nothing")
	}
	if len(l.Of) > maxLengths {
		return fmt.Errorf("are %d, more than the %d that are followed", len(l.Of), maxLengths)
	}
	if least := slices.Min(l.Of); least < 1 {
		return fmt.Errorf("have one of %d positions, expected 1 or more", least)
	}
	return nil
}

// Met is how many sequences training meets at a context.
func (l *Lengths) Met(context int64) int64 {
	n := l.Sequences
	if n == 0 {
		n = DefaultSequences
	}
	switch {
	case !l.Drops:
		return n
	case len(l.Of) > 0:
		return n * int64(len(l.kept(context))) / int64(len(l.Of))
	}
	share := l.share()
	whole := share(l.Longest) - share(l.Shortest)
	if whole <= 0 {
		return n
	}
	return int64(math.Round(float64(n) * max(0, share(min(context, l.Longest))-share(l.Shortest)) / whole))
}

// Classes is at most n lengths that stand for all that are met, each for equally
// many, in ascending order; none where the context leaves none. Where a distribution
// is declared they are the quantiles in the middle of n equal parts of it.
func (l *Lengths) Classes(n int, context int64) []int64 {
	var all []int64
	if len(l.Of) > 0 {
		all = l.listed(n, context)
	} else {
		all = l.quantiles(n, context)
	}
	for i := range all {
		all[i] = min(all[i], context)
	}
	return all
}

// kept is the lengths of the list that are not left out, in ascending order.
func (l *Lengths) kept(context int64) []int64 {
	all := slices.Clone(l.Of)
	sorting.By(all, func(i, j int) int { return cmp.Compare(all[i], all[j]) })
	if l.Drops {
		all = slices.DeleteFunc(all, func(x int64) bool { return x > context })
	}
	return all
}

// listed is the lengths that are kept, or n of them, evenly.
func (l *Lengths) listed(n int, context int64) []int64 {
	all := l.kept(context)
	if len(all) <= n {
		return all
	}
	some := make([]int64, n)
	for i := range some {
		some[i] = all[(2*i+1)*len(all)/(2*n)]
	}
	return some
}

// even says that nothing is known of the lengths but their ends.
func (l *Lengths) even() bool { return l.Mean == 0 && l.Deviation == 0 }

// share is the part of the sequences that have at most x positions.
func (l *Lengths) share() func(x int64) float64 {
	if l.even() {
		return func(x int64) float64 { return float64(x) / float64(l.Longest) }
	}
	return l.distribution().share
}

// quantile is the inverse of share.
func (l *Lengths) quantile() func(p float64) float64 {
	if l.even() {
		return func(p float64) float64 { return p * float64(l.Longest) }
	}
	return l.distribution().quantile
}

// distribution is log-normal, as lengths of texts are skewed.
type distribution struct{ middle, width float64 }

// distribution is that of the mean and the deviation. Worked number: a mean of 3,234
// with a deviation of 2,547 has its median at 3,234 / √(1 + (2,547/3,234)²) = 2,541
// positions.
func (l *Lengths) distribution() distribution {
	ratio := float64(l.Deviation) / float64(l.Mean)
	width := math.Sqrt(math.Log1p(ratio * ratio))
	return distribution{math.Log(float64(l.Mean)) - width*width/2, width}
}

// share is the part of the sequences that have at most x positions.
func (d distribution) share(x int64) float64 {
	return math.Erfc((d.middle-math.Log(float64(x)))/d.width/math.Sqrt2) / 2
}

// quantile is the length that a part of the sequences do not exceed.
func (d distribution) quantile(p float64) float64 {
	return math.Exp(d.middle + d.width*math.Sqrt2*math.Erfinv(2*p-1))
}

// quantiles are those of the distribution between the shortest and the longest that
// is kept.
func (l *Lengths) quantiles(n int, context int64) []int64 {
	last := l.Longest
	if l.Drops {
		last = min(last, context)
	}
	if last < l.Shortest {
		return nil
	}
	share, quantile := l.share(), l.quantile()
	from, to := share(l.Shortest), share(last)
	all := make([]int64, n)
	for i := range all {
		x := math.Round(quantile(from + (to-from)*(float64(i)+0.5)/float64(n)))
		all[i] = int64(max(float64(l.Shortest), min(float64(last), x)))
	}
	return all
}
