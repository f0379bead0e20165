package snapshot

import (
	"cmp"
	"slices"

	"floodmark/account"
	"floodmark/internal/sorting"
)

// Share is what one category holds at a moment.
type Share struct {
	Category account.Category
	Bytes    int64
	Count    int
	AtEnd    int64 // bytes of it that are still held at the end of the trace
}

// Composition is what is alive after one entry.
type Composition struct {
	Entry   int
	Phase   account.PhaseID // what the program was doing
	Bytes   int64           // the sum of Shares
	Allocs  []uint32        // indexes into Timeline.Allocs
	Shares  []Share         // by category, largest first
	Reasons []Reason        // by verdict, largest first
}

// Reason is what one verdict holds at a moment.
type Reason struct {
	Verdict
	Bytes int64
	Count int
}

// PeakEntry is the entry after which requested bytes stand highest; the end of a
// trace without history, for what is known is then the level at the dump.
func (x *Explanation) PeakEntry() int {
	if !x.history {
		return x.r.Trace.Len()
	}
	return x.r.Peaks().Requested.Entry
}

// Compose adds up what is alive after an entry in one scope, which is requested
// or allocated: allocated stops counting when a free is requested. The bytes are
// requested ones in both; what the allocator rounds up is not in them.
func (x *Explanation) Compose(entry int, scope account.Scope) Composition {
	c := Composition{Entry: entry, Phase: x.phaseAt(entry)}
	for _, a := range x.AliveAt(entry) {
		if scope == account.Requested || int(x.lives.request[a]) > entry {
			c.Allocs = append(c.Allocs, a)
		}
	}
	second := x.replacements(c.Allocs, entry)
	reasons, shares := map[Verdict]*Reason{}, map[account.Category]*Share{}
	for _, a := range c.Allocs {
		v, bytes := x.Verdict(a), x.r.Timeline.Allocs[a].Requested
		if second[a] {
			v = Verdict{account.CategoryTemporary, ByLifetime, "a second copy of optimizer state, while the step still holds the first"}
		}
		reason, share := reasons[v], shares[v.Category]
		if reason == nil {
			reason = &Reason{Verdict: v}
			reasons[v] = reason
		}
		if share == nil {
			share = &Share{Category: v.Category}
			shares[v.Category] = share
		}
		reason.Bytes, reason.Count = reason.Bytes+bytes, reason.Count+1
		share.Bytes, share.Count = share.Bytes+bytes, share.Count+1
		c.Bytes += bytes
		if x.lives.kept(int(a)) {
			share.AtEnd += bytes
		}
	}
	c.Shares, c.Reasons = sortedShares(shares), sortedReasons(reasons)
	return c
}

// replacements finds optimizer state that a running step has made anew while it
// still holds what that replaces: there are then more tensors of a size than
// before the trace or at its end, and the newest are the second copies.
func (x *Explanation) replacements(alive []uint32, entry int) map[uint32]bool {
	pass, l := x.lives.passAt(entry), x.lives
	if l.passes[pass] != optimizerStep {
		return nil
	}
	more := map[int64]int{}
	for size, n := range x.states {
		more[size] = -n
	}
	for _, a := range alive {
		if x.Verdict(a).Category == account.CategoryOptimizerState {
			more[x.r.Timeline.Allocs[a].Requested]++
		}
	}
	second := map[uint32]bool{}
	for _, a := range slices.Backward(alive) {
		made := l.birth[a] != never && int(l.bornIn[a]) == pass
		size := x.r.Timeline.Allocs[a].Requested
		if made && more[size] > 0 && x.Verdict(a).Category == account.CategoryOptimizerState {
			second[a] = true
			more[size]--
		}
	}
	return second
}

// lasting is how many allocations of a category live before the first entry or
// at the end, whichever are more, by size.
func (x *Explanation) lasting(c account.Category) map[int64]int {
	l := x.lives
	before, after := map[int64]int{}, map[int64]int{}
	for a := range x.of {
		if x.Verdict(uint32(a)).Category != c {
			continue
		}
		size := x.r.Timeline.Allocs[a].Requested
		if l.birth[a] == never {
			before[size]++
		}
		if l.kept(a) {
			after[size]++
		}
	}
	if total(after) > total(before) {
		return after
	}
	return before
}

func total(count map[int64]int) (bytes int64) {
	for size, n := range count {
		bytes += size * int64(n)
	}
	return bytes
}

func sortedShares(shares map[account.Category]*Share) []Share {
	var list []Share
	for _, category := range account.Categories() {
		if s := shares[category]; s != nil {
			list = append(list, *s)
		}
	}
	sorting.By(list, func(i, j int) int { return cmp.Compare(list[j].Bytes, list[i].Bytes) })
	return list
}

func sortedReasons(reasons map[Verdict]*Reason) []Reason {
	var list []Reason
	for _, r := range reasons {
		list = append(list, *r)
	}
	sorting.By(list, func(i, j int) int {
		a, b := list[i], list[j]
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Why, b.Why), cmp.Compare(a.Category, b.Category))
	})
	return list
}

// phaseAt is what the program does at an entry: what it marked, else what the
// stacks say.
func (x *Explanation) phaseAt(entry int) account.PhaseID {
	moment, _ := slices.BinarySearch(x.r.Entries, int32(entry))
	for _, span := range x.r.Timeline.Phases {
		if span.Phase != account.PhaseRecorded && span.First <= moment && moment < span.Last {
			return span.Phase
		}
	}
	if entry >= 0 && entry < x.r.Trace.Len() && x.marks.of(x.r.Trace.Stack[entry]).activity == loss {
		return account.PhaseLoss
	}
	return x.lives.phaseAt(entry)
}
