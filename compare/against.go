package compare

import (
	"cmp"

	"floodmark/account"
	"floodmark/internal/sorting"
)

// Pair is one quantity as it was foreseen and as it was seen: of one scope, at one
// place.
type Pair struct {
	Term                string
	Predicted, Observed account.Figure
}

// Ends are the ends of a difference, as far as they are known. A lower bound on one
// side gives one end; an unknown gives none.
type Ends struct {
	Low, High *int64
}

// Difference is observed less predicted.
func (p Pair) Difference() Ends {
	var e Ends
	if n, known := p.Predicted.High(); known && (p.Observed.Known() || p.Observed.Low() > 0) {
		e.Low = difference(p.Observed.Low(), n)
	}
	if n, known := p.Observed.High(); known && (p.Predicted.Known() || p.Predicted.Low() > 0) {
		e.High = difference(n, p.Predicted.Low())
	}
	return e
}

func difference(a, b int64) *int64 {
	n := a - b
	return &n
}

// Certainly is the least by which the two differ for certain, with its sign: above
// zero where more was seen than foreseen, below where less was, and 0 where the
// two can be the same, or nobody knows.
func (e Ends) Certainly() int64 {
	switch {
	case e.Low != nil && *e.Low > 0:
		return *e.Low
	case e.High != nil && *e.High < 0:
		return *e.High
	}
	return 0
}

// Inside reports whether the two can be the same, and false where an end that would
// tell is not known.
func (e Ends) Inside() (inside, known bool) {
	switch {
	case e.Certainly() != 0:
		return false, true
	case e.Low != nil && e.High != nil:
		return true, true
	}
	return false, false
}

// Cancelling is errors of parts that hide each other in their sum.
type Cancelling struct {
	Over, Under int64 // the certain errors above and below zero, each added up
	Total       Ends  // what is left of them in the sum
}

// Cancel finds parts of a sum of which some are certainly more than foreseen and
// others certainly less: then the sum looks better than its parts are. Worked: of
// parts 103.69 → 76.23 and 10.57 → 31.12 the errors are −27.46 and +20.55, and the
// sum is off by −6.91 only.
func Cancel(parts []Pair, total Pair) (Cancelling, bool) {
	c := Cancelling{Total: total.Difference()}
	for _, p := range parts {
		if n := p.Difference().Certainly(); n > 0 {
			c.Over += n
		} else {
			c.Under += n
		}
	}
	return c, c.Over > 0 && c.Under < 0
}

// Alike are the names whose bytes come near to a difference, the nearest first: what
// was left out, or counted and not held, is found by its bytes. Near is within one
// part in so many.
func Alike(difference int64, candidates []Group, near int64) []Group {
	var found []Group
	off := func(c Group) int64 { return magnitudeOf(magnitudeOf(difference) - c.Bytes) }
	for _, c := range candidates {
		if c.Bytes > 0 && off(c) <= c.Bytes/near {
			found = append(found, c)
		}
	}
	sorting.By(found, func(i, j int) int { return cmp.Compare(off(found[i]), off(found[j])) })
	return found
}

func magnitudeOf(n int64) int64 { return max(n, -n) }
