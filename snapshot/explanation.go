package snapshot

import (
	"cmp"
	"slices"

	"floodmark/account"
	"floodmark/internal/sorting"
)

// Explanation says what each allocation of a recording is for.
type Explanation struct {
	s        *Snapshot
	r        *Recording
	marks    marks
	lives    *lives
	history  bool              // the trace shows births
	named    map[uint32]string // allocations that the program named while they lived
	verdicts []Verdict         // the distinct ones
	of       []uint8           // by allocation: index into verdicts
	states   map[int64]int     // how much optimizer state lasts, by size
}

// Explain decides what each allocation of a recording is for. Evidence is taken
// in this order: names that the program gave; the functions on the stacks of
// birth and free, with the pass in which each happened; sizes and lifetimes.
// What none of them decides is unattributed.
func (s *Snapshot) Explain(r *Recording) *Explanation {
	return s.explain(r, markStacks(&r.Timeline.Stacks))
}

// ExplainAll is [Snapshot.Explain] for each of a snapshot's recordings, whose
// stacks it looks at once.
func (s *Snapshot) ExplainAll(recordings []*Recording) []*Explanation {
	m := markStacks(&s.Stacks)
	var list []*Explanation
	for _, r := range recordings {
		list = append(list, s.explain(r, m))
	}
	return list
}

func (s *Snapshot) explain(r *Recording, m marks) *Explanation {
	x := &Explanation{s: s, r: r, marks: m}
	x.lives = r.lives(&x.marks)
	x.history = slices.Contains(r.Trace.Action, Alloc)
	x.named = x.annotations()
	x.of = make([]uint8, len(r.Timeline.Allocs))
	known := map[Verdict]uint8{}
	for a := range x.of {
		x.set(a, x.judge(a), known)
	}
	x.states = x.lasting(account.CategoryOptimizerState)
	x.residents(known)
	return x
}

// maxVerdicts bounds the distinct verdicts; the code has about forty.
const maxVerdicts = 255

func (x *Explanation) set(a int, v Verdict, known map[Verdict]uint8) {
	i, ok := known[v]
	if !ok && len(x.verdicts) < maxVerdicts {
		i = uint8(len(x.verdicts))
		known[v] = i
		x.verdicts = append(x.verdicts, v)
	}
	x.of[a] = i
}

// History reports whether the trace shows births. Without any the file has the
// levels at the dump, and nothing of what was before.
func (x *Explanation) History() bool { return x.history }

// Verdict is what an allocation, an index into Timeline.Allocs, is for.
func (x *Explanation) Verdict(alloc uint32) Verdict { return x.verdicts[x.of[alloc]] }

// AliveAt lists the allocations that are alive after an entry; −1 is before the
// first, and Trace.Len() the end. It counts as requested bytes do: until the
// free is completed.
func (x *Explanation) AliveAt(entry int) []uint32 {
	var list []uint32
	for a := range x.of {
		if x.lives.aliveAt(a, entry) {
			list = append(list, uint32(a))
		}
	}
	return list
}

// Attribute puts the categories into the recording's timeline as its terms, so
// that accounts have a row for each.
func (x *Explanation) Attribute() {
	tl := &x.r.Timeline
	terms := map[account.Category]uint32{}
	tl.Terms = nil
	for a, i := range x.of {
		c := x.verdicts[i].Category
		term, ok := terms[c]
		if !ok {
			term = uint32(len(tl.Terms))
			terms[c] = term
			tl.Terms = append(tl.Terms, account.Term{ID: TermOf(c), Category: c,
				Provenance: account.Provenance{Origin: account.Observed, Scope: account.Requested, Counter: "snapshot", Source: x.s.Name}})
		}
		tl.Allocs[a].Term = term
	}
}

// TermOf is the term that the bytes of a category are counted under.
func TermOf(c account.Category) account.TermID {
	switch c {
	case account.CategoryParameter:
		return account.TermWeights
	case account.CategoryBuffer:
		return account.TermBuffers
	case account.CategoryGradient:
		return account.TermGradients
	case account.CategoryActivation:
		return account.TermActivations
	case account.CategoryTemporary:
		return account.TermTemporaries
	case account.CategoryGraphPool:
		return account.TermGraphPools
	}
	// The other categories have one term, of the same name.
	return account.TermID(c)
}

// annotations finds the allocations that the program named while they lived.
func (x *Explanation) annotations() map[uint32]string {
	type naming struct {
		address uint64
		entry   int
	}
	var list []naming
	for i, action := range x.r.Trace.Action {
		if action == Annotate && i < len(x.r.Trace.Metadata) {
			list = append(list, naming{x.r.Trace.Addr[i], i})
		}
	}
	if len(list) == 0 {
		return nil
	}
	sorting.By(list, func(i, j int) int { return cmp.Compare(list[i].address, list[j].address) })
	named := map[uint32]string{}
	for a, address := range x.r.Addresses {
		i, _ := slices.BinarySearchFunc(list, address, func(n naming, a uint64) int { return cmp.Compare(n.address, a) })
		for ; i < len(list) && list[i].address == address; i++ {
			if x.lives.aliveAt(a, list[i].entry) {
				named[uint32(a)] = x.s.text(x.r.Trace.Metadata[list[i].entry])
			}
		}
	}
	return named
}
