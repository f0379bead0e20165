package floodmark

import (
	"floodmark/account"
	"floodmark/enginelog"
	"floodmark/record"
)

// logEvidence is a text that a program printed.
type logEvidence struct{ log *enginelog.Log }

// Accounts is one account a failure.
func (e logEvidence) Accounts() []account.Account { return e.log.Accounts() }

// Record is the log as a document.
func (e logEvidence) Record(tool record.Tool) any {
	l := e.log
	r := &record.Log{
		Head:   record.Head{Envelope: record.NewEnvelope(record.KindLog, tool, l.Warnings), Trial: record.Trial{Model: record.Text(l.Model)}},
		Source: l.Name, Lines: l.Lines, NotUnderstood: l.NotUnderstood,
	}
	for _, c := range l.Components {
		component := record.Component{Component: c.Component, Rank: known(c.Rank), Device: known(c.Device), Kind: string(c.Kind), Printed: c.Printed, Line: c.Line}
		component.Bytes, component.LowBytes, component.HighBytes = record.Interval(c.Bytes)
		r.Components = append(r.Components, component)
	}
	for _, s := range l.Settings {
		r.Settings = append(r.Settings, record.Setting{Name: s.Name, Value: s.Value, Line: s.Line})
	}
	for i := range l.OutOfMemory {
		r.OutOfMemory = append(r.OutOfMemory, outOfMemoryRecord(&l.OutOfMemory[i]))
	}
	if len(r.OutOfMemory) > 0 {
		first := r.OutOfMemory[0]
		r.RequestBytes, r.RequestLowBytes, r.RequestHighBytes = first.RequestBytes, first.RequestLowBytes, first.RequestHighBytes
		r.Class = record.Text(first.Class)
	}
	return r
}

func outOfMemoryRecord(m *enginelog.OutOfMemory) record.OutOfMemory {
	r := record.OutOfMemory{
		Line: m.Line, Repeats: m.Repeats, Rank: known(m.Rank), Device: known(m.Device),
		Backend: record.Text(string(m.Backend)), Message: m.Message, Class: string(m.Class), Because: m.Because,
	}
	r.RequestBytes, r.RequestLowBytes, r.RequestHighBytes = record.Interval(m.Request)
	r.Phase = record.Text(string(m.Phase))
	if w := m.Where; w.File != "" {
		r.Where = &record.Where{File: w.File, Line: w.Line, Function: record.Text(w.Function), Code: record.Text(w.Code)}
	}
	for _, c := range m.Possible {
		r.Possible = append(r.Possible, string(c))
	}
	for _, a := range m.Advice {
		r.Advice = append(r.Advice, record.Advice{Code: a.Code, Effect: string(a.Effect), Text: a.Text})
	}
	return r
}

// known is a pointer to n, or null where −1 says that a text did not give it.
func known(n int) *int {
	if n < 0 {
		return nil
	}
	return &n
}
