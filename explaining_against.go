package floodmark

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/enginelog"
	"floodmark/record"
)

// ErrNotAgainst says that evidence has nothing that an estimate can stand beside.
var ErrNotAgainst = errors.New("only what an engine printed when it started can be set beside an estimate by this version")

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

// Against sets what an engine printed beside an estimate of the same start, term by
// term. What no term explains stands in the last row, by itself.
func Against(e Evidence, estimate *record.Estimate, tool record.Tool) (*record.Log, error) {
	log, is := e.(logEvidence)
	if !is {
		return nil, ErrNotAgainst
	}
	seen := observed(log.log)
	if len(seen) == 0 {
		return nil, ErrNotAgainst
	}
	document := log.Record(tool).(*record.Log)
	document.Warnings = append(document.Warnings, anotherModel(log.log.Model, estimate)...)
	a := &record.Against{Estimate: estimated(estimate)}
	foreseen := planned(estimate)
	for _, t := range againstTerms() {
		a.Rows = append(a.Rows, againstRow(t.name, foreseen[t.kind], seen[t.kind], t.rule))
	}
	a.Rows = append(a.Rows, tokensRow(estimate, log.log), residualRow(seen))
	a.BareUtilization, a.OneUtilization = leastShares(seen, estimate)
	document.Against = a
	return document, nil
}

// againstTerm is a kind of printed number and what stands beside it.
type againstTerm struct {
	name string
	kind enginelog.Kind
	rule string
}

// againstTerms are the terms of a start, in the engine's own order.
func againstTerms() []againstTerm {
	return []againstTerm{
		{"budget", enginelog.KindBudget, "the share of what the card reports"},
		{"weights", enginelog.KindWeights, "stored tensors, sines and cosines, second layouts, rounding"},
		{"peak_activation", enginelog.KindPeakActivation, "the trial run: one step's positions, the requests that are sampled"},
		{"non_torch", enginelog.KindNonTorch, "kernels and buffers outside the allocator, measured intervals"},
		{"kv_cache", enginelog.KindKVCacheAvailable, "what the budget leaves"},
		{"cuda_graphs", enginelog.KindGraphs, "captured graphs, fitted"},
		{"capacity", enginelog.KindCapacity, "what the card reports"},
	}
}

// observed is the last reading of each kind, of the first rank that has any.
func observed(l *enginelog.Log) map[enginelog.Kind]account.Figure {
	kinds := map[enginelog.Kind]account.Figure{}
	rank := math.MaxInt
	for _, c := range l.Components {
		if strings.HasPrefix(c.Component, "vllm") && c.Rank >= 0 {
			rank = min(rank, c.Rank)
		}
	}
	for _, c := range l.Components {
		if strings.HasPrefix(c.Component, "vllm") && (c.Rank < 0 || c.Rank == rank) && c.Bytes.Known() {
			kinds[c.Kind] = c.Bytes
		}
	}
	return kinds
}

// anotherModel warns of a log whose model is not the one estimated. A name and a
// folder can mean the same, so their last parts are compared.
func anotherModel(printed string, e *record.Estimate) []record.Warning {
	if printed == "" || e.Model.Name == nil || lastPart(printed) == lastPart(*e.Model.Name) {
		return nil
	}
	return []record.Warning{{Code: "another_model", Text: fmt.Sprintf(
		"the text is of the model %.80s and the estimate of %.80s: unless these are the same, no difference below means anything", printed, *e.Model.Name)}}
}

// lastPart is what stands behind the last slash, or in a folder of the hub's cache
// behind the owner: of "Qwen/Qwen3-8B", "models/Qwen__Qwen3-8B" and
// "…/models--Qwen--Qwen3-8B" it is the same.
func lastPart(name string) string {
	name = strings.ToLower(strings.TrimRight(name, "/"))
	for _, separator := range [...]string{"/", "__", "--"} {
		if i := strings.LastIndex(name, separator); i >= 0 {
			name = name[i+len(separator):]
		}
	}
	return name
}

func estimated(e *record.Estimate) string {
	name := "a model"
	if e.Model.Name != nil {
		name = *e.Model.Name
	}
	name += " on " + e.Engine.Name
	if e.Engine.Version != nil {
		name += " " + *e.Engine.Version
	}
	return name
}

