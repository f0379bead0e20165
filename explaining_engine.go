package floodmark

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/compare"
	"floodmark/enginelog"
	"floodmark/internal/sorting"
	"floodmark/record"
)

// shareRecord is the share of the first rank.
func (p *Prediction) shareRecord() *record.CardShare {
	if len(p.shares) == 0 || p.shares[0] == nil {
		return nil
	}
	s := p.shares[0]
	r := &record.CardShare{Given: s.Given}
	if total := memory(p.Request, nil).Total; total.Known() {
		low, high := int64(math.Ceil(float64(total.Low())*s.Given)), int64(math.Ceil(float64(highOf(total))*s.Given))
		r.RequestedLowBytes, r.RequestedHighBytes = &low, &high
	}
	if n, exact := s.Request.IsExact(); exact {
		r.RequestBytes = &n
	}
	return r
}

// againstTerm is a kind of printed number and what stands beside it.
type againstTerm struct {
	name  string
	kind  enginelog.Kind
	scope account.Scope
	rule  string
}

// againstTerms are the terms of a start of vLLM, in the engine's own order.
func againstTerms() []againstTerm {
	return []againstTerm{
		{"budget", enginelog.KindBudget, account.Device, "the share of what the card reports"},
		{"weights", enginelog.KindWeights, account.Allocated, "stored tensors, sines and cosines, second layouts, rounding"},
		{"peak_activation", enginelog.KindPeakActivation, account.Allocated, "the trial run: one step's positions, the requests that are sampled"},
		{"non_torch", enginelog.KindNonTorch, account.Process, "kernels and buffers outside the allocator, measured intervals"},
		{"kv_cache", enginelog.KindKVCacheAvailable, account.Allocated, "what the budget leaves; all ranks use what the least of them has"},
		{"cuda_graphs", enginelog.KindGraphs, account.Process, "captured graphs, fitted"},
		{"capacity", enginelog.KindCapacity, account.Device, "what the card reports"},
	}
}

// vllm sets what vLLM printed of a start beside the estimate, rank by rank; false
// where it printed nothing.
func (b *beside) vllm(d *record.Log) bool {
	printed := slices.DeleteFunc(slices.Clone(d.Components), func(c record.Component) bool { return !strings.HasPrefix(c.Component, "vllm") })
	if len(observed(printed, nil)) == 0 {
		return false
	}
	if m := d.Trial.Model; m != nil {
		b.warnings = append(b.warnings, anotherModel(*m, b.estimate)...)
	}
	var before []map[enginelog.Kind]account.Figure
	for _, rank := range printedRanks(printed) {
		seen := observed(printed, rank)
		if slices.ContainsFunc(before, func(other map[enginelog.Kind]account.Figure) bool { return alikePrinted(other, seen) }) && rank != nil && b.rankOf(rank) == b.rankOf(b.rank) {
			continue // equal ranks that printed the same
		}
		before = append(before, seen)
		b.rank = rank
		b.start(seen, d)
	}
	b.rank = nil
	return true
}

// printedRanks are the ranks that printed something: where it is one, or none says
// which it is, none is named.
func printedRanks(printed []record.Component) []*int {
	var ranks []*int
	for _, c := range printed {
		if c.Rank != nil && !slices.ContainsFunc(ranks, func(r *int) bool { return *r == *c.Rank }) {
			ranks = append(ranks, c.Rank)
		}
	}
	if len(ranks) < 2 {
		return []*int{nil}
	}
	sorting.By(ranks, func(i, j int) int { return *ranks[i] - *ranks[j] })
	return ranks
}

// alikePrinted reports two ranks that printed the same of every term.
func alikePrinted(a, b map[enginelog.Kind]account.Figure) bool {
	for _, t := range againstTerms() {
		if interval(a[t.kind]) != interval(b[t.kind]) {
			return false
		}
	}
	return true
}

// start is the rows of one rank's start.
func (b *beside) start(seen map[enginelog.Kind]account.Figure, d *record.Log) {
	foreseen := b.planned(b.rankOf(b.rank))
	var parts []compare.Pair
	for _, t := range againstTerms() {
		p := compare.Pair{Term: t.name, Predicted: foreseen[t.kind], Observed: seen[t.kind]}
		row := startRow(b.at(p, t.scope, t.rule), p)
		if t.kind == enginelog.KindKVCacheAvailable {
			row.Cause += takenByOthers(p, parts)
		}
		b.against.Rows = append(b.against.Rows, row)
		if slices.Contains(spentOfBudget(), t.kind) {
			parts = append(parts, p)
		}
	}
	b.cancelling(parts, spentPair(parts))
	b.against.Rows = append(b.against.Rows, b.tokens(d), b.residual(residualOfBudget(seen)))
	if b.against.BareUtilization == nil {
		b.against.BareUtilization, b.against.OneUtilization = leastShares(seen, b.estimate)
	}
}

