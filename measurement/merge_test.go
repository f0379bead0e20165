package measurement

import (
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/checklist"
)

func codes(list []account.Warning) []string {
	var got []string
	for _, w := range list {
		got = append(got, w.Code)
	}
	return got
}

// One card's readings do not describe another's, and a rank that never started
// is there, without any figure.
func TestMissingRankIsVisible(t *testing.T) {
	checklist.Covers(t, 85)
	m := Merge(Program, []*Stream{readTraining(t)}, 0)
	m.Outcome = Outcome{Ended: true}
	m.Check()
	var missing []int
	for _, r := range m.Ranks {
		if r.Status == RankMissing {
			missing = append(missing, r.Rank)
		}
	}
	if !slices.Equal(missing, []int{0, 2}) || m.Complete() {
		t.Errorf("missing ranks are %v, complete %v", missing, m.Complete())
	}
	if got := codes(m.Warnings); !slices.Contains(got, "rank_missing") || !slices.Contains(got, "rank_cut") {
		t.Errorf("warnings: %v", got)
	}
	for _, a := range m.Accounts() {
		if !slices.Equal(a.Ranks, []int{1}) || a.Device != 0 {
			t.Errorf("an account of ranks %v on device %d", a.Ranks, a.Device)
		}
	}
}

// Nobody says how many ranks there are but the command.
func TestExpectedRanks(t *testing.T) {
	m := Merge(Program, nil, 2)
	if len(m.Ranks) != 2 || m.Ranks[0].Status != RankMissing {
		t.Errorf("the ranks are %+v", m.Ranks)
	}
	if m := Merge(Program, []*Stream{stream(t)}, 1); len(m.Ranks) != 1 {
		t.Errorf("one process got ranks: %+v", m.Ranks)
	}
}

// A process that goes on as another program did not fail.
func TestExec(t *testing.T) {
	a, b := stream(t, forward), stream(t, forward, `{"v":1,"type":"exit","mono_ns":9000}`)
	b.Began = a.Began + 500
	m := Merge(Program, []*Stream{b, a}, 0)
	m.Outcome = Outcome{Ended: true}
	if m.Ranks[0].Status != RankReplaced || m.Ranks[1].Status != RankEnded || !m.Complete() {
		t.Errorf("the processes are %+v", m.Ranks)
	}
}

func TestContradictions(t *testing.T) {
	checklist.Covers(t, 55, 77)
	for _, c := range []struct{ name, old, new, want string }{
		{"as it should be", "", "", ""},
		{"more allocated than reserved", `"end":{"allocated_bytes":50,"reserved_bytes":900}`, `"end":{"allocated_bytes":650,"reserved_bytes":600}`, "reserved_below_allocated"},
		{"a peak below the start", `"start":{"allocated_bytes":100,"reserved_bytes":200}`, `"start":{"allocated_bytes":100,"reserved_bytes":901}`, "peak_below_level"},
		{"a peak below the end", `"peak":{"allocated_bytes":700`, `"peak":{"allocated_bytes":49`, "peak_below_level"},
	} {
		m := Merge(Program, []*Stream{stream(t, strings.Replace(forward, c.old, c.new, 1), `{"v":1,"type":"exit","mono_ns":9000}`)}, 0)
		m.Check()
		got := strings.Join(codes(m.Warnings), " ")
		if c.want == "" && got != "not_recorded" || !strings.Contains(got, c.want) {
			t.Errorf("%s: warnings %q, want %q", c.name, got, c.want)
		}
	}
}

// The lab says of itself that it is no evidence; a series that found memory in
// use did not start cold.
func TestLab(t *testing.T) {
	checklist.Covers(t, 94, 100, 101, 110, 136)
	lab := `{"v":1,"type":"lab","mono_ns":1500,"device":"cuda:0","batch":2,"context":128,"width":1024,"dtype":"float32","warmup":0,"repeats":5,"train":false,"empty_cache_between_repeats":false,"process":"one"}`
	m := Merge(Lab, []*Stream{stream(t, lab, forward, `{"v":1,"type":"exit","mono_ns":9000}`)}, 0)
	m.Check()
	if p := m.Policy; p.Warmup == nil || *p.Warmup != 0 || *p.Repeats != 5 || *p.EmptyCache || p.RepeatKind != "in_process" || p.Order != 1 || !p.Instrumented {
		t.Errorf("the policy is %+v", p)
	}
	if got := codes(m.Warnings); !slices.Equal(got, []string{"not_cold"}) {
		t.Errorf("warnings: %v", got)
	}
	if in := m.Phases[0].Input; in.Configured["context"] != 128 || in.Observed["context"] != 0 {
		t.Errorf("the input is %+v", in)
	}
	if a := m.Accounts()[0]; a.Subject != account.SubjectLab {
		t.Errorf("the account is about %q", a.Subject)
	}
}

