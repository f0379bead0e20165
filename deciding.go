package floodmark

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/device"
	"floodmark/internal/sorting"
	"floodmark/internal/source"
	"floodmark/measurement"
	"floodmark/record"
)

// DecisionRequest is what a decision is made of. Every file is read and named by
// its content; one that is missing is an error.
type DecisionRequest struct {
	Estimate   string           // a record of kind estimate; empty for none
	Options    []DecisionOption // the first is what the others are compared with
	Chosen     string           // the name of an option; empty for none yet
	Reason     string
	Verified   string // the record of a run without instruments
	Cards      []string
	Margin     []record.Variation
	OutOfScope []string
}

// DecisionOption is a candidate and its evidence.
type DecisionOption struct {
	Name    string
	File    string // a record of kind measurement, of a program
	Quality string // how good its results are, and by which rule; empty when nobody judged them
}

// decider gathers a decision.
type decider struct {
	request DecisionRequest
	tool    record.Tool
	d       *record.Decision
	runs    []*record.Measurement // by option

	declared declaredWork
}

// notExercised is the status of a phase that the work declares and no run had.
const notExercised = "not_exercised"

// Decide makes the record of a choice. What cannot be chosen is refused: an
// option that failed, that nobody judged, or whose raw result is missing.
func Decide(r DecisionRequest, tool record.Tool) (*record.Decision, error) {
	if len(r.Options) == 0 {
		return nil, &SettingsError{errors.New("a decision is between options, and none is named")}
	}
	d := &decider{request: r, tool: tool, d: &record.Decision{OutOfScope: r.OutOfScope, Margin: r.Margin}}
	for _, o := range r.Options {
		if err := d.option(o); err != nil {
			return nil, err
		}
	}
	warnings := d.oneResult()
	if err := d.estimate(); err != nil {
		return nil, err
	}
	if r.Chosen != "" {
		chosen, err := d.choose()
		if err != nil {
			return nil, err
		}
		warnings = append(warnings, chosen...)
	}
	if err := d.cards(); err != nil {
		return nil, err
	}
	d.d.Head = record.Head{Envelope: record.NewEnvelope(record.KindDecision, tool, warnings)}
	return d.d, nil
}

// measurement reads a raw result and names it by its content.
func (d *decider) measurement(path string) (*record.Measurement, error) {
	e, err := d.open(path, "measurement")
	if err != nil {
		return nil, err
	}
	m, ok := measured(e, d.tool)
	switch {
	case !ok:
		return nil, source.InField(path, "kind", "is no measurement").WithHint("an option's evidence is what floodmark measure --output wrote; an estimate is named by --estimate, and two of them are set side by side by floodmark compare")
	case m.Subject == string(measurement.Lab):
		return nil, source.InField(path, "subject", "is the lab network, which is no evidence for a workload").WithHint("floodmark measure -- PROGRAM measures your own")
	}
	return m, nil
}

func (d *decider) open(path, kind string) (Evidence, error) {
	src, err := source.Open(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, source.Stream(src)); err != nil {
		return nil, source.OfFile(path, err)
	}
	d.d.Evidence = append(d.d.Evidence, record.EvidenceFile{Name: filepath.Base(path), SHA256: fmt.Sprintf("%x", hash.Sum(nil)), Kind: kind})
	return OpenSource(src)
}

func (d *decider) option(o DecisionOption) error {
	m, err := d.measurement(o.File)
	if err != nil {
		return err
	}
	d.runs = append(d.runs, m)
	option := record.DecisionOption{Name: o.Name, Quality: record.Text(strings.TrimSpace(o.Quality)), DurationNS: runDuration(m), ResultCheck: resultCheck(m), Status: string(measurement.Completed), Comparable: true}
	option.PeakBytes, option.Scope = optionPeak(m)
	if failed(m) != "" {
		option.Status = string(measurement.Failed)
	}
	for _, lack := range []struct {
		missing bool
		what    string
	}{{option.Quality == nil, "quality"}, {option.DurationNS == nil, "duration"}, {option.ResultCheck == nil, "result check"}, {option.PeakBytes == nil, "peak"}} {
		if lack.missing {
			option.Missing = append(option.Missing, lack.what)
		}
	}
	option.Complete = len(option.Missing) == 0
	if first := d.runs[0]; first != m {
		option.Changed = changedConditions(first, m)
		option.Comparable = len(obstacles(first, m, option.Changed)) == 0
	}
	d.d.Options = append(d.d.Options, option)
	return nil
}

