package timeline

import "floodmark/account"

// ToEnd is the To of a bound that is held to the last span, which is known only
// when all spans are written.
const ToEnd = int32(-1)

// None is an allocation that does not exist.
const None = ^uint32(0)

// Span begins a phase behind the last event, and gives its index.
func (t *Timeline) Span(p account.PhaseID) int {
	n := len(t.Events)
	t.Phases = append(t.Phases, Span{Phase: p, First: n, Last: n})
	return len(t.Phases) - 1
}

// Term is the term of an id, made where the timeline has none.
func (t *Timeline) Term(id account.TermID, c account.Category, p account.Provenance) uint32 {
	for i := range t.Terms {
		if t.Terms[i].ID == id {
			return uint32(i)
		}
	}
	t.Terms = append(t.Terms, account.Term{ID: id, Category: c, Provenance: p})
	return uint32(len(t.Terms) - 1)
}

// Bound keeps a figure of a term from the beginning of span from to the end of
// span to.
func (t *Timeline) Bound(term uint32, from int, to int32, f account.Figure) {
	t.Bounds = append(t.Bounds, Bound{Term: term, From: int32(from), To: to, Figure: f})
}

// Hold is [Timeline.Bound] for the term of an id.
func (t *Timeline) Hold(id account.TermID, c account.Category, from int, to int32, f account.Figure) {
	t.Bound(t.Term(id, c, f.Provenance), from, to, f)
}

// Bear allocates bytes of a term; [None] for no bytes.
func (t *Timeline) Bear(space Space, term uint32, bytes int64) uint32 {
	if bytes == 0 {
		return None
	}
	a := uint32(len(t.Allocs))
	t.Allocs = append(t.Allocs, Alloc{Requested: bytes, Term: term, Stack: NoStack, Space: space})
	t.Events = append(t.Events, Event{Kind: Born, Alloc: a})
	return a
}

// Free lets go of allocations, in their order.
func (t *Timeline) Free(allocs ...uint32) {
	for _, a := range allocs {
		if a != None {
			t.Events = append(t.Events, Event{Kind: FreeRequested, Alloc: a}, Event{Kind: FreeCompleted, Alloc: a})
		}
	}
}

// Close gives the bounds that are held to the end their last span.
func (t *Timeline) Close() {
	for i := range t.Bounds {
		if t.Bounds[i].To == ToEnd {
			t.Bounds[i].To = int32(len(t.Phases) - 1)
		}
	}
}

// Warn adds a warning.
func (t *Timeline) Warn(code, text string) {
	t.Warnings = append(t.Warnings, account.Warning{Code: code, Text: text})
}
