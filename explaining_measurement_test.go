package floodmark

import (
	"errors"
	"strings"
	"testing"

	"floodmark/internal/checklist"
	"floodmark/record"
)

// plannedRun is an estimate of two steps of training: weights of 4 GiB, gradients of
// 3, optimizer states of 8 that are born in the first step.
func plannedRun() *record.Estimate {
	name := "small"
	n := func(g float64) *int64 { b := int64(g * (1 << 30)); return &b }
	phase := func(id string, step int, start, peak, end float64) record.Phase {
		return record.Phase{Name: id, Step: step, StartAllocatedBytes: n(start), PeakAllocatedBytes: n(peak), EndAllocatedBytes: n(end), PeakReservedBytes: n(peak + 1), ProcessLowBytes: n(peak + 1.3), ProcessHighBytes: n(peak + 2)}
	}
	term := func(id, scope string, bytes float64) record.Term {
		return record.Term{ID: id, Category: id, Scope: scope, Bytes: n(bytes), AtPeakBytes: n(bytes), Status: "counted", Origin: "calculated"}
	}
	e := &record.Estimate{Ranks: []record.Rank{{Rank: 0, Ranks: []int{0},
		Phases: []record.Phase{phase("forward", 1, 4, 9, 9), phase("backward", 1, 9, 10, 7), phase("optimizer_step", 1, 7, 15.5, 15),
			phase("forward", 2, 12, 17, 17), phase("backward", 2, 17, 18, 15), phase("optimizer_step", 2, 15, 15.5, 15)},
		Terms: []record.Term{term("weights", "requested", 4), term("gradients", "requested", 3), term("optimizer_state", "requested", 8), term("activations", "requested", 2.5), term("context", "process", 0.5)},
		Peak:  &record.RankPeak{Phase: "backward", Step: 2, Composition: []record.Share{{Category: "parameter", Term: "weights", Bytes: n(4)}}},
	}}}
	e.Model.Name = &name
	return e
}

// ranAs is a run that is as it was planned, and then changed.
func ranAs(e *record.Estimate, change func(name string, step int, p *record.MeasuredPhase)) Evidence {
	m := &record.Measurement{Subject: "program", Complete: true}
	zero, more := 0, int64(1<<29)
	for _, p := range e.Ranks[0].Phases {
		process := *p.PeakReservedBytes + more
		q := record.MeasuredPhase{Name: p.Name, Step: p.Step, Rank: &zero, Device: &zero, Status: "completed",
			Start: record.MeasuredCounters{AllocatedBytes: p.StartAllocatedBytes},
			Peak:  record.MeasuredPeak{AllocatedBytes: p.PeakAllocatedBytes, ReservedBytes: p.PeakReservedBytes},
			End:   record.MeasuredCounters{AllocatedBytes: p.EndAllocatedBytes, ReservedBytes: p.PeakReservedBytes, ProcessBytes: &process}}
		if change != nil {
			change(p.Name, p.Step, &q)
		}
		m.Phases = append(m.Phases, q)
	}
	return openMeasurement(m)
}

func besideRun(t *testing.T, change func(name string, step int, p *record.MeasuredPhase)) *record.Measurement {
	t.Helper()
	e := plannedRun()
	document, err := Against(ranAs(e, change), e, record.Tool{})
	if err != nil {
		t.Fatal(err)
	}
	return document.(*record.Measurement)
}

func rowOf(t *testing.T, a *record.Against, term, scope, phase string, step int) record.AgainstRow {
	t.Helper()
	for _, r := range a.Rows {
		if r.Term == term && r.Scope == scope && (phase == "" || r.Phase != nil && *r.Phase == phase && r.Step == step) {
			return r
		}
	}
	t.Fatalf("no row %s %s %s %d", term, scope, phase, step)
	return record.AgainstRow{}
}

// shifted moves the allocated levels of a phase.
func shifted(p *record.MeasuredPhase, start, peak, end float64) {
	for field, by := range map[**int64]float64{&p.Start.AllocatedBytes: start, &p.Peak.AllocatedBytes: peak, &p.End.AllocatedBytes: end} {
		n := **field + int64(by*(1<<30))
		*field = &n
	}
}