// oneResult warns of options whose raw results are the same bytes: one run tells no
// two candidates apart. The evidence is that of the options, in their order.
func (d *decider) oneResult() []account.Warning {
	var warnings []account.Warning
	for i, e := range d.d.Evidence {
		first := slices.IndexFunc(d.d.Evidence, func(f record.EvidenceFile) bool { return f.SHA256 == e.SHA256 })
		if first < i {
			warnings = append(warnings, account.Warning{Code: "one_result", Text: fmt.Sprintf(
				"%.80q and %.80q name one raw result: nothing that was measured tells them apart", d.d.Options[first].Name, d.d.Options[i].Name)})
		}
	}
	return warnings
}

// failed is why a run is none that succeeded; empty for one that did.
func failed(m *record.Measurement) string {
	if text, broke := failedPhase(m); broke {
		return text
	}
	switch {
	case m.Outcome == nil:
		return "nobody saw it end"
	case m.Outcome.Status != 0:
		return fmt.Sprintf("it ended with status %d", m.Outcome.Status)
	case !m.Complete && len(m.Phases) > 0:
		return "its record is not complete"
	}
	return ""
}

func runDuration(m *record.Measurement) *int64 {
	if m.Outcome == nil {
		return nil
	}
	return &m.Outcome.DurationNS
}

// resultCheck is the last loss or output that the run showed.
func resultCheck(m *record.Measurement) *string {
	for _, p := range slices.Backward(m.Phases) {
		switch {
		case p.Result == nil:
		case p.Result.Loss != nil:
			return record.Text("loss " + *p.Result.Loss)
		case p.Result.SHA256 != nil:
			return record.Text("output " + *p.Result.SHA256)
		}
	}
	return nil
}

func optionPeak(m *record.Measurement) (*int64, *string) {
	bytes, scope := highestPeak(m)
	return bytes, record.Text(scope)
}

// estimate takes the calculated weights, and the phases that the work declares.
func (d *decider) estimate() error {
	if d.request.Estimate == "" {
		return nil
	}
	e, err := d.open(d.request.Estimate, "estimate")
	if err != nil {
		return err
	}
	r, ok := e.Record(d.tool).(*record.Estimate)
	if !ok {
		return source.InField(d.request.Estimate, "kind", "is no estimate").WithHint("floodmark estimate … --output FILE writes one")
	}
	d.d.WeightsBytes, d.declared = r.Model.WeightsBytes, declaredBy(r)
	for _, rank := range r.Ranks {
		for _, p := range rank.Phases {
			if !slices.ContainsFunc(d.d.Phases, func(q record.DecidedPhase) bool { return q.Name == p.Name && q.Step == p.Step }) {
				d.d.Phases = append(d.d.Phases, record.DecidedPhase{Name: p.Name, Step: p.Step, Status: notExercised})
			}
		}
	}
	return nil
}

// choose fills in what the chosen option's run shows.
func (d *decider) choose() ([]account.Warning, error) {
	i := slices.IndexFunc(d.d.Options, func(o record.DecisionOption) bool { return o.Name == d.request.Chosen })
	if i < 0 {
		return nil, &SettingsError{fmt.Errorf("the option %q is not among those of the decision", d.request.Chosen)}
	}
	option, m := d.d.Options[i], d.runs[i]
	switch {
	case strings.TrimSpace(d.request.Reason) == "":
		return nil, &SettingsError{fmt.Errorf("%q is chosen without a reason", option.Name)}
	case failed(m) != "":
		return nil, &SettingsError{fmt.Errorf("%q cannot be chosen: %s", option.Name, failed(m))}
	case option.Quality == nil:
		return nil, &SettingsError{fmt.Errorf("%q cannot be chosen: nobody judged its quality, and memory alone chooses nothing", option.Name)}
	}
	d.d.Chosen = &record.Chosen{Option: option.Name, Reason: d.request.Reason, Basis: "measured"}
	d.d.Environment = &m.Environment
	d.exercised(m)
	d.d.Counters = fourCounters(m)
	d.d.MaximumLoad = maximumLoad(m)
	return d.verify(m)
}

