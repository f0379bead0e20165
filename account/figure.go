package account

import "floodmark/bytesize"

// Provenance says where a figure comes from.
type Provenance struct {
	Origin  Origin
	Scope   Scope
	Counter string // the source's own name for a counter that was read, or the id of a formula
	Source  string // a public source for the rule, or the file and line that were read
}

// Figure is a number of bytes as far as it is known: low ≤ bytes ≤ high, exact
// when they are equal. Without a defensible high it is unknown, and its low
// still counts. The zero Figure is unknown with low 0 and no reason.
//
// Figures are signed, for headroom; every other figure is non-negative.
type Figure struct {
	low, high int64
	need      int64 // with gives
	bounded   bool
	zero      bool
	gives     bool // what is taken above need is taken only where it is free
	reason    string
	Provenance
}

// Status says whether a figure is a number.
type Status string

const (
	StatusCounted Status = "counted"
	StatusZero    Status = "zero"    // with the reason why there are none
	StatusUnknown Status = "unknown" // with the reason why nobody can say
)

// Exact is a figure that is known to the byte.
func Exact(bytes int64, p Provenance) Figure {
	return Figure{low: bytes, high: bytes, bounded: true, Provenance: p}
}

// Between is an interval; the ends may come in either order.
func Between(low, high int64, p Provenance) Figure {
	return Figure{low: min(low, high), high: max(low, high), bounded: true, Provenance: p}
}

// AtLeast is a figure of which only a lower bound is known.
func AtLeast(low int64, reason string, p Provenance) Figure {
	return Figure{low: low, reason: reason, Provenance: p}
}

// Zero is no bytes, and why.
func Zero(reason string, p Provenance) Figure {
	return Figure{bounded: true, zero: true, reason: reason, Provenance: p}
}

// Yielding is bytes that are taken where they are free: nobody can say how many,
// and a program runs as well with need of them.
func Yielding(low, need int64, reason string, p Provenance) Figure {
	return Figure{low: low, need: max(low, need), gives: true, reason: reason, Provenance: p}
}

// Unknown is a figure that nobody can give, and why.
func Unknown(reason string, p Provenance) Figure {
	return Figure{reason: reason, Provenance: p}
}

// Checked is Exact, or Unknown when a count overflowed: pass it both results
// of [bytesize.Mul] or of dtype's Size.
func Checked(bytes int64, fits bool, p Provenance) Figure {
	if !fits {
		return Unknown(bytesize.ErrOverflow.Error(), p)
	}
	return Exact(bytes, p)
}

// Low is the least that the figure can be.
func (f Figure) Low() int64 { return f.low }

// High is the most that the figure can be; false when nobody can say.
func (f Figure) High() (int64, bool) { return f.high, f.bounded }

// Need is the most that must be there: the high, or less where the rest is taken
// only because it is free; false when nobody can say.
func (f Figure) Need() (int64, bool) {
	if f.gives {
		return f.need, true
	}
	return f.high, f.bounded
}

// Needed is the figure without what is taken only because it is free.
func (f Figure) Needed() Figure {
	if !f.gives {
		return f
	}
	return Figure{low: f.low, high: f.need, bounded: true, reason: f.reason, Provenance: f.Provenance}
}

// IsExact gives the bytes when the figure is known to the byte.
func (f Figure) IsExact() (int64, bool) { return f.low, f.bounded && f.low == f.high }

// Known reports whether the figure has a high.
func (f Figure) Known() bool { return f.bounded }

// Reason says why a figure is zero or unknown.
func (f Figure) Reason() string { return f.reason }

// Status is counted, zero or unknown.
func (f Figure) Status() Status {
	switch {
	case !f.bounded:
		return StatusUnknown
	case f.zero:
		return StatusZero
	}
	return StatusCounted
}

// In says the bytes in a unit: one size where both ends look alike, "unknown"
// without a high, "at least" what is known of it where that is more than nothing.
func (f Figure) In(unit bytesize.Unit) string {
	low := bytesize.Format(f.low, unit)
	switch {
	case !f.bounded && f.low == 0:
		return "unknown"
	case !f.bounded:
		return "at least " + low
	case bytesize.Format(f.high, unit) == low:
		return low
	}
	return low + " to " + bytesize.Format(f.high, unit)
}

// As is the same interval with another provenance.
func (f Figure) As(p Provenance) Figure {
	f.Provenance = p
	return f
}

// Because is the same interval with another reason.
func (f Figure) Because(reason string) Figure {
	f.reason = reason
	return f
}

// Sum adds figures of like scope. The sum is unknown as soon as one of them is,
// for that one's reason; the lows still add up. An overflow is unknown.
func Sum(p Provenance, figures ...Figure) Figure {
	sum := Figure{bounded: true, Provenance: p}
	needed := true
	for _, f := range figures {
		low, fits := bytesize.Add(sum.low, f.low)
		if !fits {
			return Unknown(bytesize.ErrOverflow.Error(), p)
		}
		sum.low = low
		if need, known := f.Need(); known && needed {
			sum.need, needed = bytesize.Add(sum.need, need)
		} else {
			needed = false
		}
		if !f.bounded {
			if sum.bounded {
				sum.reason = f.reason
			}
			sum.bounded = false
			continue
		}
		if high, fits := bytesize.Add(sum.high, f.high); fits {
			sum.high = high
		} else {
			sum.bounded, sum.reason = false, bytesize.ErrOverflow.Error()
		}
	}
	return sum.settled(needed)
}

// settled is a figure in the making whose bounded and need are known now.
func (f Figure) settled(needed bool) Figure {
	f.gives = needed && !f.bounded
	if !f.gives {
		f.need = 0
	}
	if !f.bounded {
		f.high = 0
	}
	return f
}

// Minus is f − g as an interval: what is left of f when g is taken away. It is
// for headroom, and for two readings of one moment; two peaks are never
// subtracted.
func (f Figure) Minus(g Figure, p Provenance) Figure {
	if !f.bounded || !g.bounded {
		reason := f.reason
		if f.bounded {
			reason = g.reason
		}
		return Unknown(reason, p)
	}
	low, a := bytesize.Add(f.low, -g.high)
	high, b := bytesize.Add(f.high, -g.low)
	if !a || !b {
		return Unknown(bytesize.ErrOverflow.Error(), p)
	}
	return Between(low, high, p)
}

// Times is n copies of the figure, n ≥ 0.
func (f Figure) Times(n int64) Figure {
	low, a := bytesize.Mul(max(f.low, 0), n)
	high, b := bytesize.Mul(max(f.high, 0), n)
	switch {
	case !a || n < 0:
		return Unknown(bytesize.ErrOverflow.Error(), f.Provenance)
	case f.bounded && !b:
		return AtLeast(low, bytesize.ErrOverflow.Error(), f.Provenance)
	}
	need, c := bytesize.Mul(f.need, n)
	f.low, f.high, f.need = low, high, need
	return f.settled(f.gives && c)
}

// Highest is the larger of alternatives that do not happen together: the
// maximum of the lows and of the highs, unknown as soon as one is.
func Highest(p Provenance, figures ...Figure) Figure {
	if len(figures) == 0 {
		return Unknown("nothing to compare", p)
	}
	top := figures[0]
	most, needed := top.Need()
	for _, f := range figures[1:] {
		need, known := f.Need()
		most, needed = max(most, need), needed && known
		top.low = max(top.low, f.low)
		top.high = max(top.high, f.high)
		if top.bounded && !f.bounded {
			top.bounded, top.reason = false, f.reason
		}
		top.zero = top.zero && f.zero
	}
	top.need, top.Provenance = most, p
	return top.settled(needed)
}
