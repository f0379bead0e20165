package enginelog

import (
	"fmt"

	"floodmark/account"
	"floodmark/bytesize"
)

// Class says why a request failed, as far as the numbers show.
type Class string

const (
	// Spill: tensors hold more than the card has, so that the driver has moved
	// some of it to main memory.
	Spill Class = "spill"
	// AbsurdSize: no memory has that many bytes; a shape or a count is corrupt.
	AbsurdSize Class = "absurd_size"
	// LimitOutsideAllocator: the driver had the bytes and refused all the same.
	LimitOutsideAllocator Class = "limit_outside_allocator"
	// Exhaustion: even with all that was free and cached in one piece, the
	// request would not fit. No allocator setting helps.
	Exhaustion Class = "exhaustion"
	// FragmentationPlausible: what is free and cached would do if it were one
	// piece. That proves nothing: a cached block can belong to another stream.
	FragmentationPlausible Class = "fragmentation_plausible"
	// CannotTell: a number is missing, or its rounding leaves it open.
	CannotTell Class = "cannot_tell"
)

// words is a class for a sentence.
func (c Class) words() string {
	switch c {
	case Spill:
		return "a spill to main memory"
	case AbsurdSize:
		return "an absurd size"
	case LimitOutsideAllocator:
		return "a limit outside the allocator"
	case FragmentationPlausible:
		return "plausible fragmentation"
	case CannotTell:
		return "undecided"
	}
	return string(c)
}

// truth is whether a comparison holds for intervals.
type truth int8

const (
	no truth = iota
	open
	yes
)

// exceeds compares two figures: a > b.
func exceeds(a, b account.Figure) truth {
	if bHigh, known := b.High(); known && a.Low() > bHigh {
		return yes
	}
	if aHigh, known := a.High(); known && aHigh <= b.Low() {
		return no
	}
	return open
}

// not turns a comparison round.
func not(t truth) truth { return yes - t }

// contradiction names two printed numbers that cannot both be true, whatever
// their rounding. More allocated than the card has is none: a driver can move
// bytes to main memory.
func (m *OutOfMemory) contradiction() string {
	for _, rule := range []struct {
		part, whole account.Figure
		text        string
	}{
		{m.Free, m.Capacity, "%s free of a card that has %s"},
		{m.Allocated, m.Reserved, "%s allocated of %s that are reserved"},
		{m.PrivatePools, m.Allocated, "%s free in private pools of %s that are counted as allocated"},
		{m.Unallocated, m.Reserved, "%s cached of %s that are reserved"},
	} {
		if m.Backend != MPS && rule.part.Known() && rule.whole.Known() && exceeds(rule.part, rule.whole) == yes {
			return fmt.Sprintf(rule.text, show(rule.part), show(rule.whole))
		}
	}
	return ""
}

// judge fills in class, sentence and advice.
func (m *OutOfMemory) judge(log *Log) {
	m.expandable = log.expandable()
	m.Possible = m.possible()
	m.Class = CannotTell
	if len(m.Possible) == 1 {
		m.Class, m.Possible = m.Possible[0], nil
	}
	m.Because = m.because()
	m.Advice = m.advice(log)
}

// possible goes through the decision table in its order. A rule that holds
// ends it; one that the numbers leave open stays possible, and the next is
// asked. Only one that is left is the class.
func (m *OutOfMemory) possible() []Class {
	if m.absurd() {
		return []Class{AbsurdSize}
	}
	if m.conflict != "" || !m.Capacity.Known() && !m.Free.Known() && !m.Allowed.Known() {
		return nil
	}
	free, room := m.free(), m.room()
	var list []Class
	fragmented := yes
	if m.Backend == MPS {
		fragmented = no // its allocator had given back all that it cached, and counts bytes only
	}
	for _, rule := range []struct {
		class Class
		holds truth
	}{
		{Spill, m.spilled()},
		{LimitOutsideAllocator, not(exceeds(m.need(), free))},
		{Exhaustion, exceeds(m.Request, room)},
		{FragmentationPlausible, fragmented},
	} {
		if rule.holds != no {
			list = append(list, rule.class)
		}
		if rule.holds == yes {
			break
		}
	}
	return list
}

