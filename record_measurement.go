package floodmark

import (
	"time"

	"floodmark/account"
	"floodmark/measurement"
	"floodmark/record"
)

// measurementEvidence is a run that was measured.
type measurementEvidence struct{ measurement *measurement.Measurement }

// Accounts is one account a rank and device. Those of the lab say so, and decide
// nothing about a workload.
func (e measurementEvidence) Accounts() []account.Account { return e.measurement.Accounts() }

// Record is the measurement as a document.
func (e measurementEvidence) Record(tool record.Tool) any {
	m := e.measurement
	r := &record.Measurement{
		Head:        record.Head{Envelope: record.NewEnvelope(record.KindMeasurement, tool, m.Warnings), Trial: trialRecord(m.Trial)},
		Subject:     string(m.Subject),
		Complete:    m.Complete(),
		Environment: measuredEnvironment(m.Environment),
		Series: record.MeasuredSeries{Order: m.Policy.Order, Process: m.Policy.RepeatKind, Policy: record.MeasuredPolicy{
			Instrumented: m.Policy.Instrumented, Protocol: record.Text(m.Policy.Protocol), Warmup: m.Policy.Warmup, Repeats: m.Policy.Repeats,
			EmptyCacheBetweenRepeats: m.Policy.EmptyCache, SampleIntervalNS: positive(int64(m.Policy.SampleInterval)),
		}},
	}
	if m.Outcome.Ended {
		r.Outcome = &record.Outcome{Status: m.Outcome.Status, Signal: record.Text(m.Outcome.Signal), Interrupted: m.Outcome.Interrupted, DurationNS: int64(m.Outcome.Duration)}
	}
	for _, p := range m.Ranks {
		r.Processes = append(r.Processes, record.MeasuredProcess{Rank: known(p.Rank), Ranks: positive(p.World), PID: positive(p.PID),
			Host: record.Text(p.Host), Status: string(p.Status), DroppedReadings: p.Dropped})
	}
	for _, p := range m.Phases {
		r.Phases = append(r.Phases, measuredPhase(p))
	}
	r.Trends = trendRecords(m)
	return r
}

func trialRecord(t measurement.Trial) record.Trial {
	return record.Trial{Model: record.Text(t.Model), Revision: record.Text(t.Revision), Code: record.Text(t.Code), InputSet: record.Text(t.InputSet), Seed: t.Seed}
}

// positive is a pointer to n, or null for 0, which says that nobody knows.
func positive[N int | int64](n N) *N {
	if n <= 0 {
		return nil
	}
	return &n
}

func measuredEnvironment(e measurement.Environment) record.MeasuredEnvironment {
	r := record.MeasuredEnvironment{
		Driver: record.Text(e.Driver), Python: record.Text(e.Python), PyTorch: record.Text(e.PyTorch), Backend: record.Text(e.Backend),
		Allocator: record.MeasuredAllocator{Backend: record.Text(e.Allocator), Settings: record.Text(e.Settings)},
	}
	for _, v := range e.Extensions {
		r.Extensions = append(r.Extensions, record.MeasuredVersion(v))
	}
	for _, d := range e.Devices {
		r.Devices = append(r.Devices, record.MeasuredDevice{Index: d.Index, Name: record.Text(d.Name), UUID: record.Text(d.UUID), ReportedBytes: d.TotalBytes})
	}
	return r
}

func measuredPhase(p measurement.Phase) record.MeasuredPhase {
	r := record.MeasuredPhase{
		Name: string(p.ID), Step: p.Step, Pass: record.Text(p.Pass), Nested: p.Nested, Rank: known(p.Rank), Process: p.Process, Device: known(p.Device),
		TruncatedTokens: p.Truncated, Start: measuredCounters(p.Start), End: measuredCounters(p.End), Peak: measuredPeaks(p),
		DeviceLowBytes: p.Sampled.Device, ProcessLowBytes: p.Sampled.Process, Samples: p.Sampled.Count, ProcessUnknown: record.Text(p.Sampled.Why),
		BeganNS: positive(p.Began), Status: string(p.Status), Inferred: p.Inferred, Note: record.Text(p.Note), Error: record.Text(p.Error),
	}
	switch {
	case r.Name == "":
		r.Name = p.Name
	case p.Name != r.Name:
		r.Label = record.Text(p.Name)
	}
	if p.Input != nil {
		r.Inputs = &record.Input{Name: p.Input.Name, SHA256: record.Text(p.Input.SHA256), Configured: p.Input.Configured, Observed: p.Input.Observed}
	}
	for _, s := range p.Shapes {
		r.ObservedShapes = append(r.ObservedShapes, record.MeasuredShape{Name: s.Name, Shape: s.Shape, Format: record.Text(s.Format)})
	}
	if p.Timed {
		n := int64(p.Duration)
		r.DurationNS = &n
	}
	if p.Result != (measurement.Result{}) {
		r.Result = &record.Result{Loss: record.Text(p.Result.Loss), SHA256: record.Text(p.Result.SHA256)}
	}
	return r
}

