package floodmark

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/compare"
	"floodmark/enginelog"
	"floodmark/record"
)

// bufferTerm is a kind of buffer that llama.cpp and what is built on it print, and
// the terms of an estimate that mean the same.
type bufferTerm struct {
	name  string
	kinds []enginelog.Kind
	terms []account.TermID
}

// bufferTerms are they, in the order in which a load makes them.
func bufferTerms() []bufferTerm {
	return []bufferTerm{
		{"weights", []enginelog.Kind{enginelog.KindWeights}, []account.TermID{account.TermWeights, account.TermBuffers, account.TermQuantisationMetadata, account.TermAdapters}},
		{"kv_cache", []enginelog.Kind{enginelog.KindKVCache, enginelog.KindContext}, []account.TermID{account.TermKVCache}},
		{"recurrent_state", []enginelog.Kind{enginelog.KindRecurrent}, []account.TermID{account.TermRecurrentState}},
		{"compute", []enginelog.Kind{enginelog.KindCompute, enginelog.KindOutput}, []account.TermID{account.TermActivations, account.TermTemporaries, account.TermLogits, account.TermWorkspace}},
		{"outside", []enginelog.Kind{enginelog.KindUnaccounted}, []account.TermID{account.TermContext, account.TermCommunication}},
	}
}

// buffers sets the buffers that an engine printed beside the estimate, device by
// device where the estimate has as many ranks, else all of them together; false
// where it printed none.
func (b *beside) buffers(d *record.Log) bool {
	held := heldBuffers(d.Components)
	if len(held) == 0 || len(b.estimate.Ranks) == 0 {
		return false
	}
	ranks := 0
	for _, r := range b.estimate.Ranks {
		ranks += max(1, len(r.Ranks))
	}
	if ranks != len(held) && len(held) > 1 {
		b.warn("devices_together", "the text is of %d devices and the estimate of %d: what they hold is added up, and says nothing of any one of them", len(held), ranks)
		held = []heldBuffer{together(held)}
	}
	for i, h := range held {
		if len(held) > 1 {
			b.rank, b.device = &i, &h.device
		}
		b.buffersOf(h, b.rankOf(b.rank), d.Components)
	}
	b.rank, b.device = nil, nil
	return true
}

// heldBuffer is what one device holds, by kind of buffer.
type heldBuffer struct {
	device int
	kinds  map[enginelog.Kind]account.Figure
}

// heldBuffers are those of each device. A table at the end says the same again,
// where it has it, and what no buffer says.
func heldBuffers(components []record.Component) []heldBuffer {
	var held []heldBuffer
	for _, c := range components {
		if c.Device == nil || !strings.HasPrefix(c.Component, "llama.cpp") {
			continue
		}
		i := slices.IndexFunc(held, func(h heldBuffer) bool { return h.device == *c.Device })
		if i < 0 {
			i = len(held)
			held = append(held, heldBuffer{*c.Device, map[enginelog.Kind]account.Figure{}})
		}
		kind, f := enginelog.Kind(c.Kind), figureOf(c.Bytes, c.LowBytes, c.HighBytes)
		if before, has := held[i].kinds[kind]; has && !inTable(components, c) {
			f = account.Sum(account.Provenance{}, before, f)
		}
		held[i].kinds[kind] = f
	}
	for _, h := range held {
		if h.kinds[enginelog.KindKVCache].Known() || h.kinds[enginelog.KindRecurrent].Known() {
			delete(h.kinds, enginelog.KindContext) // the same bytes
		}
	}
	return held
}

// inTable reports a number of the row that llama.cpp prints of a device at its end.
func inTable(components []record.Component, c record.Component) bool {
	return slices.ContainsFunc(components, func(o record.Component) bool {
		return o.Line == c.Line && o.Component == c.Component && enginelog.Kind(o.Kind) == enginelog.KindInUse
	})
}

// together adds up what several devices hold.
func together(held []heldBuffer) heldBuffer {
	sum := heldBuffer{kinds: map[enginelog.Kind]account.Figure{}}
	for _, h := range held {
		for kind, f := range h.kinds {
			if before, has := sum.kinds[kind]; has {
				f = account.Sum(account.Provenance{}, before, f)
			}
			sum.kinds[kind] = f
		}
	}
	return sum
}

