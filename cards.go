package floodmark

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/device"
	"floodmark/dtype"
	"floodmark/estimate/outside"
	"floodmark/fit"
	"floodmark/internal/sorting"
	"floodmark/record"
	"floodmark/workload"
)

// budgets is what each rank may use: what is free on its device where that was
// declared, else the whole of the card.
func (r Request) budgets(accounts []account.Account) fit.Budgets {
	budgets := fit.Budgets{}
	if r.Card != nil {
		budgets[fit.EveryRank] = budget(*r.Card, r.Platform)
	}
	if len(r.Free) == 0 {
		return budgets
	}
	for _, a := range accounts {
		for _, rank := range a.Ranks {
			if free, ok := r.freeOn(rank); ok {
				budgets[rank] = freeBudget(r.Card, rank, free)
			}
		}
	}
	return budgets
}

// devices refuses what is said to be free on a device that no rank is on, and
// more than its card has.
func (r Request) devices() error {
	for index, free := range r.Free {
		if r.Card != nil && !r.Here && !r.Card.Unified() {
			if most, known := budget(*r.Card, r.Platform).Capacity.High(); known && free.Low() > most {
				return &SettingsError{fmt.Errorf("%s are said to be free of %s, which has at most %s", bytesize.Format(free.Low(), bytesize.GiB), r.Card.Label(), bytesize.Format(most, bytesize.GiB))}
			}
		}
		if ranks := r.Workload.Mesh.Ranks(); !r.Here && index != AnyDevice && index >= ranks {
			return &SettingsError{fmt.Errorf("nothing runs on cuda:%d, of which it is said what is free: the %d ranks of the workload take the devices from 0 on", index, ranks)}
		}
	}
	return nil
}

func (r Request) freeOn(device int) (account.Figure, bool) {
	if f, ok := r.Free[device]; ok {
		return f, true
	}
	f, ok := r.Free[AnyDevice]
	return f, ok
}

// declaredFree is the counter of what is free, whoever said so.
const declaredFree = "declared free"

// freeBudget is the bytes that are free on a device. What others hold is not in
// them, and so is not taken off again.
func freeBudget(c *device.Card, index int, free account.Figure) fit.Budget {
	name := fmt.Sprintf("device %d", index)
	if c != nil {
		name = c.Label()
	}
	p := account.Provenance{Origin: account.Assumed, Scope: account.Device, Counter: declaredFree}
	if free.Origin == account.Observed {
		p.Origin = account.Observed
	}
	return fit.Budget{Card: name + " with what is free of it", Capacity: free.As(p),
		Others: account.Zero("what others hold is not in the bytes that are free", p)}
}

// judge is the verdict over accounts: the rules of the software, then the bytes.
// Loading alone proves no fit.
func (p *Prediction) judge(card *device.Card, accounts []account.Account, budgets fit.Budgets) fit.Verdict {
	v := fit.Decide(fit.Calculated, accounts, budgets)
	if v.Value == fit.Fits && p.Request.Workload.Operation == workload.Load {
		v.Value = fit.CannotTell
		why := "the workload does not say what the model is to do (context, generated, sequences)"
		if p.declaresLengths() {
			why = "the workload declares the operation load, which runs none of its inputs"
		}
		v.Reasons = []string{"loading fits, and proves no more than that: " + why}
	}
	if open := p.Request.Workload.Open; v.Value == fit.Fits && len(open) > 0 {
		v.Value = fit.CannotTell
		v.Reasons = append(slices.Clone(open), v.Reasons...)
	}
	v = p.lowered(v)
	if assumed := p.Request.Workload.Assumed; len(assumed) > 0 && (v.Value == fit.Fits || v.Value == fit.DoesNotFit) {
		v.Value = fit.CannotTell
		v.Reasons = append(slices.Clone(assumed), v.Reasons...)
	}
	if card == nil {
		return v
	}
	for _, format := range p.computes() {
		if rule, refused, _ := card.Lacks(format, p.Engine.Name()); refused {
			v.Value = fit.NotRunnable
			v.Reasons = append([]string{rule.Rule(*card)}, v.Reasons...)
		}
	}
	return v
}

// lowered is a verdict that the workload does not fit, where a setting that is not
// modelled may leave less than is counted: then what is counted is no lower bound, but
// for what stays where only what passes may be less.
func (p *Prediction) lowered(v fit.Verdict) fit.Verdict {
	w := &p.Request.Workload
	why := slices.Clone(w.Lowering)
	if !fit.Stays(v.Term) {
		why = append(why, w.LoweringPasses...)
	}
	if v.Value != fit.DoesNotFit || len(why) == 0 {
		return v
	}
	v.Value, v.Short = fit.CannotTell, 0
	v.Headroom = account.Unknown(why[0], account.Provenance{Origin: account.Calculated, Scope: account.Device})
	v.Reasons = append(why, "without that, which may leave less: "+v.Reasons[0])
	return v
}

// imitated says what a card does in software because it lacks it; empty where
// it lacks nothing that goes without.
func (p *Prediction) imitated(card device.Card) string {
	for _, format := range p.computes() {
		if rule, refused, lacks := card.Lacks(format, p.Engine.Name()); lacks && !refused {
			return rule.Without
		}
	}
	return ""
}

// computes lists the formats that the workload computes in, as far as they are
// known.
func (p *Prediction) computes() []dtype.Format {
	w := p.Request.Workload
	var formats []dtype.Format
	if w.Precision.Compute != dtype.Unknown {
		formats = append(formats, w.Precision.Compute)
	} else if p.Request.Model != nil && p.Request.Model.Compute != dtype.Unknown {
		formats = append(formats, p.Request.Model.Compute)
	}
	if slices.Contains(w.Features, workload.FP8Compute) && !slices.Contains(formats, dtype.F8E4M3) {
		formats = append(formats, dtype.F8E4M3)
	}
	return formats
}

