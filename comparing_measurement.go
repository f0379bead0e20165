package floodmark

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/measurement"
	"floodmark/record"
)

// CompareOptions say how much a comparison lets pass.
type CompareOptions struct {
	// Force compares runs that are not comparable, and says so.
	Force bool
}

// NotComparableError is two pieces of evidence that differ in more than the one
// thing whose effect is asked for.
type NotComparableError struct{ Reasons []string }

// Error names every reason.
func (e *NotComparableError) Error() string {
	return "the two are not comparable: " + strings.Join(e.Reasons, "; ")
}

// Unwrap is [ErrNotComparable].
func (e *NotComparableError) Unwrap() error { return ErrNotComparable }

// measured is the document of evidence that is a measurement, new or read back.
func measured(e Evidence, tool record.Tool) (*record.Measurement, bool) {
	switch e.(type) {
	case measurementEvidence, recordedMeasurement, *Measured:
		m, ok := e.Record(tool).(*record.Measurement)
		return m, ok
	}
	return nil, false
}

// compareMeasurements sets two runs side by side, phase by phase and scope by
// scope. One variable may differ; policies, contents and what was cut off may not.
func compareMeasurements(a, b *record.Measurement, names [2]string, o CompareOptions, tool record.Tool) (*record.Comparison, error) {
	changed := changedConditions(a, b)
	reasons := obstacles(a, b, changed)
	if len(reasons) > 0 && !o.Force {
		return nil, &NotComparableError{reasons}
	}
	r := &record.Comparison{A: names[0], B: names[1], Changed: changed, Comparable: len(reasons) == 0}
	warnings := append(notComparable(reasons), otherBackend(a, b)...)
	if len(changed) == 0 {
		warnings = append(warnings, account.Warning{Code: "nothing_changed", Text: "nothing that was recorded differs between the two: what follows is how far two runs of one thing lie apart"})
	}
	others := map[string]record.MeasuredPhase{}
	for _, p := range b.Phases {
		others[phaseKey(p)] = p
	}
	for _, p := range a.Phases {
		q, both := others[phaseKey(p)]
		if !both {
			warnings = append(warnings, account.Warning{Code: "phase_alone", Text: "only a has " + phaseWords(p)})
			continue
		}
		delete(others, phaseKey(p))
		r.Rows = append(r.Rows, phaseRows(p, q)...)
		r.Results = append(r.Results, comparedResult(p, q))
	}
	for _, key := range slices.Sorted(maps.Keys(others)) {
		warnings = append(warnings, account.Warning{Code: "phase_alone", Text: "only b has " + phaseWords(others[key])})
	}
	r.Totals = highestRows(r.Rows)
	if len(changed) == 1 {
		r.Reach = reachOfRun(changed[0].Field, a)
	}
	r.Head = record.Head{Envelope: record.NewEnvelope(record.KindComparison, tool, warnings)}
	return r, nil
}

// otherBackend is the notice where two runs were on two kinds of hardware: torch.cuda
// is the name of both, and one function need not be the same kernel.
func otherBackend(a, b *record.Measurement) []account.Warning {
	kind := func(m *record.Measurement) string {
		if m.Environment.Backend == nil {
			return ""
		}
		name, _, _ := strings.Cut(*m.Environment.Backend, " ")
		return name
	}
	x, y := kind(a), kind(b)
	if x == y || x == "" || y == "" {
		return nil
	}
	return []account.Warning{{Code: "another_backend", Text: fmt.Sprintf(
		"a ran on %s and b on %s: torch.cuda is the name of both, and the same Python function proves no equal kernels, precisions or results", x, y)}}
}

// conditions is everything that a run's figures depend on, by name.
func conditions(m *record.Measurement) map[string]string {
	c := commandConditions(m.Tool.Command)
	if m.Subject == string(measurement.Lab) {
		c = labConditions(c)
	}
	text := func(s *string) string {
		if s == nil {
			return "not recorded"
		}
		return *s
	}
	e := m.Environment
	c["driver"], c["python"], c["pytorch"], c["backend"] = text(e.Driver), text(e.Python), text(e.PyTorch), text(e.Backend)
	c["allocator_backend"], c["allocator_settings"] = text(e.Allocator.Backend), text(e.Allocator.Settings)
	for _, d := range e.Devices {
		c[fmt.Sprintf("cuda:%d", d.Index)] = text(d.Name)
	}
	for _, v := range e.Extensions {
		c[v.Name] = v.Version
	}
	for _, p := range m.Phases {
		if p.Inputs == nil {
			continue
		}
		for dimension, n := range p.Inputs.Configured {
			c[dimension] = fmt.Sprint(n)
		}
	}
	return c
}