// Under cudaMallocAsync the reserved peak is an upper bound; what the levels
// show is the lower one.
func TestUpperBoundUnderAsync(t *testing.T) {
	checklist.Covers(t, 71, 72, 73)
	device := `{"v":1,"type":"device","mono_ns":1200,"device":1,"name":"A card","allocator":{"backend":"cudaMallocAsync","settings":{},"peak_reserved":"upper_bound"}}`
	low := strings.Replace(forward, `"end":{"allocated_bytes":50,"reserved_bytes":900}`, `"end":{"allocated_bytes":50,"reserved_bytes":300}`, 1)
	m := Merge(Program, []*Stream{stream(t, device, low)}, 0)
	f := m.Accounts()[0].Phases[0].Peak(account.Reserved).Figure
	high, known := f.High()
	if f.Low() != 700 || high != 900 || !known || f.Counter != "max_memory_reserved" || m.Environment.Allocator != "cudaMallocAsync" {
		t.Errorf("the peak is %+v", f)
	}
}

// The two peaks are two moments: no figure is their difference.
func TestPeaksAreNotSubtracted(t *testing.T) {
	checklist.Covers(t, 64, 65, 66, 80, 81)
	const gib = 1 << 30
	number := func(n int64) *int64 { return &n }
	p := Phase{Status: Completed, Device: 0, Start: Counters{Allocated: number(8 * gib), Reserved: number(10 * gib)},
		Peak: Counters{Allocated: number(8 * gib), Reserved: number(12 * gib)}, End: Counters{Allocated: number(6 * gib), Reserved: number(12 * gib)}}
	m := &Measurement{Ranks: []Rank{{Rank: -1}}, Phases: []Phase{p}}
	a := m.Accounts()[0]
	phase := a.Phases[0]
	gap := func(l account.Levels) int64 {
		n, _ := l.Reserved.Minus(l.Allocated, account.Provenance{}).IsExact()
		return n
	}
	if gap(phase.Start) != 2*gib || gap(phase.End) != 6*gib {
		t.Errorf("the gaps are %d and %d", gap(phase.Start), gap(phase.End))
	}
	for _, peak := range phase.Peaks {
		if n, _ := peak.Figure.IsExact(); n == 4*gib {
			t.Errorf("4 GiB is printed as %s", peak.Figure.Scope)
		}
	}
}

// Samples can miss a peak, so they are lower bounds.
func TestSamplesAreLowerBounds(t *testing.T) {
	n := int64(5000)
	p := Phase{Status: Completed, Sampled: Sampled{Process: &n}}
	for _, f := range p.Peaks() {
		if f.Scope == account.Process && (f.Known() || f.Low() != n) {
			t.Errorf("a sampled peak is %+v", f)
		}
	}
}

// Where a backward pass ran and no update did, the states of the optimizer were
// not seen.
func TestOptimizerStatesNotObserved(t *testing.T) {
	checklist.Covers(t, 36)
	backward := strings.Replace(forward, `"name":"forward"`, `"name":"backward"`, 1)
	update := strings.Replace(forward, `"name":"forward"`, `"name":"optimizer_step"`, 1)
	for _, c := range []struct {
		lines []string
		want  bool
	}{{[]string{forward}, false}, {[]string{backward}, true}, {[]string{backward, update}, false}} {
		m := Merge(Program, []*Stream{stream(t, c.lines...)}, 0)
		m.Check()
		if got := slices.Contains(codes(m.Warnings), "optimizer_states_not_observed"); got != c.want {
			t.Errorf("%d lines: warned %v", len(c.lines), got)
		}
	}
}

// A program that ran on the CPU has phases, and no figure of any device.
func TestCPUIsNoDevice(t *testing.T) {
	checklist.Covers(t, 115)
	cpu := `{"v":1,"type":"end","mono_ns":5000,"id":1,"name":"forward","step":1,"seen":"hooked","readings":"none","readings_reason":"no_context","devices":[],"status":"ok","duration_ns":3000}`
	m := Merge(Program, []*Stream{stream(t, cpu)}, 0)
	m.Check()
	if got := codes(m.Warnings); !slices.Contains(got, "no_device") || len(m.Accounts()) != 0 {
		t.Errorf("warnings %v, %d accounts", got, len(m.Accounts()))
	}
}

// A level that was read while nothing ran is no peak: a phase whose peak was not
// read has a lower bound, and no figure.
func TestAnIdleLevelIsNoPeak(t *testing.T) {
	checklist.Covers(t, 169)
	idle := int64(7 << 30)
	p := Phase{Start: Counters{Allocated: &idle, Reserved: &idle}, End: Counters{Allocated: &idle, Reserved: &idle}, Status: Completed}
	for _, peak := range p.Peaks() {
		if _, exact := peak.IsExact(); exact {
			t.Errorf("%s: %v is taken for a peak", peak.Scope, peak)
		}
		if _, bounded := peak.High(); bounded {
			t.Errorf("%s: %v has a high", peak.Scope, peak)
		}
	}
}