// buffersOf is the rows of one device: each term that both sides list, what only
// one of them does together, and the sum.
func (b *beside) buffersOf(h heldBuffer, rank *record.Rank, components []record.Component) {
	var parts []compare.Pair
	others := compare.Pair{Term: "all_other_terms", Predicted: account.Exact(0, account.Provenance{}), Observed: account.Exact(0, account.Provenance{})}
	var named []string
	foreseen := map[account.TermID]bool{}
	for _, t := range bufferTerms() {
		p := compare.Pair{Term: t.name, Predicted: account.Unknown("", account.Provenance{}), Observed: h.sum(t.kinds)}
		if rank != nil {
			p.Predicted = sumOf(rank, t.terms...)
		}
		if !p.Observed.Known() && !p.Predicted.Known() {
			continue
		}
		if p.Predicted.Known() {
			for _, id := range t.terms {
				foreseen[id] = true
			}
		}
		if p.Observed.Known() && !p.Predicted.Known() {
			others.Observed = account.Sum(account.Provenance{}, others.Observed, p.Observed)
			named = append(named, spacedTerm(t.name)+" "+sizeText(highOf(p.Observed)))
		}
		parts = append(parts, p)
		b.against.Rows = append(b.against.Rows, b.bufferRow(p, components))
	}
	others.Predicted = b.unmatched(rank, foreseen)
	if rule := strings.Join(named, ", "); rule != "" {
		b.against.Rows = append(b.against.Rows, b.at(others, account.Process, "the text prints "+rule+", which the estimate does not tell apart"))
	}
	parts = append(parts, others)
	total := h.total(parts)
	b.cancelling(parts, total)
	b.against.Rows = append(b.against.Rows, b.at(total, account.Process, ""), b.unprinted(h, total))
}

// bufferRow is one term. Weights that stay in main memory are why fewer are on the
// device.
func (b *beside) bufferRow(p compare.Pair, components []record.Component) record.AgainstRow {
	r := b.at(p, account.Process, "")
	if p.Term != "weights" || p.Difference().Certainly() >= 0 {
		return r
	}
	for _, c := range components {
		if f := figureOf(c.Bytes, c.LowBytes, c.HighBytes); c.Device == nil && f.Known() && enginelog.Kind(c.Kind) == enginelog.KindWeights && strings.HasPrefix(c.Component, "llama.cpp") {
			r.Cause += fmt.Sprintf(": %s of weights are in main memory (%s, line %d)", sizeText(highOf(f)), strings.TrimPrefix(c.Component, "llama.cpp "), c.Line)
		}
	}
	return r
}

// unmatched is what an estimate lists under terms that no buffer stands for.
func (b *beside) unmatched(rank *record.Rank, matched map[account.TermID]bool) account.Figure {
	sum := account.Exact(0, account.Provenance{})
	if rank == nil {
		return sum
	}
	for _, t := range rank.Terms {
		if !matched[account.TermID(t.ID)] && t.Status == string(account.StatusCounted) {
			sum = account.Sum(account.Provenance{}, sum, termFigure(t))
		}
	}
	return sum
}

// sum is what a device holds of several kinds; unknown where it printed none.
func (h heldBuffer) sum(kinds []enginelog.Kind) account.Figure {
	var figures []account.Figure
	for _, k := range kinds {
		if f := h.kinds[k]; f.Known() {
			figures = append(figures, f)
		}
	}
	if len(figures) == 0 {
		return account.Unknown("the text does not print it", account.Provenance{})
	}
	return signedSum(figures)
}

// total is all terms of both sides: those that only one side lists are in its
// other terms.
func (h heldBuffer) total(parts []compare.Pair) compare.Pair {
	total := compare.Pair{Term: "total"}
	var foreseen, seen []account.Figure
	for _, p := range parts {
		if p.Predicted.Known() {
			foreseen = append(foreseen, p.Predicted)
		}
		if p.Observed.Known() && (p.Predicted.Known() || p.Term == "all_other_terms") {
			seen = append(seen, p.Observed)
		}
	}
	total.Predicted, total.Observed = signedSum(foreseen), signedSum(seen)
	return total
}

// unprinted is what the driver counted and no term says.
func (b *beside) unprinted(h heldBuffer, total compare.Pair) record.AgainstRow {
	none := int64(0)
	r := record.AgainstRow{Term: "residual", Unit: "bytes", Scope: string(account.Device), Rank: b.rank, Device: b.device, PredictedLow: &none, PredictedHigh: &none,
		Cause: "cannot be told: the text prints no table of the device's total and free bytes"}
	capacity, free := h.kinds[enginelog.KindCapacity], h.kinds[enginelog.KindFree]
	if !capacity.Known() || !free.Known() {
		return r
	}
	left := capacity.Minus(free, account.Provenance{}).Minus(total.Observed, account.Provenance{})
	if !left.Known() {
		r.Cause = "cannot be told: " + left.Reason()
		return r
	}
	low, high := left.Low(), highOf(left)
	inside := low <= 0 && high >= 0
	r.ObservedLow, r.ObservedHigh, r.DifferenceLow, r.DifferenceHigh, r.Inside = &low, &high, &low, &high, &inside
	r.Cause = "nothing, to the printed digits: the terms are all that the driver counts"
	if !inside {
		r.Cause = "in use on the device and in no printed buffer"
	}
	return r
}
