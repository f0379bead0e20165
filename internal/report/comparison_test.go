package report

import (
	"strings"
	"testing"

	"floodmark/record"
)

// compared is two snapshots that differ in one place, and in 2 MiB elsewhere.
func compared() *record.Comparison {
	row := func(term, where string, a, b int64) record.ComparisonRow {
		return record.ComparisonRow{Term: term, Where: where, Scope: "requested", Device: pointer(0), ABytes: pointer(a), BBytes: pointer(b),
			DifferenceBytes: pointer(b - a), ACount: pointer(1200), BCount: pointer(1)}
	}
	return &record.Comparison{A: "one.pickle", B: "two.pickle",
		Devices: []record.ComparedDevice{{Summary: "b's peak is higher.", Categories: []record.ComparisonRow{row("activation", "", 1<<30, 3<<30), row("buffer", "", 2<<20, 0)}}},
		Rows: []record.ComparisonRow{
			row("stack", "exp ← softmax (project/nn_utils.py:6)", 1<<30, 3<<30), row("stack", "div", 1<<20, 0), row("stack", "", 1<<20, 0),
		},
		Residual: []record.ComparisonRow{row("all other stacks", "", 5<<30, 5<<30)},
		Totals:   []record.ComparisonRow{row("peak", "", 6<<30+2<<20, 8<<30)},
	}
}

// What would read 0.00, with a sign or without, stands in one row with the rest.
func TestComparisonText(t *testing.T) {
	var b strings.Builder
	if err := Text(&b, compared(), Style{Width: 100}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{
		"cuda:0 · requested bytes\nb's peak is higher.\n",
		"+2.00  1.00  3.00  1,200 → 1  activation\n",
		"+2.00  1.00  3.00  1,200 → 1  exp ← softmax (project/nn_utils.py:6)\n",
		" 0.00  5.00  5.00  3,600 → 3  all others\n",
		"total\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if strings.Contains(text, "-0.00") || strings.Contains(text, "div") || strings.Count(text, "all others") != 1 || t.Failed() {
		t.Error(text)
	}
}

// Equal sides are one sentence.
func TestComparisonTextOfEqualSides(t *testing.T) {
	d := compared()
	d.Devices[0].Equal, d.Devices[0].Summary = true, "The peaks are equal, stack by stack: 1.00 GiB."
	var b strings.Builder
	if err := Text(&b, d, Style{Width: 100}); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.HasSuffix(text, "The peaks are equal, stack by stack: 1.00 GiB.\n") {
		t.Error(text)
	}
}