// An estimate leads to a record, and the record back to the estimate: where the two
// agree everything says so, in each scope by itself, and what no counter tells apart
// is left open.
func TestAgainstMeasurement(t *testing.T) {
	checklist.Covers(t, 160, 218)
	a := besideRun(t, nil).Against
	for _, r := range a.Rows {
		switch {
		case r.Inside != nil && !*r.Inside:
			t.Errorf("%s of %v: %s", r.Term, r.Phase, r.Cause)
		case r.Term == "weights" && (r.ObservedLow != nil || !strings.HasPrefix(r.Cause, "never measured")):
			t.Errorf("nobody measured the weights: %+v", r)
		}
	}
	if last := a.Rows[len(a.Rows)-1]; last.Term != "residual" {
		t.Errorf("last is %s", last.Term)
	}
	if len(a.Cancelling) != 0 {
		t.Errorf("%+v", a.Cancelling)
	}
	if o := rowOf(t, a, "outside_the_allocator", "process", "", 0); *o.ObservedLow != 1<<29 {
		t.Errorf("outside: %+v", o)
	}
}

// States that never came to be are found by their bytes, where they should have been
// born, and every later phase says that the difference was there before.
func TestDifferenceIsTracedToItsPhase(t *testing.T) {
	a := besideRun(t, func(name string, step int, p *record.MeasuredPhase) {
		switch {
		case name == "optimizer_step" && step == 1:
			shifted(p, 0, -8, -8)
		case step == 2:
			shifted(p, -8, -8, -8)
		}
	}).Against
	if r := rowOf(t, a, "end", "allocated", "optimizer_step", 1); !strings.Contains(r.Cause, "as many bytes as optimizer state, 8.00 GiB") {
		t.Error(r.Cause)
	}
	if r := rowOf(t, a, "peak", "allocated", "backward", 2); !strings.Contains(r.Cause, "all of it was there when the phase began, since the end of optimizer step 1") {
		t.Error(r.Cause)
	}
	if r := rowOf(t, a, "residual", "allocated", "", 0); !*r.Inside {
		t.Errorf("the states are all of it: %+v", r)
	}
}

// A peak that is nearly right because it began lower and rose higher is said to be.
func TestPeakThatLooksGood(t *testing.T) {
	a := besideRun(t, func(name string, step int, p *record.MeasuredPhase) {
		if name == "backward" && step == 2 {
			shifted(p, -3, 0.5, 0)
		}
	}).Against
	if len(a.Cancelling) != 1 || !strings.Contains(a.Cancelling[0].Text, "the peak of backward 2 is off by +0.50 GiB, and looks good only because errors cancel: start −3.00 GiB, the rise above its start +3.50 GiB") {
		t.Errorf("%+v", a.Cancelling)
	}
	if r := rowOf(t, a, "residual", "allocated", "", 0); *r.DifferenceLow != 1<<29 {
		t.Errorf("half a GiB is in no term: %+v", r)
	}
}

// A run that failed has lower bounds, which contradict an estimate only where they
// are above it.
func TestAgainstFailedRun(t *testing.T) {
	for above, inside := range map[float64]string{-2: "a lower bound alone", 3: "more than estimated"} {
		a := besideRun(t, func(name string, step int, p *record.MeasuredPhase) {
			if name == "backward" && step == 2 {
				least := *p.Peak.AllocatedBytes + int64(above*(1<<30))
				p.Status, p.Peak = "failed", record.MeasuredPeak{AllocatedLowBytes: &least}
			}
		}).Against
		if r := rowOf(t, a, "peak", "allocated", "backward", 2); !strings.Contains(r.Cause, inside) || !strings.Contains(r.Cause, "lower bounds") || r.DifferenceHigh != nil {
			t.Errorf("%+v", r)
		}
	}
}

// Ranks of one side alone are named, later steps are held against the second, and
// the lab proves nothing.
func TestPlacesOfOneSide(t *testing.T) {
	checklist.Covers(t, 161)
	e := plannedRun()
	e.Ranks[0].Ranks = []int{0, 1}
	document, err := Against(ranAs(e, func(name string, step int, p *record.MeasuredPhase) {
		if step == 2 {
			p.Step = 40
		}
	}), e, record.Tool{})
	if err != nil {
		t.Fatal(err)
	}
	m := document.(*record.Measurement)
	if len(m.Warnings) != 1 || m.Warnings[0].Code != "rank_not_measured" {
		t.Errorf("%+v", m.Warnings)
	}
	if r := rowOf(t, m.Against, "peak", "allocated", "backward", 40); !*r.Inside {
		t.Errorf("%+v", r)
	}
	lab := openMeasurement(&record.Measurement{Subject: "lab"})
	if _, err := Against(lab, e, record.Tool{}); !errors.Is(err, ErrNotAgainst) {
		t.Errorf("%v", err)
	}
}

