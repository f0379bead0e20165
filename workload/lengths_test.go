package workload

import (
	"slices"
	"strings"
	"testing"
)

// Lengths stand for all that are met: those of a list, cut to the context or left
// out, or quantiles of a distribution between its ends.
func TestLengthClasses(t *testing.T) {
	skewed := Lengths{Mean: 3234, Deviation: 2547, Shortest: 91, Longest: 19548}
	drops := skewed
	drops.Drops = true
	for _, c := range []struct {
		l       Lengths
		n       int
		context int64
		want    []int64
		met     int64
	}{
		{Lengths{Of: []int64{300, 100, 200}}, 8, 250, []int64{100, 200, 250}, DefaultSequences},
		{Lengths{Of: []int64{300, 100, 200}, Drops: true, Sequences: 300}, 8, 250, []int64{100, 200}, 200},
		{Lengths{Of: []int64{1, 2, 3, 4, 5, 6}}, 3, 100, []int64{2, 4, 6}, DefaultSequences},
		{Lengths{Of: []int64{300}, Drops: true}, 3, 100, nil, 0},
		{skewed, 4, 20000, []int64{1142, 2034, 3164, 5622}, DefaultSequences},
		{skewed, 4, 2048, []int64{1142, 2034, 2048, 2048}, DefaultSequences},
		{drops, 4, 2048, []int64{795, 1206, 1543, 1875}, 379},
		{drops, 4, 90, nil, 0},
		{Lengths{Shortest: 100, Longest: 900}, 4, 600, []int64{200, 400, 600, 600}, DefaultSequences},
		{Lengths{Shortest: 100, Longest: 900, Drops: true}, 5, 600, []int64{150, 250, 350, 450, 550}, 625},
	} {
		if err := c.l.Check(); err != nil {
			t.Fatal(err)
		}
		if got := c.l.Classes(c.n, c.context); !slices.Equal(got, c.want) || c.l.Met(c.context) != c.met {
			t.Errorf("%+v within %d are %v, %d met; want %v and %d", c.l, c.context, got, c.l.Met(c.context), c.want, c.met)
		}
	}
}

// Lengths that contradict themselves are refused where they stand.
func TestLengthsThatContradict(t *testing.T) {
	for text, want := range map[string]string{
		"{of: [512], mean: 3}":                                        "are a list, beside which",
		"{of: [512, 0]}":                                              "have one of 0 positions",
		"{mean: 100, deviation: 10}":                                  "have the shortest 0",
		"{shortest: 10, longest: 9}":                                  "have the shortest 10",
		"{mean: 100, deviation: 10, shortest: 101, longest: 200}":     "have the shortest 101",
		"{mean: 100, shortest: 1, longest: 200}":                      "have the deviation 0",
		"{of: [512], sequences: 1000000}":                             "have 1000000 sequences",
		"{of: [512], longer: pad}":                                    `is "pad", expected one of cut, drop`,
		"{mean: 1, deviation: 1, shortest: 1, longest: 2, median: 1}": "median",
	} {
		_, err := read("operation: training\ntraining:\n  lengths: " + text + "\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := read("operation: training\ntraining: {packed: true, lengths: {of: [512]}}\n"); err == nil {
		t.Error("lengths of sequences that are packed are taken")
	}
}