// verify takes the run without instruments, which alone verifies.
func (d *decider) verify(m *record.Measurement) ([]account.Warning, error) {
	if d.request.Verified == "" {
		return []account.Warning{{Code: "not_verified", Text: "located, not verified: phases were delimited; a run of the whole loop with its real scheduling (measure --no-phases) verifies"}}, nil
	}
	v, err := d.measurement(d.request.Verified)
	if err != nil {
		return nil, err
	}
	switch changed := changedConditions(m, v); {
	case v.Series.Policy.Instrumented:
		return nil, &SettingsError{fmt.Errorf("%s delimits phases, so that it verifies nothing", d.request.Verified)}
	case failed(v) != "":
		return nil, &SettingsError{fmt.Errorf("%s verifies nothing: %s", d.request.Verified, failed(v))}
	case len(changed) > 0:
		return nil, &SettingsError{fmt.Errorf("%s ran under other conditions: %s is %s, and was %s", d.request.Verified, changed[0].Field, changed[0].B, changed[0].A)}
	}
	d.d.Chosen.Basis = "verified"
	return nil, nil
}

// exercised notes how each phase of the run ended.
func (d *decider) exercised(m *record.Measurement) {
	for _, p := range m.Phases {
		i := slices.IndexFunc(d.d.Phases, func(q record.DecidedPhase) bool { return q.Name == p.Name && (q.Step == p.Step || q.Step == 0) })
		if i < 0 {
			d.d.Phases = append(d.d.Phases, record.DecidedPhase{Name: p.Name, Step: p.Step, Status: p.Status})
		} else if d.d.Phases[i].Status != string(measurement.Failed) {
			d.d.Phases[i].Status = p.Status
		}
	}
}

// fourCounters are the two peaks and the two levels at the end, of the phase with
// the highest reserved peak.
func fourCounters(m *record.Measurement) []record.Counter {
	highest := -1
	for i, p := range m.Phases {
		if p.Peak.ReservedBytes != nil && (highest < 0 || *p.Peak.ReservedBytes > *m.Phases[highest].Peak.ReservedBytes) {
			highest = i
		}
	}
	if highest < 0 {
		return nil
	}
	p := m.Phases[highest]
	counter := func(name string, scope account.Scope, n *int64) record.Counter {
		return record.Counter{Name: name, Scope: string(scope), Unit: "bytes", Value: n, Phase: phaseWords(p), Origin: string(account.Observed)}
	}
	return []record.Counter{
		counter("max_memory_allocated", account.Allocated, p.Peak.AllocatedBytes), counter("max_memory_reserved", account.Reserved, p.Peak.ReservedBytes),
		counter("memory_allocated", account.Allocated, p.End.AllocatedBytes), counter("memory_reserved", account.Reserved, p.End.ReservedBytes),
	}
}

// maximumLoad is the largest of each dimension that the run really had.
func maximumLoad(m *record.Measurement) []record.MeasuredLoad {
	most := map[string]int64{}
	for _, p := range m.Phases {
		if p.Inputs == nil {
			continue
		}
		for dimension, n := range p.Inputs.Observed {
			most[dimension] = max(most[dimension], n)
		}
	}
	var load []record.MeasuredLoad
	for dimension, n := range most {
		load = append(load, record.MeasuredLoad{Dimension: dimension, Value: n})
	}
	sorting.By(load, func(i, j int) int { return cmp.Compare(load[i].Dimension, load[j].Dimension) })
	return load
}

