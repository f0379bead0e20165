package torch_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/allocator"
	"floodmark/dtype"
	"floodmark/internal/oracle"
	"floodmark/internal/source"
	"floodmark/internal/torch"
	"floodmark/replay"
	"floodmark/snapshot"
	"floodmark/timeline"
)

// mediumTrace is one recorded file of the course model at its medium size.
type mediumTrace struct {
	name     string
	context  int64
	compute  dtype.Format
	training bool
	peak     account.PhaseID // in which the recorded peak lies
	operator string          // at which it does
	node     string          // of backward, at which it does
	reserved int64           // recorded, at the end
}

// Training steps at four lengths peak at four different places.
func mediumTraces() []mediumTrace {
	return []mediumTrace{
		{"128_training", 128, dtype.Unknown, true, account.PhaseOptimizerStep, "add", "", 7235174400},
		{"256_training", 256, dtype.Unknown, true, account.PhaseLoss, "sub", "", 9265217536},
		{"512_training", 512, dtype.BF16, true, account.PhaseBackward, "sum", "", 12660506624},
		{"1024_training", 1024, dtype.BF16, true, account.PhaseBackward, "mul", "DivBackward0", 25178406912},
		{"128_inference", 128, dtype.Unknown, false, account.PhaseForward, "mul", "", 1763704832},
		{"256_inference", 256, dtype.Unknown, false, account.PhaseForward, "div", "", 1864368128},
		{"512_inference", 512, dtype.BF16, false, account.PhaseForward, "div", "", 1981808640},
		{"1024_inference", 1024, dtype.Unknown, false, account.PhaseForward, "div", "", 3204448256},
	}
}

func (c mediumTrace) run(t *testing.T) *timeline.Timeline {
	t.Helper()
	m := torch.New(torch.Options{Device: torch.A100(), Release: torch.Release{Major: 2, Minor: 10}})
	model := medium(c.context, c.compute)
	model.build(m)
	if c.training {
		model.moments()
	}
	m.Workspace(c.training)
	if c.training {
		model.train()
	} else {
		model.infer()
	}
	return finished(t, m)
}

