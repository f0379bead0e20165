package measurement

import (
	"testing"

	"floodmark/account"
)

// passes are passes of one phase with their tokens and levels.
func passes(tokens []int64, start, peak func(i int, longest int64) int64) *Measurement {
	m := &Measurement{}
	longest := int64(0)
	for i, n := range tokens {
		longest = max(longest, n)
		a, b, r := start(i, longest), peak(i, longest), peak(i, longest)
		m.Phases = append(m.Phases, Phase{Name: "forward", Status: Completed, Shapes: []Shape{{Name: "input_ids", Shape: []int64{1, n}}},
			Start: Counters{Allocated: &a}, Peak: Counters{Allocated: &b, Reserved: &r}})
	}
	return m
}

// The published case: logits of 4 × 180 tokens of a vocabulary of 128,256 in 32 bits
// are kept of every batch, 369,377,280 bytes. They are found by their bytes.
func TestKeptLogits(t *testing.T) {
	m := passes([]int64{720, 720, 720, 720, 720}, func(i int, _ int64) int64 { return 9<<30 + int64(i)*369_377_280 },
		func(i int, _ int64) int64 { return 10<<30 + int64(i)*369_377_280 })
	trends := m.Trends()
	if len(trends) != 1 || trends[0].Kind != Kept || int64(trends[0].Slope) != 369_377_280 || trends[0].Fit < 0.999999 {
		t.Fatalf("%+v", trends)
	}
	if n, whole := trends[0].Row(4); !whole || n != 128_256 {
		t.Errorf("%d numbers a token", n)
	}
}

// Batches of unlike lengths keep by the token.
func TestKeptByTheToken(t *testing.T) {
	lengths := []int64{100, 300, 200, 700, 50}
	before := []int64{0, 100, 400, 600, 1300}
	m := passes(lengths, func(i int, _ int64) int64 { return 1<<30 + before[i]*513_024 }, func(i int, _ int64) int64 { return 4 << 30 })
	trends := m.Trends()
	if len(trends) != 1 || !trends[0].PerToken {
		t.Fatalf("%+v", trends)
	}
	if n, whole := trends[0].Row(4); !whole || n != 128_256 {
		t.Errorf("%d numbers a token", n)
	}
}

// A peak that follows the tokens of its pass, and what is reserved that follows the
// longest so far, are no leak: nothing is kept. The pass that failed was longer.
func TestLongestInput(t *testing.T) {
	lengths := []int64{400, 5012, 800, 2300, 410}
	m := passes(lengths, func(int, int64) int64 { return 1 << 30 }, func(i int, _ int64) int64 { return 2<<30 + lengths[i]*3_000_000 })
	longest := int64(0)
	for i := range m.Phases {
		longest = max(longest, lengths[i])
		reserved := 3<<30 + longest*3_000_000
		m.Phases[i].Peak.Reserved = &reserved
	}
	m.Phases = append(m.Phases, Phase{Name: "forward", Status: Failed, Shapes: []Shape{{Name: "input_ids", Shape: []int64{1, 8618}}}})
	trends := m.Trends()
	if len(trends) != 2 || trends[0].Kind != FollowsInput || trends[0].Scope != account.Allocated || trends[1].Kind != FollowsLongest || trends[1].Scope != account.Reserved {
		t.Fatalf("%+v", trends)
	}
	if trends[0].Failed != 8618 || trends[0].Longest != 5012 || int64(trends[0].Slope+0.5) != 3_000_000 {
		t.Errorf("%+v", trends[0])
	}
}

// Equal passes, states that are born once, and fewer than four passes are no line.
func TestNoTrend(t *testing.T) {
	flat := func(int, int64) int64 { return 1 << 30 }
	jump := func(i int, _ int64) int64 { return 1<<30 + int64(min(i, 1))<<30 }
	rise := func(i int, _ int64) int64 { return int64(i) << 30 }
	for name, m := range map[string]*Measurement{
		"equal":  passes([]int64{5, 5, 5, 5, 5}, flat, flat),
		"states": passes([]int64{5, 5, 5, 5, 5}, jump, jump),
		"few":    passes([]int64{5, 5, 5}, rise, rise),
		"none":   passes(nil, flat, flat),
	} {
		if trends := m.Trends(); len(trends) > 0 {
			t.Errorf("%s: %+v", name, trends)
		}
	}
}

// Shapes come from files that somebody sent: absurd ones are no tokens.
func TestAbsurdShapes(t *testing.T) {
	for _, shape := range [][]int64{{1 << 31, 1 << 31}, {1<<31 - 1, 1<<31 - 1}, {-1, 5}, {}, {0, 7}} {
		m := passes([]int64{1, 1, 1, 1, 1}, func(i int, _ int64) int64 { return int64(i) << 40 }, func(int, int64) int64 { return 1 << 50 })
		for i := range m.Phases {
			m.Phases[i].Shapes[0].Shape = shape
		}
		for _, trend := range m.Trends() {
			if n, whole := trend.Row(4); whole {
				t.Errorf("%v keeps %d numbers a token", shape, n)
			}
		}
	}
}
