package modules_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
)

// TestRecorded compares the programs with what PyTorch did on a CPU: of every
// recording the peaks of forward, of forward and backward, and of the full step,
// in the first step and the second, beyond what lived before the run. Nine in ten
// are within 1 %, none is off by more than 3 %, and the peak of every step is in
// the phase where it was.
func TestRecorded(t *testing.T) {
	var all score
	for _, r := range readRecordings(t) {
		if only := os.Getenv("CASE"); only != "" && only != r.String() {
			continue
		}
		got, unknown := simulate(t, r)
		if unknown != "" {
			all.unknown = append(all.unknown, r.String()+": "+unknown)
			continue
		}
		s := compare(t, r, got)
		all.add(s)
		if testing.Verbose() {
			t.Log(s.line(r))
		}
		if os.Getenv("CASE") != "" {
			show(t, r, got)
		}
	}
	if within := all.within(0.01); within < 0.9 {
		t.Errorf("%.1f %% of %d peaks are within 1 %%, want nine in ten", 100*within, len(all.errors))
	}
	if worst := all.worst(); worst > 0.03 {
		t.Errorf("a peak is off by %.2f %%, want at most 3 %%", 100*worst)
	}
	if all.misplaced > 0 {
		t.Errorf("%d of %d steps have their peak in another phase", all.misplaced, all.steps)
	}
	t.Logf("%d recordings, %d peaks: %.1f %% within 1 %%, worst %.3f %%; %d steps, the phase of the peak wrong in %d; %d of %d events the same in order; not predicted: %s",
		all.cases, len(all.errors), 100*all.within(0.01), 100*all.worst(), all.steps, all.misplaced, all.same, all.events, strings.Join(all.unknown, "; "))
}

// score is how well a program agrees with recordings.
type score struct {
	cases, steps, misplaced int
	same, events            int // of forward and backward
	errors                  []float64
	unknown                 []string
}

func (s *score) add(o score) {
	s.cases += o.cases
	s.steps += o.steps
	s.misplaced += o.misplaced
	s.same += o.same
	s.events += o.events
	s.errors = append(s.errors, o.errors...)
}

func (s score) within(share float64) float64 {
	if len(s.errors) == 0 {
		return 0
	}
	n := 0
	for _, e := range s.errors {
		if math.Abs(e) <= share {
			n++
		}
	}
	return float64(n) / float64(len(s.errors))
}

func (s score) worst() float64 {
	worst := 0.0
	for _, e := range s.errors {
		worst = max(worst, math.Abs(e))
	}
	return worst
}

func (s score) line(r recorded) string {
	return fmt.Sprintf("%-72s worst %.3f %%, %d misplaced, %d of %d events", r, 100*s.worst(), s.misplaced, s.same, s.events)
}

// compare scores one recording.
func compare(t *testing.T, r recorded, got []event) score {
	want, have := phases(r.events), phases(got)
	s := score{cases: 1}
	s.same, s.events = inOrder(r.events, got)
	if r.option("operation") != "" {
		for i, w := range want {
			if w.name != "end 0" {
				s.errors = append(s.errors, off(w.peak, have[i].peak))
			}
		}
		return s
	}
	if len(have) < 8 {
		t.Fatalf("%s: %d phases", r, len(have))
	}
	for first := 0; first < 8; first += 4 {
		w, h := want[first:first+3], have[first:first+3]
		const points = 3
		for p := 1; p <= points; p++ {
			wantAt, wantPeak := highest(w[:p])
			haveAt, havePeak := highest(h[:p])
			s.errors = append(s.errors, off(wantPeak, havePeak))
			if p == points {
				s.steps++
				if wantAt != haveAt {
					s.misplaced++
				}
			}
		}
	}
	return s
}

// highest is the largest peak of phases, and which phase has it.
func highest(list []phase) (at int, peak int64) {
	for i, p := range list {
		if p.peak > peak {
			at, peak = i, p.peak
		}
	}
	return at, peak
}

func off(want, have int64) float64 {
	if want == 0 {
		return float64(have)
	}
	return float64(have-want) / float64(want)
}

// inOrder counts events of the first forward and backward that are the same in
// order: kind, bytes, and of a death which birth.
func inOrder(want, have []event) (same, all int) {
	for i, e := range want {
		if strings.HasPrefix(e.phase, "optimizer_step") || e.phase == "end 0" {
			return same, all
		}
		all++
		if i < len(have) && e.phase == have[i].phase && e.bytes == have[i].bytes && (e.bytes > 0 || e.of == have[i].of) {
			same++
		}
	}
	return same, all
}

// show prints both around the first difference: for a person, with CASE set.
func show(t *testing.T, r recorded, got []event) {
	t.Helper()
	at := 0
	for at < len(r.events) && at < len(got) && r.events[at].phase == got[at].phase && r.events[at].bytes == got[at].bytes &&
		(r.events[at].bytes > 0 || r.events[at].of == got[at].of) {
		at++
	}
	var b strings.Builder
	want, have := phases(r.events), phases(got)
	for i := range min(len(want), len(have)) {
		fmt.Fprintf(&b, "%-18s peak %d, want %d (%+.3f %%)\n", want[i].name, have[i].peak, want[i].peak, 100*off(want[i].peak, have[i].peak))
	}
	for i := max(0, at-12); i < at+28; i++ {
		fmt.Fprintf(&b, "%6d %-70s | %s\n", i, text(r.events, i, r.names), text(got, i, nil))
	}
	t.Log(b.String())
}

func text(list []event, i int, names []string) string {
	if i >= len(list) {
		return ""
	}
	switch e := list[i]; {
	case e.phase != "":
		return "phase " + e.phase
	case e.bytes > 0 && names != nil:
		return fmt.Sprintf("+%d %s", e.bytes, names[e.name])
	case e.bytes > 0:
		return fmt.Sprintf("+%d", e.bytes)
	default:
		return fmt.Sprintf("-#%d", e.of)
	}
}