// labConditions is what the lab's phases do not say of themselves. A flag that
// was not given is its default.
func labConditions(flags map[string]string) map[string]string {
	c := map[string]string{"dtype": "float32", "train": "no"}
	if dtype, given := flags["dtype"]; given {
		c["dtype"] = dtype
	}
	if _, given := flags["train"]; given {
		c["train"] = "yes"
	}
	return c
}

// commandConditions is a command by its flags, so that a flag with another value
// is one variable. Where the results go, and how much is printed, is none.
func commandConditions(command []string) map[string]string {
	c := map[string]string{}
	arguments := 0
	for i := 0; i < len(command); i++ {
		name, value, joined := strings.Cut(command[i], "=")
		if !strings.HasPrefix(name, "-") || name == "--" {
			c[fmt.Sprintf("argument %d", arguments)] = command[i]
			arguments++
			continue
		}
		if !joined && i+1 < len(command) && !strings.HasPrefix(command[i+1], "-") {
			i++
			value = command[i]
		}
		switch name = strings.ReplaceAll(strings.TrimLeft(name, "-"), "-", "_"); name {
		case "output", "o", "json", "quiet", "unit":
		default:
			c[name] = value
		}
	}
	return c
}

// changedConditions lists what differs, by name.
func changedConditions(a, b *record.Measurement) []record.ChangedField {
	return differing(conditions(a), conditions(b))
}

