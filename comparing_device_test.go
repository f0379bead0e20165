package floodmark

import (
	"strings"
	"testing"

	"floodmark/record"
)

func compareFiles(t *testing.T, a, b string) *record.Comparison {
	t.Helper()
	c, err := Compare(readSnapshot(t, a), readSnapshot(t, b), [2]string{a, b}, CompareOptions{}, record.Tool{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Rows, and categories, sum to the difference of the totals; no two rows read
// alike; and a sentence says the largest difference first.
func TestCompareSnapshots(t *testing.T) {
	c := compareFiles(t, "assignment2-silmont.pickle", "assignment2-magma.pickle")
	places, sum, categories := map[string]bool{}, int64(0), int64(0)
	for _, r := range append(c.Rows, c.Residual...) {
		if r.Term == "stack" && places[r.Where] {
			t.Errorf("two rows read %q", r.Where)
		}
		places[r.Where] = true
		sum += *r.DifferenceBytes
	}
	d := c.Devices[0]
	for _, r := range d.Categories {
		categories += *r.DifferenceBytes
	}
	if want := *c.Totals[0].DifferenceBytes; sum != want || categories != want {
		t.Errorf("rows sum to %d and categories to %d, want %d", sum, categories, want)
	}
	if d.Equal || *d.APhase != "backward" || *d.BPhase != "loss" {
		t.Errorf("the device is %+v", d)
	}
	if want := "b's peak of 12.97 GiB (in the loss) is 9.94 GiB higher than a's peak of 3.03 GiB (in a backward): 10.58 GiB more is activations because "; !strings.HasPrefix(d.Summary, want) {
		t.Errorf("the summary is %q, want %q", d.Summary, want)
	}
}

// A snapshot beside itself differs in nothing.
func TestCompareEqualSnapshots(t *testing.T) {
	c := compareFiles(t, "assignment2-silmont.pickle", "assignment2-silmont.pickle")
	if d := c.Devices[0]; !d.Equal || len(c.Rows) != 0 || d.Summary != "The peaks are equal, stack by stack: 3.03 GiB (in a backward)." {
		t.Errorf("%d rows; %+v", len(c.Rows), d)
	}
}

// Without segments levels count from the first entry: what is compared is a
// lower bound, and said to be.
func TestCompareSnapshotsWithoutSegments(t *testing.T) {
	e := readSnapshot(t, "assignment2-silmont.pickle")
	p := e.peakOf("b", 0)
	if p.known = false; p.word() != "lower bound of the peak" || len(p.doubts()) != 1 || p.doubts()[0].Code != "no_segments" {
		t.Errorf("%s; %v", p.word(), p.doubts())
	}
}

// Files whose peaks nobody knows are compared, and are said to be such; a device
// that one side lacks is named.
func TestCompareDoubtfulSnapshots(t *testing.T) {
	c := compareFiles(t, "mosaic.pickle", "attention.pickle")
	var codes []string
	for _, w := range c.Warnings {
		codes = append(codes, w.Code+": "+w.Text)
	}
	got := strings.Join(codes, "\n")
	for _, want := range []string{"contradictory: a, cuda:0", "no_history: b, cuda:0", "device_missing: cuda:1 is in b alone, "} {
		if !strings.Contains(got, want) {
			t.Errorf("warnings lack %q:\n%s", want, got)
		}
	}
	if s := c.Devices[0].Summary; !strings.Contains(s, "b's level at the dump of ") || !strings.Contains(s, "a's uncertain level of ") {
		t.Error(s)
	}
}
