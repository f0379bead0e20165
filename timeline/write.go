package timeline

import "floodmark/account"

// ToEnd is the To of a bound that is held to the last span, which is known only
// when all spans are written.
const ToEnd = int32(-1)

// Span begins a phase behind the last event, and gives its index.
func (t *Timeline) Span(p account.PhaseID) int {
	n := len(t.Events)
	t.Phases = append(t.Phases, Span{Phase: p, First: n, Last: n})
	return len(t.Phases) - 1
}

// Hold keeps a figure from the beginning of span from to the end of span to, for
// a term that is made where the timeline has none of that id.
func (t *Timeline) Hold(id account.TermID, c account.Category, from int, to int32, f account.Figure) {
	term := uint32(len(t.Terms))
	for i := range t.Terms {
		if t.Terms[i].ID == id {
			term = uint32(i)
		}
	}
	if int(term) == len(t.Terms) {
		t.Terms = append(t.Terms, account.Term{ID: id, Category: c, Provenance: f.Provenance})
	}
	t.Bounds = append(t.Bounds, Bound{Term: term, From: int32(from), To: to, Figure: f})
}

// Close gives the bounds that are held to the end their last span.
func (t *Timeline) Close() {
	for i := range t.Bounds {
		if t.Bounds[i].To == ToEnd {
			t.Bounds[i].To = int32(len(t.Phases) - 1)
		}
	}
}