// takenByOthers says of a cache that is smaller or larger than foreseen which terms
// of the budget are why: what they take more, it has less.
func takenByOthers(cache compare.Pair, parts []compare.Pair) string {
	off := cache.Difference().Certainly()
	var why []string
	for _, p := range parts {
		if n := p.Difference().Certainly(); n != 0 && (n > 0) == (off < 0) {
			why = append(why, spacedTerm(p.Term)+" "+signedSize(n))
		}
	}
	if off == 0 || len(why) == 0 {
		return ""
	}
	return "; the budget is divided otherwise: " + strings.Join(why, ", ")
}

// startRow says of a cache without room that it is as estimated: the engine prints
// how much is lacking.
func startRow(r record.AgainstRow, p compare.Pair) record.AgainstRow {
	switch {
	case p.Observed.Known() && highOf(p.Observed) <= 0 && p.Predicted.Known() && p.Predicted.Low() == 0:
		inside := true
		r.Inside, r.Cause = &inside, "as estimated: nothing is left, and the engine prints how much is lacking"
	case r.ObservedLow == nil:
		r.Cause = "the text does not print it"
	case r.Inside != nil && !*r.Inside:
		if p.Term != "kv_cache" {
			r.Cause += "; what it is the text does not say"
		}
	}
	return r
}

// spentOfBudget is what a budget is spent on before the cache.
func spentOfBudget() []enginelog.Kind {
	return []enginelog.Kind{enginelog.KindWeights, enginelog.KindPeakActivation, enginelog.KindNonTorch}
}

// spentPair is their sum.
func spentPair(parts []compare.Pair) compare.Pair {
	total := compare.Pair{Term: "what the budget is spent on"}
	var foreseen, seen []account.Figure
	for _, p := range parts {
		foreseen, seen = append(foreseen, p.Predicted), append(seen, p.Observed)
	}
	total.Predicted, total.Observed = account.Sum(account.Provenance{}, foreseen...), account.Sum(account.Provenance{}, seen...)
	return total
}

func (b *beside) residual(r record.AgainstRow) record.AgainstRow {
	r.Rank, r.Device = b.rank, b.device
	return r
}

// observed is the last reading of each kind: of one rank, or of the first rank that
// has any, and of the lines that name none.
func observed(printed []record.Component, rank *int) map[enginelog.Kind]account.Figure {
	kinds := map[enginelog.Kind]account.Figure{}
	first := math.MaxInt
	for _, c := range printed {
		if c.Rank != nil {
			first = min(first, *c.Rank)
		}
	}
	if rank != nil {
		first = *rank
	}
	for _, c := range printed {
		f := figureOf(c.Bytes, c.LowBytes, c.HighBytes)
		if (c.Rank == nil || *c.Rank == first) && f.Known() {
			kinds[enginelog.Kind(c.Kind)] = f
		}
	}
	return kinds
}

// planned is what an estimate says of each printed kind, on one rank.
func (b *beside) planned(rank *record.Rank) map[enginelog.Kind]account.Figure {
	kinds := map[enginelog.Kind]account.Figure{}
	if rank == nil {
		return kinds
	}
	e := b.estimate
	p := account.Provenance{Origin: account.Calculated}
	sum := func(ids ...account.TermID) account.Figure {
		total := account.Exact(0, p)
		for _, t := range rank.Terms {
			if slices.Contains(ids, account.TermID(t.ID)) {
				total = account.Sum(p, total, figureOf(t.Bytes, t.LowBytes, t.HighBytes))
			}
		}
		return total
	}
	weights := sum(account.TermWeights, account.TermQuantisationMetadata, account.TermBuffers, account.TermAdapters, account.TermAllocatorRounding)
	kinds[enginelog.KindWeights] = weights
	kinds[enginelog.KindNonTorch] = sum(account.TermCommunication)
	kinds[enginelog.KindGraphs] = sum(account.TermGraphPools)
	kinds[enginelog.KindKVCacheAvailable] = sum(account.TermKVCache)
	var peaks []account.Figure
	for _, phase := range rank.Phases {
		if id := account.PhaseID(phase.Name); id == account.PhaseProfileForward || id == account.PhaseProfileSampler {
			f := figureOf(phase.PeakRequestedBytes, phase.PeakRequestedLowBytes, phase.PeakRequestedHighBytes)
			// Both hold the same weights, of which what is uncertain is not of the peak.
			low, high := f.Low()-weights.Low(), highOf(f)-highOf(weights)
			peaks = append(peaks, account.Between(max(0, min(low, high)), max(0, low, high), p))
		}
	}
	if len(peaks) > 0 {
		kinds[enginelog.KindPeakActivation] = account.Highest(p, peaks...)
	}
	if d := rank.Device; d != nil {
		kinds[enginelog.KindCapacity] = figureOf(d.ReportedBytes, d.ReportedLowBytes, d.ReportedHighBytes)
	}
	if s := e.Share; s != nil && s.RequestedLowBytes != nil {
		kinds[enginelog.KindBudget] = account.Between(*s.RequestedLowBytes, *s.RequestedHighBytes, p)
	}
	return kinds
}