func measuredCounters(c measurement.Counters) record.MeasuredCounters {
	r := record.MeasuredCounters{AllocatedBytes: c.Allocated, ReservedBytes: c.Reserved, DeviceBytes: c.Device, ProcessBytes: c.Process}
	if n, known := c.Outside(); known {
		r.OutsideBytes = &n
	}
	return r
}

// measuredPeaks is the two peaks of a phase, each as far as it is known.
func measuredPeaks(p measurement.Phase) record.MeasuredPeak {
	var r record.MeasuredPeak
	for _, f := range p.Peaks() {
		switch f.Scope {
		case account.Allocated:
			r.AllocatedBytes, r.AllocatedLowBytes, r.AllocatedHighBytes = record.Interval(f)
		case account.Reserved:
			r.ReservedBytes, r.ReservedLowBytes, r.ReservedHighBytes = record.Interval(f)
		}
	}
	return r
}

// openMeasurement reads a record back as what was measured, so that it has
// accounts again. It keeps its own envelope, because its own tool made it.
func openMeasurement(r *record.Measurement) Evidence {
	m := &measurement.Measurement{Subject: measurement.Subject(r.Subject)}
	if m.Subject != measurement.Program {
		m.Subject = measurement.Lab // a subject that is not known proves nothing
	}
	for _, w := range r.Warnings {
		m.Warnings = append(m.Warnings, account.Warning{Code: w.Code, Text: w.Text})
	}
	m.Policy.Instrumented = r.Series.Policy.Instrumented
	for _, p := range r.Phases {
		m.Phases = append(m.Phases, readPhase(p))
	}
	return recordedMeasurement{recordEvidence{r}, m}
}

// recordedMeasurement is a record of a measurement.
type recordedMeasurement struct {
	recordEvidence
	measurement *measurement.Measurement
}

// Accounts is what the run held, as on the day when it was measured.
func (e recordedMeasurement) Accounts() []account.Account { return e.measurement.Accounts() }

// Record is the record itself. One that was written before trends were told has them
// too: they follow from its phases.
func (e recordedMeasurement) Record(record.Tool) any {
	m := *e.document.(*record.Measurement)
	if m.Trends == nil {
		m.Trends = trendRecords(e.measurement)
	}
	return &m
}

// readPhase is a phase that was read back. A peak of which the record has two ends
// is one that the counter bounds from above.
func readPhase(r record.MeasuredPhase) measurement.Phase {
	p := measurement.Phase{
		Name: r.Name, Step: r.Step, Rank: ordinal(r.Rank), Process: r.Process, Device: ordinal(r.Device),
		Start: measurement.Counters{Allocated: r.Start.AllocatedBytes, Reserved: r.Start.ReservedBytes, Device: r.Start.DeviceBytes, Process: r.Start.ProcessBytes},
		End:   measurement.Counters{Allocated: r.End.AllocatedBytes, Reserved: r.End.ReservedBytes, Device: r.End.DeviceBytes, Process: r.End.ProcessBytes},
		Peak: measurement.Counters{Allocated: first(r.Peak.AllocatedBytes, r.Peak.AllocatedHighBytes, r.Peak.AllocatedLowBytes),
			Reserved: first(r.Peak.ReservedBytes, r.Peak.ReservedHighBytes, r.Peak.ReservedLowBytes)},
		Async:   r.Peak.ReservedHighBytes != nil,
		Sampled: measurement.Sampled{Device: first(r.DeviceBytes, r.DeviceLowBytes), Process: first(r.ProcessBytes, r.ProcessLowBytes)},
		Status:  measurement.Status(r.Status), Inferred: r.Inferred, Nested: r.Nested,
	}
	for _, s := range r.ObservedShapes {
		p.Shapes = append(p.Shapes, measurement.Shape{Name: s.Name, Shape: s.Shape})
	}
	p.ID = measurement.PhaseNamed(r.Name)
	if r.Error != nil {
		p.Error = *r.Error
	}
	if r.DurationNS != nil {
		p.Duration, p.Timed = time.Duration(*r.DurationNS), true
	}
	if r.Inputs != nil {
		p.Input = &account.Input{Name: r.Inputs.Name, Configured: r.Inputs.Configured, Observed: r.Inputs.Observed}
		if r.Inputs.SHA256 != nil {
			p.Input.SHA256 = *r.Inputs.SHA256
		}
	}
	return p
}

func ordinal(n *int) int {
	if n == nil {
		return -1
	}
	return *n
}

// first is the first of several numbers that is known.
func first(numbers ...*int64) *int64 {
	for _, n := range numbers {
		if n != nil {
			return n
		}
	}
	return nil
}
