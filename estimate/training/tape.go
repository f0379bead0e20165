package training

import (
	"floodmark/account"
	"floodmark/internal/torch"
	"floodmark/timeline"
)

// tape writes births, frees and bounds of one timeline.
type tape struct {
	tl *timeline.Timeline
}

// none is a tensor that does not exist.
const none = timeline.None

// newTape writes to the timeline of a machine, which has not begun yet.
func newTape(m *torch.Machine, ranks []int) *tape {
	tl, _ := m.Timeline() // nothing has run: there is no fault
	tl.Ranks = ranks
	for i, t := range tl.Terms {
		if rule := ruleOf(t.ID); rule != "" {
			tl.Terms[i].Provenance = requested(rule)
		}
	}
	return &tape{tl: tl}
}

// ruleOf is the rule by which the bytes of a term follow, where it is another than
// that each operator makes its own.
func ruleOf(id account.TermID) string {
	switch id {
	case account.TermWeights, account.TermBuffers, account.TermQuantisationMetadata:
		return weightsFormula
	case account.TermAdapters:
		return adapterFormula
	case account.TermGradients:
		return gradientFormula
	case account.TermMasterCopy:
		return masterFormula
	case account.TermGatheredParameters:
		return gatherFormula
	case account.TermBuckets:
		return bucketFormula
	case account.TermInput:
		return inputFormula
	}
	return ""
}

// term is the term of an id, made when it is first asked for.
func (t *tape) term(id account.TermID, c account.Category, p account.Provenance) uint32 {
	return t.tl.Term(id, c, p)
}

// born allocates bytes on the device; none for no bytes.
func (t *tape) born(term uint32, bytes int64) uint32 { return t.bornIn(timeline.Caching, term, bytes) }

func (t *tape) bornIn(space timeline.Space, term uint32, bytes int64) uint32 {
	return t.tl.Bear(space, term, bytes)
}

// free lets go of allocations, in their order.
func (t *tape) free(allocs ...uint32) { t.tl.Free(allocs...) }

// rebind gives a Python name another tensor: the old one goes when the new one
// is there.
func (t *tape) rebind(name *uint32, to uint32) {
	t.free(*name)
	*name = to
}

// bound holds a figure from span first to span to.
func (t *tape) bound(term uint32, first int, to int32, f account.Figure) {
	t.tl.Bound(term, first, to, f)
}

// keep is a term that is held from the beginning to the end.
func (t *tape) keep(id account.TermID, c account.Category, f account.Figure) {
	t.bound(t.term(id, c, f.Provenance), 0, last, f)
}

// here holds a figure in the span that was begun last.
func (t *tape) here(term uint32, f account.Figure) {
	span := len(t.tl.Phases) - 1
	t.bound(term, span, int32(span), f)
}

// prune leaves out the terms that hold nothing.
func (t *tape) prune() {
	used := make([]bool, len(t.tl.Terms))
	for _, a := range t.tl.Allocs {
		used[a.Term] = true
	}
	for _, b := range t.tl.Bounds {
		used[b.Term] = true
	}
	moved := make([]uint32, len(used))
	var terms []account.Term
	for i, term := range t.tl.Terms {
		moved[i] = uint32(len(terms))
		if used[i] {
			terms = append(terms, term)
		}
	}
	t.tl.Terms = terms
	for i, a := range t.tl.Allocs {
		t.tl.Allocs[i].Term = moved[a.Term]
	}
	for i, b := range t.tl.Bounds {
		t.tl.Bounds[i].Term = moved[b.Term]
	}
}

func (t *tape) warn(code, text string) { t.tl.Warn(code, text) }