func finished(t *testing.T, m *torch.Machine) *timeline.Timeline {
	t.Helper()
	tl, err := m.Timeline()
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// TestMediumTraces runs the program against the recorded traces: every event in
// order (kind, bytes, and for a free which allocation), the level at the start,
// the peak of each phase, and where the highest one lies.
func TestMediumTraces(t *testing.T) {
	for _, c := range mediumTraces() {
		t.Run(c.name, func(t *testing.T) {
			want, got := readTrace(t, c.name), c.run(t)
			compare(t, got, want, 1)
			samePhases(t, got, want)
			a := replay.Account(got, simulate(t, got), account.Calculated)
			if phase, site := highest(got, a); phase != c.peak || !strings.HasPrefix(site, c.operator+" "+c.node) {
				t.Errorf("the peak lies in %s at %q, recorded in %s at %s %s", phase, site, c.peak, c.operator, c.node)
			}
			// From an allocator that begins empty: within 1.5 %.
			reserved := simulate(t, got).Peaks.Reserved.Bytes
			if off := float64(reserved-c.reserved) / float64(c.reserved); off > 0.015 || off < -0.015 {
				t.Errorf("reserved %d, recorded %d: %.2f %%", reserved, c.reserved, 100*off)
			}
		})
	}
}

// highest is the phase of the peak of requested bytes, and the operator, node and
// module of the allocation that made it.
func highest(tl *timeline.Timeline, a account.Account) (account.PhaseID, string) {
	_, moment := tl.PeakRequested()
	var names []string
	stack := tl.Allocs[tl.Events[moment].Alloc].Stack
	for _, frame := range tl.Stacks.Stack(stack) {
		names = append(names, tl.Stacks.Function(frame))
	}
	for i, p := range tl.Phases {
		if p.First <= moment && moment < p.Last {
			return a.Phases[i].ID, strings.Join(names, " ") + " "
		}
	}
	return "", ""
}

func simulate(t *testing.T, tl *timeline.Timeline) *replay.Run {
	t.Helper()
	run, err := replay.Simulate(context.Background(), tl, replay.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// compare holds a predicted timeline against a recorded one: the share of events
// that must be the same, and peaks within 0.1 %.
func compare(t *testing.T, got *timeline.Timeline, want trace, share float64) {
	t.Helper()
	list := events(got)
	same := alike(list, want.events)
	if all := max(len(list), len(want.events)); float64(same) < share*float64(all) {
		t.Errorf("%d of %d events are as recorded, of %d predicted%s", same, len(want.events), len(list), firstDifference(list, want.events))
	}
	var start, recordedStart int64
	for _, b := range want.before {
		recordedStart += b
	}
	start = got.Start()
	within(t, "start", start, recordedStart)
	peak, recorded := peakOver(list, 0, len(list)), peakOver(want.list(), 0, len(want.events))
	within(t, "peak over start", peak, recorded)
	within(t, "peak", start+peak, recordedStart+recorded)
}

func within(t *testing.T, what string, got, want int64) {
	t.Helper()
	if off := float64(got-want) / float64(max(want, 1)); off > 0.001 || off < -0.001 {
		t.Errorf("%s is %d, recorded %d: %.3f %%", what, got, want, 100*off)
	}
}

// samePhases compares the peak over the start of each phase.
func samePhases(t *testing.T, got *timeline.Timeline, want trace) {
	t.Helper()
	var first []int
	var ids []account.PhaseID
	for i, e := range want.events {
		if e.phase != "" {
			first, ids = append(first, i), append(ids, e.phase)
		}
	}
	if len(first) != len(got.Phases) {
		t.Fatalf("phases %v recorded at %v, predicted %v", ids, first, got.Phases)
	}
	for i, p := range got.Phases {
		last := len(want.events)
		if i+1 < len(first) {
			last = first[i+1]
		}
		if p.Phase != ids[i] {
			t.Errorf("phase %d is %s, recorded %s", i, p.Phase, ids[i])
		}
		within(t, "peak of "+string(p.Phase), peakOver(events(got), p.First, p.Last), peakOver(want.list(), first[i], last))
	}
}

// event is a birth, or the death of birth number of; what lived before is −1.
type event struct {
	bytes int64
	dies  bool
	of    int
}

func (tr trace) list() []event {
	list := make([]event, len(tr.events))
	for i, e := range tr.events {
		list[i] = event{e.bytes, e.dies, e.of}
	}
	return list
}

// peakOver is the highest level of events first to last over the level before
// all events.
func peakOver(list []event, first, last int) int64 {
	var level, highest int64
	for i, e := range list[:last] {
		if e.dies {
			level -= e.bytes
		} else {
			level += e.bytes
		}
		if i == first || i > first && level > highest {
			highest = level
		}
	}
	return highest
}

// alike is the number of events that are the same at the same place. Blocks that
// lived before are compared by their bytes.
func alike(got []event, want []recordedEvent) int {
	same := 0
	for i := range min(len(got), len(want)) {
		if got[i] == (event{want[i].bytes, want[i].dies, max(want[i].of, -1)}) {
			same++
		}
	}
	return same
}

func firstDifference(got []event, want []recordedEvent) string {
	for i := range min(len(got), len(want)) {
		if w := (event{want[i].bytes, want[i].dies, max(want[i].of, -1)}); got[i] != w {
			return "; the first that differs is " + spell(i, got[i]) + ", recorded " + spell(i, w) + " by " + want[i].op + " " + want[i].node
		}
	}
	return ""
}

func events(tl *timeline.Timeline) []event {
	birth := make([]int, len(tl.Allocs))
	for i := range birth {
		birth[i] = -1
	}
	births := 0
	var list []event
	for _, e := range tl.Events {
		bytes := tl.Allocs[e.Alloc].Requested
		switch e.Kind {
		case timeline.Born:
			birth[e.Alloc] = births
			list = append(list, event{bytes: bytes, of: births})
			births++
		case timeline.FreeCompleted:
			list = append(list, event{bytes, true, birth[e.Alloc]})
		}
	}
	return list
}

// TestMediumTracesSabotaged: a machine that leaves something out is found.
func TestMediumTracesSabotaged(t *testing.T) {
	c := mediumTraces()[0]
	want := readTrace(t, c.name)
	for name, spoil := range map[string]func(*timeline.Timeline){
		"the first activation is missing":   func(tl *timeline.Timeline) { tl.Events = tl.Events[1:] },
		"one free comes an event later":     func(tl *timeline.Timeline) { tl.Events[3], tl.Events[4] = tl.Events[4], tl.Events[3] },
		"a tensor is four bytes larger":     func(tl *timeline.Timeline) { tl.Allocs[tl.Events[0].Alloc].Requested += 4 },
		"the last free is of another block": func(tl *timeline.Timeline) { tl.Events[len(tl.Events)-1].Alloc = tl.Events[0].Alloc },
	} {
		tl := c.run(t)
		spoil(tl)
		if list := events(tl); alike(list, want.events) == len(want.events) {
			t.Errorf("%s: not found", name)
		}
	}
}

// TestOracleReservedFromTheRecordedStart: the events being the recorded ones,
// replay from the recorded start reserves what was recorded.
func TestOracleReservedFromTheRecordedStart(t *testing.T) {
	folder := filepath.Join(oracle.Dir(t), "snapshots", "wedsonlin__assignment2-systems")
	for _, c := range mediumTraces() {
		src, err := source.Open(filepath.Join(folder, "results_medium_"+c.name+"_memory_snapshot.pickle"))
		if err != nil {
			t.Fatal(err)
		}
		s, err := snapshot.Read(src)
		src.Close()
		if err != nil {
			t.Fatal(err)
		}
		r := s.Recordings()[0]
		got, want := c.run(t), events(&r.Timeline)
		list := events(got)
		for i := range want {
			if want[i] != list[i] {
				t.Fatalf("%s: event %d is %s, recorded %s", c.name, i, spell(i, list[i]), spell(i, want[i]))
			}
		}
		replayed := replay.Replay(s, r, allocator.LatestRules(), 0)
		if !replayed.Certificate.Holds() || replayed.Run.Peaks.Reserved.Bytes != c.reserved {
			t.Errorf("%s: reserved %d, recorded %d; %s", c.name, replayed.Run.Peaks.Reserved.Bytes, c.reserved, replayed.Certificate)
		}
	}
}