// OnEveryCard decides a prediction on every card of the catalogue, each under
// every rank: first those that it fits on, the smallest in front. The answer for
// a card is that of [Estimate] with it. Accounts are made once for each
// architecture, because that is all of a card that they depend on; an engine
// that fills its budget makes them for each card, and so does training, whose
// caches give way to the card.
func OnEveryCard(ctx context.Context, p *Prediction) ([]record.CardVerdict, error) {
	cards, err := device.Catalogue()
	if err != nil {
		return nil, err
	}
	kinds := make([]string, len(cards))
	for i, c := range cards {
		kinds[i] = p.kind(c)
	}
	made, err := p.onCards(ctx, cards, kinds)
	if err != nil {
		return nil, err
	}
	rows := make([]cardRow, 0, len(cards))
	for i, c := range cards {
		r := p.on(c)
		accounts := made[kinds[i]]
		v := p.judge(&c, accounts, r.budgets(accounts))
		if p.hostBinds(v) {
			v = *p.Host
		}
		rows = append(rows, cardRow{card: c, capacity: memory(r, nil).Total, verdict: v, note: p.imitated(c)})
	}
	sorting.By(rows, func(i, j int) int { return rows[i].compare(rows[j]) })
	list := make([]record.CardVerdict, len(rows))
	for i, row := range rows {
		list[i] = row.record()
	}
	return list, nil
}

// on is the request with a card under every rank.
func (p *Prediction) on(c device.Card) Request {
	r := p.Request
	r.Card, r.Free = &c, nil
	return r
}

// kind is equal for cards on which the accounts are equal.
func (p *Prediction) kind(c device.Card) string {
	if _, is := p.on(c).unpacks(); is {
		return architecture(c) + " unpacked"
	}
	if p.Capacity != nil || trains(p.Request.Workload.Operation) {
		return c.ID
	}
	return architecture(c)
}

// architecture is all of a card that accounts depend on.
func architecture(c device.Card) string {
	return c.Arch + " " + string(outside.LinkOf(c.Arch, c.Name))
}

// onCards makes the accounts for each kind of card, side by side.
func (p *Prediction) onCards(ctx context.Context, cards []device.Card, kinds []string) (map[string][]account.Account, error) {
	var first []int // the first card of each kind
	for i, kind := range kinds {
		if slices.Index(kinds, kind) == i {
			first = append(first, i)
		}
	}
	made := make([][]account.Account, len(first))
	failed := make([]error, len(first))
	var workers sync.WaitGroup
	next := atomic.Int64{}
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(first)); i = next.Add(1) - 1 {
				made[i], failed[i] = p.accountsOn(ctx, cards[first[i]])
			}
		})
	}
	workers.Wait()
	byKind := map[string][]account.Account{}
	for i, card := range first {
		byKind[kinds[card]] = firstRanks(made[i])
	}
	return byKind, errors.Join(failed...)
}

// accountsOn makes the accounts on one card: of another model where the card makes
// the software unpack what the checkpoint packs.
func (p *Prediction) accountsOn(ctx context.Context, c device.Card) ([]account.Account, error) {
	r := p.on(c)
	if _, is := r.unpacks(); is {
		q, err := Estimate(ctx, r)
		if err != nil {
			return nil, err
		}
		return q.accounts, nil
	}
	one, err := p.predict(ctx, r)
	return one.accounts, err
}

// firstRanks keeps one rank of each class: with the same card under all of them
// equal ranks have one answer, and a verdict names the first.
func firstRanks(accounts []account.Account) []account.Account {
	list := slices.Clone(accounts)
	for i := range list {
		list[i].Ranks = list[i].Ranks[:1]
	}
	return list
}

// cardRow is a card and the answer for it.
type cardRow struct {
	card     device.Card
	capacity account.Figure
	verdict  fit.Verdict
	note     string
}

// compare puts what fits first, then what nobody can tell, then what does not
// fit; of each the smaller card first.
func (a cardRow) compare(b cardRow) int {
	return cmp.Or(cmp.Compare(gravity(a.verdict.Value), gravity(b.verdict.Value)),
		cmp.Compare(a.capacity.Low(), b.capacity.Low()), cmp.Compare(a.card.ID, b.card.ID))
}

func (a cardRow) record() record.CardVerdict {
	r := record.CardVerdict{ID: a.card.ID, Name: record.Text(a.card.Name), ComputeCapability: record.Text(a.card.ComputeCapability),
		Verdict: *verdictRecord(a.verdict), Note: record.Text(a.note)}
	r.ReportedBytes, r.ReportedLowBytes, r.ReportedHighBytes = record.Interval(a.capacity)
	if a.verdict.Value == fit.DoesNotFit {
		r.ShortBytes = &a.verdict.Short
	}
	return r
}

// deviceRecord is the device under a rank: what its card reports, and what may
// be used of it.
func (p *Prediction) deviceRecord(b fit.Budget) *record.Device {
	d := deviceRecord(b)
	if p.Request.Free == nil || b.Capacity.Counter != declaredFree {
		return d
	}
	d.ReportedBytes, d.ReportedLowBytes, d.ReportedHighBytes = nil, nil, nil
	if p.Request.Card != nil {
		whole := deviceRecord(budget(*p.Request.Card, p.Request.Platform))
		d.Name, d.Origin = whole.Name, whole.Origin
		d.ReportedBytes, d.ReportedLowBytes, d.ReportedHighBytes = whole.ReportedBytes, whole.ReportedLowBytes, whole.ReportedHighBytes
	}
	return d
}
