package measurement

import (
	"encoding/json"
	"strings"
	"time"

	"floodmark/account"
)

// WholeProcess is what the counters say since a process began, without any
// phase: what the verifying run measures.
const WholeProcess = "whole process"

// phases makes one phase a device of a line "end", or of a line "begin" that
// has none.
func (s *reading) phases(l *line) []Phase {
	p := Phase{
		ID: PhaseNamed(l.Name), Name: l.Name, Step: step(l.Step), Pass: l.Pass, Device: -1, Began: l.Mono,
		Truncated: natural(l.Truncated), Status: status(l.Status), Error: l.Error.text(),
		Inferred: l.Seen == "inferred", Input: s.input(l.Inputs), Shapes: shapes(l.Inputs), Nested: l.Parent != nil,
	}
	if l.Duration != nil && *l.Duration >= 0 {
		p.Duration, p.Timed = time.Duration(*l.Duration), true
		p.Began = l.Mono - *l.Duration
	}
	p.Ended = p.Began + int64(p.Duration)
	if p.Status == Unfinished {
		p.Ended = s.last
	}
	p.Result = result(l.Result)
	p.Note = note(l)
	if len(l.Devices) == 0 {
		return []Phase{p}
	}
	list := make([]Phase, 0, len(l.Devices))
	for _, d := range l.Devices {
		list = append(list, s.on(p, d))
	}
	return list
}

// on is a phase as one device saw it.
func (s *reading) on(p Phase, d deviceLine) Phase {
	p.Device = max(d.Device, 0)
	p.Start, p.Peak, p.End = d.Start.counters(), d.Peak.counters(), d.End.counters()
	p.End.Device = d.inUse()
	p.Async = s.async[p.Device]
	var notes []string
	if p.Note != "" {
		notes = append(notes, p.Note)
	}
	if d.PeakSince == "process" {
		notes = append(notes, "the context came during the phase: its peak began with it")
	}
	if d.Reason != "" {
		notes = append(notes, d.Reason)
	}
	if d.Retries != nil && *d.Retries > 0 {
		notes = append(notes, "the allocator gave cached blocks back and tried again")
	}
	p.Note = strings.Join(notes, "; ")
	return p
}

// whole is the process as a whole, device by device; in a verifying run that did
// not end, one row without readings.
func (s *reading) whole() []Phase {
	p := Phase{ID: account.PhaseRecorded, Name: WholeProcess, Device: -1, Began: s.Began, Ended: s.last, Status: Completed}
	if s.ended == nil {
		if !s.Verifying {
			return nil
		}
		p.Status = Unfinished
		p.Note = "the process was killed or replaced before it could read its peaks"
		return []Phase{p}
	}
	p.Duration, p.Timed = time.Duration(max(s.ended.Mono-s.Began, 0)), true
	var list []Phase
	for _, d := range s.ended.Devices {
		list = append(list, s.on(p, d))
	}
	return list
}

func step(n *int) int {
	if n == nil || *n < 0 {
		return 0
	}
	return *n
}

func status(word string) Status {
	switch word {
	case "ok":
		return Completed
	case "unfinished":
		return Unfinished
	}
	return Failed
}

// note says why a phase is inferred or has no readings.
func note(l *line) string {
	var notes []string
	if l.Seen == "inferred" && l.By != "" {
		notes = append(notes, "inferred from "+l.By)
	}
	switch l.ReadReason {
	case "", "no_context": // no device: there was nothing to read
	case "stream_capture":
		notes = append(notes, "not read: a stream was being captured into a graph")
	default:
		notes = append(notes, "not read: "+l.ReadReason)
	}
	if l.Threads {
		notes = append(notes, "other threads ran model code meanwhile")
	}
	return strings.Join(notes, "; ")
}

func (s *reading) input(in *inputsLine) *account.Input {
	if in == nil && s.Lab == nil {
		return nil
	}
	input := &account.Input{Name: "inputs"}
	if in != nil {
		input.SHA256, input.Observed = in.SHA256, in.observed()
		if in.Given != "" {
			input.Name = in.Given
		}
	}
	if lab := s.Lab; lab != nil {
		input.Name = "synthetic"
		input.Configured = map[string]int64{"batch": lab.Batch, "context": lab.Context, "width": lab.Width}
	}
	return input
}

func shapes(in *inputsLine) []Shape {
	if in == nil {
		return nil
	}
	var list []Shape
	for _, t := range in.Tensors {
		list = append(list, Shape{t.Name, t.Shape, t.Dtype})
	}
	return list
}

// result keeps a loss as it was printed, because it can be no number of JSON.
func result(l *resultLine) Result {
	if l == nil {
		return Result{}
	}
	r := Result{SHA256: l.SHA256}
	var text string
	switch {
	case len(l.Loss) == 0, string(l.Loss) == "null":
	case json.Unmarshal(l.Loss, &text) == nil:
		r.Loss = text
	default:
		r.Loss = string(l.Loss)
	}
	return r
}