// cards sets the requirement beside what each card reports, one by one: they are
// never one pool, and free memory on one does not help another.
func (d *decider) cards() error {
	for _, name := range d.request.Cards {
		card, err := device.Find(name)
		if err != nil {
			return err
		}
		d.d.Cards = append(d.d.Cards, d.card(card))
	}
	return nil
}

func (d *decider) card(c device.Card) record.DecidedCard {
	reported := c.Reported(device.UnknownPlatform)
	r := record.DecidedCard{ID: c.ID, Name: c.Name, Verdict: "cannot_tell"}
	low := reported.Low()
	r.ReportedLowBytes = &low
	if high, known := reported.High(); known {
		r.ReportedHighBytes = &high
	}
	margin, known := d.margin()
	if known {
		r.MarginBytes = &margin
	}
	if d.d.Chosen == nil || len(d.d.Counters) == 0 {
		r.Reason = "no option is chosen whose peak was read"
		return r
	}
	allocated, reserved := d.d.Counters[0].Value, d.d.Counters[1].Value
	outside := d.outside()
	switch {
	case allocated != nil && r.ReportedHighBytes != nil && *allocated > *r.ReportedHighBytes:
		r.Verdict, r.Reason = "does_not_fit", "its tensors alone are more than the card reports"
	case reserved == nil || outside == nil:
		r.Reason = "what the process held outside the allocator was not read at a common checkpoint"
	case !known:
		r.Reason = "a variation of the margin has no bytes"
	default:
		decideCard(&r, *reserved+*outside+margin, d.sameCard(c))
	}
	if lacks := d.untested(d.chosenRun()); r.Verdict == "fits" && lacks != "" {
		r.Verdict, r.Reason = "cannot_tell", "there is room for what was run, which is not all that the work declares: "+lacks
	}
	return r
}

// decideCard compares what was held, with the margin, with what the card reports.
// A peak of reserved adapts to the room that there is, so that on another card
// more does not prove that it cannot fit.
func decideCard(r *record.DecidedCard, need int64, same bool) {
	room := *r.ReportedLowBytes - need
	r.RoomLowBytes = &room
	if r.ReportedHighBytes != nil {
		high := *r.ReportedHighBytes - need
		r.RoomHighBytes = &high
	}
	switch {
	case room < 0:
		r.Reason = "what it held at its peak, with the margin, is more than the card reports; with less room the allocator keeps less"
	case !same:
		r.Reason = "there is room, and the run was on another card, with other kernels and another context: run it there"
	default:
		r.Verdict, r.Reason = "fits", "what it held at its peak, with the margin, is within what the card reports"
	}
}

// margin is the sum of the named variations; false where one has no bytes.
func (d *decider) margin() (int64, bool) {
	sum := int64(0)
	for _, v := range d.request.Margin {
		if v.Bytes == nil {
			return 0, false
		}
		var ok bool
		if sum, ok = bytesize.Add(sum, *v.Bytes); !ok {
			return 0, false
		}
	}
	return sum, true
}

// outside is the most that lay outside the allocator at a checkpoint of the
// chosen run: contexts, libraries and other programs.
func (d *decider) outside() *int64 {
	var most *int64
	for _, p := range d.chosenRun().Phases {
		if n := p.End.OutsideBytes; n != nil && (most == nil || *n > *most) {
			most = n
		}
	}
	return most
}

// chosenRun is the run of the option that was chosen.
func (d *decider) chosenRun() *record.Measurement {
	return d.runs[slices.IndexFunc(d.d.Options, func(o record.DecisionOption) bool { return o.Name == d.request.Chosen })]
}

// sameCard reports whether the run was on a card of that name. Another one has
// other kernels and another context.
func (d *decider) sameCard(c device.Card) bool {
	return slices.ContainsFunc(d.d.Environment.Devices, func(m record.MeasuredDevice) bool {
		return m.Name != nil && sameCardName(*m.Name, c.Name)
	})
}

func sameCardName(a, b string) bool {
	return strings.EqualFold(strings.TrimPrefix(a, "NVIDIA "), strings.TrimPrefix(b, "NVIDIA "))
}
