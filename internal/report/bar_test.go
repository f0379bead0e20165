package report

import (
	"strings"
	"testing"

	"floodmark/internal/checklist"
	"floodmark/record"
)

func between(low, high int64) quantity { return quantity{low: &low, high: &high} }
func exactly(n int64) quantity         { return quantity{exact: &n} }
func atLeast(n int64) quantity         { return quantity{low: &n} }

// What is within the capacity never crosses its line, and what is beyond it
// always does, however little it is.
func TestDraw(t *testing.T) {
	for _, c := range []struct {
		name      string
		need, has quantity
		scale     int64
		want      string
	}{
		{"half of a card", exactly(50), exactly(100), 100, "█████████         │ "},
		{"a need that fills its card to the byte", exactly(100), exactly(100), 100, "██████████████████│ "},
		{"one byte more", exactly(101), exactly(100), 101, "██████████████████│█"},
		{"an interval", between(25, 75), exactly(100), 100, "█████▒▒▒▒▒▒▒▒▒    │ "},
		{"an interval across the line", between(50, 110), exactly(100), 200, "█████▒▒▒▒▒│▒        "},
		{"nobody can say how much more", atLeast(50), exactly(100), 100, "█████████?        │ "},
		{"unknown beyond the line", atLeast(150), exactly(100), 200, "██████████│█████?   "},
		{"beyond the scale", exactly(1000), exactly(100), 300, "██████│████████████›"},
		{"no card", between(50, 100), quantity{}, 100, "██████████▒▒▒▒▒▒▒▒▒▒"},
		{"nothing known", quantity{}, exactly(100), 100, "?                 │ "},
	} {
		if got := draw(c.need, c.has, c.scale, 20); got != c.want {
			t.Errorf("%s:\n%q, want\n%q", c.name, got, c.want)
		}
	}
}

// Each class of ranks has a bar on one scale with its phase; however many there
// are, the limiting one is shown. Cards are never added up.
func TestRankBars(t *testing.T) {
	checklist.Covers(t, 155, 156)
	gib := int64(1) << 30
	e := &record.Estimate{Verdict: &record.Verdict{Value: "does_not_fit", Rank: 30}}
	for i := range 40 {
		low, has := gib*int64(10+i%3), 80*gib
		e.Ranks = append(e.Ranks, record.Rank{Rank: i, Ranks: []int{i}, Device: &record.Device{UsableBytes: &has},
			Peak: &record.RankPeak{Phase: "decode", Bytes: &low}})
	}
	for _, width := range []int{30, 80, 120} {
		var b strings.Builder
		rankBars(&b, e, Style{Width: width})
		text := b.String()
		for line := range strings.Lines(text) {
			if w := Columns(strings.TrimRight(line, "\n")); w > width {
				t.Errorf("%d columns: a line of %d: %q", width, w, line)
			}
		}
		if !strings.Contains(text, "rank 30") || !strings.Contains(text, "27 more") || !strings.Contains(text, "decode") {
			t.Errorf("%d columns: %s", width, text)
		}
		if strings.Contains(text, barLine) != (width >= 80) {
			t.Errorf("%d columns: a capacity line is shown: %v", width, width < 80)
		}
	}
}

// Main memory has a unit and a scale of its own, so that a rank's bar stays readable
// beside it.
func TestMainMemoryHasItsOwnScale(t *testing.T) {
	gib := func(n int64) *int64 { n <<= 30; return &n }
	e := record.Estimate{Ranks: []record.Rank{{Ranks: []int{0}, Peak: &record.RankPeak{Bytes: gib(20), Phase: "backward"},
		Device: &record.Device{UsableBytes: gib(24)}}}, Host: &record.Host{Bytes: gib(1024), Phase: "save"}}
	var b strings.Builder
	rankBars(&b, &e, Style{Width: 100})
	for _, want := range []string{"rank, GiB", "20.00  24.00  backward", "host, TiB", "1.00    —  save"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in:\n%s", want, b.String())
		}
	}
	if !strings.Contains(b.String(), strings.Repeat(barLow, 30)) {
		t.Errorf("the rank's bar is short:\n%s", b.String())
	}
}
