package floodmark

import (
	"testing"

	"floodmark/internal/checklist"
	"floodmark/record"
)

// The golden numbers of an even division: the unit of the budget decides.
func TestSolvePartitions(t *testing.T) {
	checklist.Covers(t, 202, 203, 204, 205)
	for _, c := range []struct {
		layout string
		budget int64
		want   int64
		each   int64
	}{
		{"2+2+4+4+4", 64_000_000_000, 18, 62_755_555_556},
		{"bf16-params-bf16-grads-fp32-master-fp32-moments", 64_000_000_000, 18, 62_755_555_556},
		{"2+2+4+4+4", 64 << 30, 17, 66_447_058_824},
		{"2+2+4+4+4", 1_129_600_000_000, 1, 1_129_600_000_000},
		{"4+4+0+4+4", 64_000_000_000, 18, 62_755_555_556},
		{"2+2+0+0+0", 64_000_000_000, 5, 56_480_000_000},
	} {
		p, err := SolvePartitions(70_600_000_000, nil, c.layout, c.budget)
		if err != nil {
			t.Fatal(err)
		}
		d := p.Record(record.Tool{}).(*record.Solve)
		s := d.Solution
		if *s.Value != c.want || s.Partitions.EachBytes != c.each {
			t.Errorf("%s with %d: %d parts of %d bytes, want %d of %d", c.layout, c.budget, *s.Value, s.Partitions.EachBytes, c.want, c.each)
		}
		if len(s.Partitions.NotIncluded) < 5 || s.Partitions.Label == "" || d.Verdict != nil {
			t.Errorf("the answer does not say what it leaves out, or judges: %+v", s.Partitions)
		}
	}
}

func TestSolvePartitionsRefuses(t *testing.T) {
	for _, c := range []struct {
		parameters int64
		layout     string
		budget     int64
	}{
		{0, "2+2+4+4+4", 1}, {1, "2+2+4+4+4", 0}, {1, "2+2", 1}, {1, "2+2+4+4+9", 1}, {1, "", 1}, {1, "mixed", 1}, {1 << 62, "2+2+4+4+4", 1},
		{1, "2+2+4+4+-4", 1}, {1, "+++++", 1},
	} {
		if p, err := SolvePartitions(c.parameters, nil, c.layout, c.budget); err == nil {
			t.Errorf("%+v gives %+v", c, p)
		}
	}
}