// spilled reports whether tensors hold more than the card has. Where the
// message has no number for tensors there is nothing to compare.
func (m *OutOfMemory) spilled() truth {
	if !m.Allocated.Known() || !m.Capacity.Known() {
		return no
	}
	return exceeds(m.Allocated, m.Capacity)
}

// absurd reports a request of a pebibyte or more. PyTorch refuses an exbibyte
// without trying, and hands on less; but no device has a thousandth of either.
func (m *OutOfMemory) absurd() bool {
	return m.TooLarge || m.Request.Low() >= 1<<50 || m.Request.Reason() == bytesize.ErrOverflow.Error()
}

// limit is what the process could still take within what it was allowed;
// unknown where no limit is printed.
func (m *OutOfMemory) limit() account.Figure {
	p := derived(m.Request, account.Device, "allowed − reserved")
	taken := m.Reserved
	if m.era == ofAsync {
		taken = m.Allocated // which is what that allocator compares
	}
	limit := least(m.Allowed.Minus(taken, p))
	if m.Backend == MPS {
		return least(limit.Minus(m.OtherAllocations, p))
	}
	return limit
}

// capped reports whether the limit of the process, not the device, is what left
// so little.
func (m *OutOfMemory) capped() bool {
	high, known := m.limit().High()
	return known && m.Backend != MPS && high < m.Free.Low()
}

// free is what the process could still take from the driver: what the device
// had free, within what the process was allowed.
func (m *OutOfMemory) free() account.Figure {
	p := derived(m.Request, account.Device, "free")
	limit := m.limit()
	if m.Backend == MPS {
		return limit
	}
	free := m.Free
	if !free.Known() && m.Capacity.Known() {
		free = atMost(m.Capacity, m.Reserved, p)
	}
	return lower(free, limit, p)
}

// room is what a request could have at the very most: everything free and
// everything cached, and never more than the card has beside live tensors. The
// allocator for MPS frees all that it caches before it fails
// (release_cached_buffers, aten/src/ATen/mps/MPSAllocator.mm), and then compares
// sums of bytes with what is allowed.
func (m *OutOfMemory) room() account.Figure {
	if m.Backend == MPS {
		return m.free()
	}
	p := derived(m.Request, account.Device, "free + unallocated")
	sum := account.Unknown("", p)
	if free := m.free(); free.Known() && m.Unallocated.Known() {
		sum = account.Sum(p, free, m.Unallocated)
	}
	card := lower(m.Capacity, m.Allowed, p)
	if !card.Known() {
		return sum
	}
	most := atMost(card, m.Allocated, p)
	high, _ := most.High()
	low := m.Free.Low()
	if sumHigh, known := sum.High(); known {
		low, high = sum.Low(), min(sumHigh, high)
	}
	return account.Between(min(low, high), high, p)
}

// need is what the driver had to give. With expandable segments that is whole
// pages, 20 MiB each for what is larger than 2 MiB (kLargeBuffer and
// kSmallBuffer of PyTorch's allocator), of which some may be mapped already.
func (m *OutOfMemory) need() account.Figure {
	const page, small = 20 << 20, 2 << 20
	high, known := m.Request.High()
	if !known || !m.expandable || high <= small {
		return m.Request
	}
	if pages, fits := bytesize.Mul(bytesize.CeilDiv(high, page), page); fits {
		return account.Between(m.Request.Low(), pages, m.Request.Provenance)
	}
	return m.Request
}

// atMost is an interval from 0 to what a total leaves beside a part; a part
// that is unknown counts with its low.
func atMost(total, part account.Figure, p account.Provenance) account.Figure {
	high, _ := total.High()
	return account.Between(0, max(high-part.Low(), 0), p)
}

// lower is the smaller of two figures; one that is unknown does not count.
func lower(a, b account.Figure, p account.Provenance) account.Figure {
	if !a.Known() {
		return b
	}
	if !b.Known() {
		return a
	}
	aHigh, _ := a.High()
	bHigh, _ := b.High()
	return account.Between(min(a.Low(), b.Low()), min(aHigh, bHigh), p)
}