// planned is what an estimate says of each printed kind, on its first rank.
func planned(e *record.Estimate) map[enginelog.Kind]account.Figure {
	kinds := map[enginelog.Kind]account.Figure{}
	if len(e.Ranks) == 0 {
		return kinds
	}
	rank := e.Ranks[0]
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

// figureOf is the figure of an integer of a record, or of the interval beside it.
func figureOf(exact, low, high *int64) account.Figure {
	p := account.Provenance{}
	switch {
	case exact != nil:
		return account.Exact(*exact, p)
	case low != nil && high != nil:
		return account.Between(*low, *high, p)
	case low != nil:
		return account.AtLeast(*low, "the estimate does not say the most", p)
	}
	return account.Unknown("the estimate does not say", p)
}

// againstRow is one term on both sides.
func againstRow(name string, foreseen, seen account.Figure, rule string) record.AgainstRow {
	r := record.AgainstRow{Term: name, Unit: "bytes"}
	r.PredictedLow, r.PredictedHigh = endsOf(foreseen)
	r.ObservedLow, r.ObservedHigh = endsOf(seen)
	switch {
	case !seen.Known():
		r.Cause = "the text does not print it"
		return r
	case !foreseen.Known():
		r.Cause = "the estimate does not say it"
		return r
	}
	low, high := seen.Low()-highOf(foreseen), highOf(seen)-foreseen.Low()
	r.DifferenceLow, r.DifferenceHigh = &low, &high
	inside := low <= 0 && high >= 0
	nothing := highOf(seen) <= 0 && foreseen.Low() == 0
	inside = inside || nothing
	r.Inside = &inside
	switch {
	case nothing:
		r.Cause = "as estimated: nothing is left, and the engine prints how much is lacking"
	case inside:
		r.Cause = "as estimated: " + rule
	case low > 0:
		r.Cause = "at least " + bytesize.Format(low, bytesize.Suggest(low)) + " more than estimated (" + rule + "); what it is the text does not say"
	default:
		r.Cause = "at least " + bytesize.Format(-high, bytesize.Suggest(-high)) + " less than estimated (" + rule + "); why the text does not say"
	}
	return r
}

func endsOf(f account.Figure) (low, high *int64) {
	if !f.Known() {
		return nil, nil
	}
	a, b := f.Low(), highOf(f)
	return &a, &b
}

// tokensRow is how many tokens the cache holds on both sides.
func tokensRow(e *record.Estimate, l *enginelog.Log) record.AgainstRow {
	r := record.AgainstRow{Term: "kv_cache_tokens", Unit: "tokens", Cause: "the text does not print it"}
	if c := e.Capacity; c != nil {
		f := figureOf(c.Tokens, c.TokensLow, c.TokensHigh)
		r.PredictedLow, r.PredictedHigh = endsOf(f)
	}
	for _, c := range l.Components {
		if c.Kind != enginelog.KindKVCacheTokens {
			continue
		}
		number, _, _ := strings.Cut(c.Printed, " ")
		if n, err := strconv.ParseInt(strings.ReplaceAll(number, ",", ""), 10, 64); err == nil {
			r.ObservedLow, r.ObservedHigh = &n, &n
		}
	}
	if r.ObservedLow == nil || r.PredictedLow == nil {
		return r
	}
	low, high := *r.ObservedLow-*r.PredictedHigh, *r.ObservedHigh-*r.PredictedLow
	r.DifferenceLow, r.DifferenceHigh = &low, &high
	inside := low <= 0 && high >= 0
	r.Inside = &inside
	r.Cause = "blocks of the cache, of the rank that has least"
	return r
}

// residualRow is what the printed terms leave of the printed budget: nothing, to
// the printed digits, where every term was printed.
func residualRow(seen map[enginelog.Kind]account.Figure) record.AgainstRow {
	p := account.Provenance{}
	none := int64(0)
	r := record.AgainstRow{Term: "residual", Unit: "bytes", PredictedLow: &none, PredictedHigh: &none}
	var missing []string
	parts := []enginelog.Kind{enginelog.KindWeights, enginelog.KindPeakActivation, enginelog.KindNonTorch, enginelog.KindKVCacheAvailable}
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
	return residual(r, seen[enginelog.KindBudget].Minus(signedSum(figures), p))
}

// signedSum adds figures of which one may be below zero: a cache without room.
func signedSum(figures []account.Figure) account.Figure {
	var low, high int64
	for _, f := range figures {
		low, high = low+f.Low(), high+highOf(f)
	}
	return account.Between(low, high, account.Provenance{})
}

func residual(r record.AgainstRow, left account.Figure) record.AgainstRow {
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