// tokens is how many tokens the cache holds on both sides.
func (b *beside) tokens(d *record.Log) record.AgainstRow {
	r := record.AgainstRow{Term: "kv_cache_tokens", Unit: "tokens", Scope: string(account.Allocated), Rank: b.rank, Device: b.device, Cause: "the text does not print it"}
	if c := b.estimate.Capacity; c != nil {
		r.PredictedLow, r.PredictedHigh = endsOf(figureOf(c.Tokens, c.TokensLow, c.TokensHigh))
	}
	for _, c := range d.Components {
		if enginelog.Kind(c.Kind) != enginelog.KindKVCacheTokens {
			continue
		}
		number, _, _ := strings.Cut(c.Printed, " ")
		if n, err := strconv.ParseInt(strings.ReplaceAll(number, ",", ""), 10, 64); err == nil {
			r.ObservedLow, r.ObservedHigh = &n, &n
		}
	}
	if r.ObservedLow == nil || r.PredictedLow == nil || r.PredictedHigh == nil {
		return r
	}
	low, high := *r.ObservedLow-*r.PredictedHigh, *r.ObservedHigh-*r.PredictedLow
	r.DifferenceLow, r.DifferenceHigh = &low, &high
	inside := low <= 0 && high >= 0
	r.Inside = &inside
	r.Cause = "blocks of the cache, of the rank that has least"
	return r
}

// residualOfBudget is what the printed terms leave of the printed budget: nothing,
// to the printed digits, where every term was printed.
func residualOfBudget(seen map[enginelog.Kind]account.Figure) record.AgainstRow {
	none := int64(0)
	r := record.AgainstRow{Term: "residual", Unit: "bytes", Scope: string(account.Device), PredictedLow: &none, PredictedHigh: &none}
	var missing []string
	parts := append(spentOfBudget(), enginelog.KindKVCacheAvailable)
	for _, k := range append([]enginelog.Kind{enginelog.KindBudget}, parts...) {
		if !seen[k].Known() {
			missing = append(missing, string(k))
		}
	}
	if len(missing) > 0 {
		r.Cause = "cannot be told: the text does not print " + strings.Join(missing, ", ")
		return r
	}
	var figures []account.Figure
	for _, k := range parts {
		figures = append(figures, seen[k])
	}
	left := seen[enginelog.KindBudget].Minus(signedSum(figures), account.Provenance{})
	if !left.Known() {
		r.Cause = "cannot be told: " + left.Reason()
		return r
	}
	low, high := left.Low(), highOf(left)
	r.ObservedLow, r.ObservedHigh, r.DifferenceLow, r.DifferenceHigh = &low, &high, &low, &high
	inside := low <= 0 && high >= 0
	r.Inside = &inside
	r.Cause = "nothing, to the printed digits: the terms add up to the budget"
	if !inside {
		r.Cause = "no printed term says what it is: graphs that newer versions take off the cache, or another rank's number among these"
	}
	return r
}

// signedSum adds figures of which one may be below zero: a cache without room. An
// overflow is unknown.
func signedSum(figures []account.Figure) account.Figure {
	var low, high int64
	for _, f := range figures {
		var a, b bool
		if low, a = bytesize.Add(low, f.Low()); !a {
			return account.Unknown(bytesize.ErrOverflow.Error(), account.Provenance{})
		}
		if high, b = bytesize.Add(high, highOf(f)); !b {
			return account.Unknown(bytesize.ErrOverflow.Error(), account.Provenance{})
		}
	}
	return account.Between(low, high, account.Provenance{})
}

// leastShares is the least share of the card that leaves room for nothing, and for
// one request of the longest length, from what was printed.
func leastShares(seen map[enginelog.Kind]account.Figure, e *record.Estimate) (bare, one *float64) {
	total := seen[enginelog.KindCapacity]
	parts := []account.Figure{seen[enginelog.KindWeights], seen[enginelog.KindPeakActivation], seen[enginelog.KindNonTorch]}
	for _, f := range append(parts, total) {
		if !f.Known() {
			return nil, nil
		}
	}
	middle := func(f account.Figure) float64 { return (float64(f.Low()) + float64(highOf(f))) / 2 }
	spent := middle(parts[0]) + middle(parts[1]) + middle(parts[2])
	if middle(total) <= 0 {
		return nil, nil
	}
	least := math.Ceil(1000*spent/middle(total)-1e-6) / 1000
	bare = &least
	if s := e.Share; s != nil && s.RequestBytes != nil {
		request := math.Ceil(1000*(spent+float64(*s.RequestBytes))/middle(total)-1e-6) / 1000
		one = &request
	}
	return bare, one
}