// differing lists the names under which two lists of conditions say different
// things, in order.
func differing(x, y map[string]string) []record.ChangedField {
	names := maps.Clone(x)
	maps.Copy(names, y)
	changed := []record.ChangedField{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if x[name] != y[name] {
			changed = append(changed, record.ChangedField{Field: name, A: orNone(x[name]), B: orNone(y[name])})
		}
	}
	return changed
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// obstacles is why the difference of two runs would not be that of one variable.
func obstacles(a, b *record.Measurement, changed []record.ChangedField) []string {
	reasons := tooMany(changed)
	if a.Subject != b.Subject {
		reasons = append(reasons, "one is the lab network, and the other is not")
	}
	if p, q := policyText(a.Series), policyText(b.Series); p != q {
		reasons = append(reasons, fmt.Sprintf("they were measured under two policies (%s; %s)", p, q))
	}
	if p, q := truncated(a), truncated(b); p != q {
		reasons = append(reasons, fmt.Sprintf("preparing the inputs cut off %d tokens in a and %d in b: that is another task, even where the peak is lower", p, q))
	}
	if len(changed) == 0 {
		if phase := otherContent(a, b); phase != "" {
			reasons = append(reasons, "the inputs of "+phase+" have other contents: the hashes differ")
		}
	}
	return reasons
}

// tooMany is the reason where more than one thing differs.
func tooMany(changed []record.ChangedField) []string {
	if len(changed) < 2 {
		return nil
	}
	names := make([]string, len(changed))
	for i, c := range changed {
		names[i] = strings.ReplaceAll(c.Field, "_", " ")
	}
	return []string{fmt.Sprintf("%d things differ (%s), and one at a time can be told apart", len(changed), strings.Join(names, ", "))}
}

func policyText(s record.MeasuredSeries) string {
	number := func(n *int) string {
		if n == nil {
			return "—"
		}
		return fmt.Sprint(*n)
	}
	cleared := "—"
	if c := s.Policy.EmptyCacheBetweenRepeats; c != nil {
		cleared = fmt.Sprint(*c)
	}
	return fmt.Sprintf("instrumented %v, warm-ups %s, repetitions %s, empty_cache %s, %s", s.Policy.Instrumented, number(s.Policy.Warmup), number(s.Policy.Repeats), cleared, s.Process)
}

func truncated(m *record.Measurement) (tokens int64) {
	for _, p := range m.Phases {
		if p.TruncatedTokens != nil {
			tokens += *p.TruncatedTokens
		}
	}
	return tokens
}

// otherContent is the first phase whose inputs were hashed on both sides and
// differ.
func otherContent(a, b *record.Measurement) string {
	hashes := map[string]string{}
	for _, p := range a.Phases {
		if p.Inputs != nil && p.Inputs.SHA256 != nil {
			hashes[phaseKey(p)] = *p.Inputs.SHA256
		}
	}
	for _, p := range b.Phases {
		if p.Inputs == nil || p.Inputs.SHA256 == nil {
			continue
		}
		if hash, known := hashes[phaseKey(p)]; known && hash != *p.Inputs.SHA256 {
			return phaseWords(p)
		}
	}
	return ""
}

// phaseKey tells a phase from every other of its run.
func phaseKey(p record.MeasuredPhase) string {
	return fmt.Sprintf("%s %s %d %s %s %s", p.Name, orNil(p.Label), p.Step, orNil(p.Pass), orNil(p.Rank), orNil(p.Device))
}

func orNil[T any](p *T) string {
	if p == nil {
		return "—"
	}
	return fmt.Sprint(*p)
}

func phaseWords(p record.MeasuredPhase) string {
	text := strings.ReplaceAll(p.Name, "_", " ")
	if p.Step > 0 {
		text += fmt.Sprintf(" %d", p.Step)
	}
	if p.Rank != nil {
		text += fmt.Sprintf(" of rank %d", *p.Rank)
	}
	return text
}

// phaseRows compares like with like: the peaks of allocated with those of
// allocated, and never across scopes.
func phaseRows(a, b record.MeasuredPhase) []record.ComparisonRow {
	var rows []record.ComparisonRow
	for _, scope := range []struct {
		scope account.Scope
		a, b  *int64
	}{
		{account.Allocated, a.Peak.AllocatedBytes, b.Peak.AllocatedBytes},
		{account.Reserved, a.Peak.ReservedBytes, b.Peak.ReservedBytes},
		{account.Device, a.End.DeviceBytes, b.End.DeviceBytes},
	} {
		if scope.a == nil && scope.b == nil {
			continue
		}
		name := a.Name
		if a.Step > 0 {
			name = fmt.Sprintf("%s %d", a.Name, a.Step)
		}
		row := record.ComparisonRow{Term: "peak", Scope: string(scope.scope), Phase: &name, Rank: a.Rank, Device: a.Device, ABytes: scope.a, BBytes: scope.b}
		if scope.scope == account.Device {
			row.Term = "at the end"
		}
		if scope.a != nil && scope.b != nil {
			difference := *scope.b - *scope.a
			row.DifferenceBytes = &difference
		}
		rows = append(rows, row)
	}
	return rows
}

// highestRows is the row of each scope whose greater side is the greatest of all
// phases: the peak of the run.
func highestRows(rows []record.ComparisonRow) []record.ComparisonRow {
	var totals []record.ComparisonRow
	greater := func(r record.ComparisonRow) int64 {
		n := int64(-1)
		for _, side := range []*int64{r.ABytes, r.BBytes} {
			if side != nil {
				n = max(n, *side)
			}
		}
		return n
	}
	for _, row := range rows {
		i := slices.IndexFunc(totals, func(t record.ComparisonRow) bool { return t.Scope == row.Scope && t.Term == row.Term })
		switch {
		case i < 0:
			totals = append(totals, row)
		case greater(row) > greater(totals[i]):
			totals[i] = row
		}
	}
	return totals
}

// comparedResult is what else a phase says of the two: how long it took, and
// whether it computed the same.
func comparedResult(a, b record.MeasuredPhase) record.ComparedResult {
	r := record.ComparedResult{Phase: phaseWords(a), ADurationNS: a.DurationNS, BDurationNS: b.DurationNS}
	if a.Result != nil {
		r.ALoss, r.ASHA256 = a.Result.Loss, a.Result.SHA256
	}
	if b.Result != nil {
		r.BLoss, r.BSHA256 = b.Result.Loss, b.Result.SHA256
	}
	return r
}
