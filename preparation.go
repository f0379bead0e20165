package floodmark

import (
	"fmt"
	"math/big"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/device"
	"floodmark/fit"
	"floodmark/record"
)

// Preparation is arithmetic for a model of which only a size is known: a
// payload of weights in one uniform format, and a reserve that the caller
// assumes. It proves no fit; its payload alone can prove that a card is too
// small.
type Preparation struct {
	Parameters   int64
	Bits         int   // bits per parameter
	ReserveBytes int64 // assumed
	WeightsBytes int64
	TotalBytes   int64
	Verdict      *fit.Verdict // nil without a card

	kept    []keptState // what training keeps of each parameter
	account account.Account
	card    *device.Card
	budget  fit.Budget
}

// Prepare computes parameters × bits, rounded up to a byte, and adds a reserve.
// Worked number: 7,000,000,000 × 16 bits is 14,000,000,000 bytes; with 4 GiB it
// is 18,294,967,296.
func Prepare(parameters int64, bits int, reserve int64, card *device.Card, platform device.Platform) (*Preparation, error) {
	switch {
	case parameters < 1:
		return nil, fmt.Errorf("a model has at least one parameter, not %d", parameters)
	case bits < 1 || bits > 64:
		return nil, fmt.Errorf("a parameter takes 1 to 64 bits, not %d", bits)
	case reserve < 0:
		return nil, fmt.Errorf("a reserve cannot be negative: %d bytes", reserve)
	}
	total := new(big.Int).Mul(big.NewInt(parameters), big.NewInt(int64(bits)))
	total.Add(total, big.NewInt(7)).Rsh(total, 3)
	if !total.IsInt64() {
		return nil, fmt.Errorf("%d parameters of %d bits: %w", parameters, bits, bytesize.ErrOverflow)
	}
	p := &Preparation{Parameters: parameters, Bits: bits, ReserveBytes: reserve, WeightsBytes: total.Int64(), card: card}
	sum, fits := bytesize.Add(p.WeightsBytes, reserve)
	if !fits {
		return nil, fmt.Errorf("weights and reserve: %w", bytesize.ErrOverflow)
	}
	p.TotalBytes = sum
	p.account = p.build()
	if card != nil {
		p.decide(platform)
	}
	return p, nil
}

// build is the account of a payload: one phase, in which the weights are
// counted, the reserve is assumed, and all else is unknown.
func (p *Preparation) build() account.Account {
	payload := account.Provenance{Origin: account.Calculated, Scope: account.Requested, Counter: "weights.uniform"}
	assumed := account.Provenance{Origin: account.Assumed, Scope: account.Process}
	scales := account.Zero("formats of 16 bits and more need no scales", payload)
	if p.Bits < 16 {
		scales = account.Unknown("a quantised format stores scales beside the payload, and may keep some modules wider", payload)
	}
	rest := account.Unknown("a parameter count says nothing of the work to be done", payload)
	a := account.Account{Ranks: []int{0}, Device: -1}
	phase := account.Phase{ID: account.PhaseModelLoad, Input: -1}
	add := func(id account.TermID, c account.Category, f account.Figure) {
		a.Terms = append(a.Terms, account.Term{ID: id, Category: c, Provenance: f.Provenance})
		phase.AtPeak = append(phase.AtPeak, account.Share{Term: len(a.Terms) - 1, Bytes: f})
	}
	weights := account.Exact(p.WeightsBytes, payload)
	add(account.TermWeights, account.CategoryParameter, weights)
	add(account.TermQuantisationMetadata, account.CategoryQuantisationMetadata, scales)
	add(account.TermActivations, account.CategoryActivation, rest)
	add(account.TermKVCache, account.CategoryKVCache, rest)
	add(account.TermContext, account.CategoryContext, rest.As(account.Provenance{Origin: account.Calculated, Scope: account.Process}))
	parts := []account.Figure{weights, scales, rest}
	for _, k := range p.kept {
		parts = append(parts, account.Exact(k.Bytes, payload))
		add(k.term, k.category(), parts[len(parts)-1])
	}
	if p.ReserveBytes > 0 {
		add(account.TermReserve, account.CategoryOther, account.Exact(p.ReserveBytes, assumed))
	}
	// An assumed reserve is no evidence: it is shown, and no scope holds it.
	needed := account.Sum(payload, parts...)
	phase.Peaks = []account.Peak{
		{Figure: needed, Moment: -1},
		{Figure: needed.As(account.Provenance{Origin: account.Calculated, Scope: account.Process}), Moment: -1},
	}
	a.Phases = []account.Phase{phase}
	return a
}

func (p *Preparation) decide(platform device.Platform) {
	p.budget = budget(*p.card, platform)
	v := fit.Decide(fit.Calculated, p.Accounts(), fit.Budgets{0: p.budget})
	p.Verdict = &v
}

// Accounts is the one account of the payload.
func (p *Preparation) Accounts() []account.Account { return []account.Account{p.account} }

// Record is the preparation as an estimate document.
func (p *Preparation) Record(tool record.Tool) any {
	r := &record.Estimate{
		Head:   record.Head{Envelope: record.NewEnvelope(record.KindEstimate, tool, nil)},
		Model:  record.ModelFacts{Parameters: &p.Parameters, WeightsBytes: &p.WeightsBytes},
		Engine: record.Engine{Name: "none"},
		Preparation: &record.Preparation{
			Parameters: p.Parameters, Bits: p.Bits,
			WeightsBytes: p.WeightsBytes, ReserveBytes: p.ReserveBytes, TotalBytes: p.TotalBytes,
			Excluded: p.excluded(),
		},
	}
	for _, k := range p.kept {
		r.Preparation.States = append(r.Preparation.States, k.StateBytes)
	}
	if p.Bits < 16 {
		r.Preparation.Caveats = append(r.Preparation.Caveats, fmt.Sprintf(
			"%d bits is a theoretical payload: uniform, compact, without the scales and metadata that a real format stores, and with no module kept wider", p.Bits))
	}
	peak, _ := highest(p.account)
	rank := record.Rank{Ranks: []int{0}, Terms: termRecords(p.account, peak, p.formulas()), Peak: peakRecord(p.account, peak)}
	for _, phase := range p.account.Phases {
		rank.Phases = append(rank.Phases, phaseRecord(phase))
	}
	if p.card != nil {
		rank.Device = deviceRecord(p.budget)
		rank.Verdict = verdictRecord(*p.Verdict)
		r.Verdict = verdictRecord(*p.Verdict)
	}
	r.Ranks = []record.Rank{rank}
	return r
}

// formulas are the rules that the figures of a preparation name.
func (p *Preparation) formulas() []account.Formula {
	return []account.Formula{{
		ID: "weights.uniform", Short: "parameters × bits ÷ 8", Rule: "parameters × bits ÷ 8, rounded up to a byte",
		Source: "arithmetic", Worked: "7,000,000,000 × 16 bits is 14,000,000,000 bytes",
	}}
}