// Levels of one checkpoint stand inside each other, with what lies between.
func TestCheckpointNests(t *testing.T) {
	checklist.Covers(t, 62, 217)
	c := besideRun(t, func(name string, step int, p *record.MeasuredPhase) {
		if name == "backward" && step == 2 {
			device := *p.End.ProcessBytes + 1<<28
			p.End.DeviceBytes = &device
		}
	}).Against.Checkpoint
	if c == nil || c.At != "the end of backward 2" || len(c.Levels) != 4 {
		t.Fatalf("%+v", c)
	}
	// device 19.75 ⊃ process 19.5 ⊃ reserved 19 ⊃ allocated 15 GiB
	for i, beside := range []int64{1 << 28, 1 << 29, 4 << 30} {
		if got := *c.Levels[i].BesideLow; got != beside {
			t.Errorf("beside level %d: %d, want %d", i, got, beside)
		}
	}
}

// Of a text that PyTorch printed, what was allocated and what was asked for are a
// lower bound of the peak in the phase that it names.
func TestAgainstFailure(t *testing.T) {
	e, err := Open("testdata/oom/fragmentation.txt")
	if err != nil {
		t.Fatal(err)
	}
	document, err := Against(e, plannedRun(), record.Tool{})
	if err != nil {
		t.Fatal(err)
	}
	a := document.(*record.Log).Against
	peak := rowOf(t, a, "peak", "allocated", "backward", 2)
	if got := gib(peak.ObservedLow, peak.ObservedLow); got != 77.63 || peak.ObservedHigh != nil || *peak.Inside {
		t.Errorf("77.10 GiB and 546 MiB are at least 77.63: %+v", peak)
	}
	if o := rowOf(t, a, "outside_the_allocator", "process", "", 0); gib(o.ObservedLow, o.ObservedHigh) != 0.78 {
		t.Errorf("78.60 less 77.10 and 737.40 MiB: %+v", o)
	}
	if c := a.Checkpoint; c == nil || len(c.Levels) != 4 || c.Levels[3].Scope != "allocated" {
		t.Errorf("%+v", a.Checkpoint)
	}
}

// A snapshot sees the allocator alone: categories at like scope, and what nothing
// says in the last row.
func TestAgainstSnapshot(t *testing.T) {
	e, err := Open("testdata/snapshots/training_step.pickle")
	if err != nil {
		t.Fatal(err)
	}
	document, err := Against(e, plannedRun(), record.Tool{})
	if err != nil {
		t.Fatal(err)
	}
	a := document.(*record.Snapshot).Against
	if r := rowOf(t, a, "parameter", "requested", "", 0); r.Inside == nil || *r.Inside || *r.ObservedHigh != 0 {
		t.Errorf("every allocation was counted, and none is a parameter: %+v", r)
	}
	if r := rowOf(t, a, "outside_the_allocator", "process", "", 0); r.ObservedLow != nil || !strings.Contains(r.Cause, "sees the allocator alone") {
		t.Errorf("%+v", r)
	}
	if last := a.Rows[len(a.Rows)-1]; last.Term != "residual" || *last.ObservedLow <= 0 || *last.ObservedLow > 16<<20 {
		t.Errorf("%+v", last)
	}
}

// Two instants: allocated and reserved are (8, 10) and (6, 12) GiB. The gaps are of
// their checkpoints, 2 and 6; the peaks, 8 and 12, have no difference.
func TestTwoInstants(t *testing.T) {
	checklist.Covers(t, 64, 65, 66, 68)
	e, err := Open("docs/cases/two_instants.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := Reconcile(e.Record(record.Tool{}), []string{"forward", "backward#1:end"})
	if err != nil {
		t.Fatal(err)
	}
	var gaps []int64
	for _, c := range m.Checkpoints {
		for _, l := range c.Levels {
			if l.Scope == "reserved" {
				gaps = append(gaps, *l.BesideLow>>30)
			}
		}
	}
	if len(gaps) != 2 || gaps[0] != 2 || gaps[1] != 6 {
		t.Errorf("gaps %v", gaps)
	}
	for _, text := range []string{"forward#x", "forward#3", "save", "forward:middle"} {
		if _, err := Reconcile(m, []string{text}); err == nil {
			t.Errorf("%q is a checkpoint", text)
		}
	}
	if _, err := Reconcile(&record.Estimate{}, nil); !errors.Is(err, ErrNoCheckpoints) {
		t.Errorf("%v", err)
	}
}
