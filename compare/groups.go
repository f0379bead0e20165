package compare

import (
	"cmp"

	"floodmark/internal/sorting"
)

// Group is an amount under a name: the bytes of one stack, say.
type Group struct {
	Key   string
	Bytes int64
	Count int
}

// Row is one name on both sides.
type Row struct {
	Key            string
	A, B           int64 // bytes
	CountA, CountB int
}

// Difference is B − A.
func (r Row) Difference() int64 { return r.B - r.A }

// Groups compares two whole counts of like scope, name by name. It returns the
// most rows with the largest differences, and a residual that holds all the
// others, so that the differences sum to that of the totals. Keys are unique
// within a side.
func Groups(a, b []Group, most int) (rows []Row, residual Row) {
	byKey := map[string]int{}
	row := func(key string) *Row {
		i, seen := byKey[key]
		if !seen {
			i = len(rows)
			byKey[key] = i
			rows = append(rows, Row{Key: key})
		}
		return &rows[i]
	}
	for _, g := range a {
		r := row(g.Key)
		r.A, r.CountA = r.A+g.Bytes, r.CountA+g.Count
	}
	for _, g := range b {
		r := row(g.Key)
		r.B, r.CountB = r.B+g.Bytes, r.CountB+g.Count
	}
	sorting.By(rows, func(i, j int) int {
		x, y := rows[i], rows[j]
		return cmp.Or(cmp.Compare(magnitude(y), magnitude(x)), cmp.Compare(max(y.A, y.B), max(x.A, x.B)), cmp.Compare(x.Key, y.Key))
	})
	for len(rows) > 0 && (len(rows) > most || rows[len(rows)-1].Difference() == 0) {
		last := rows[len(rows)-1]
		rows = rows[:len(rows)-1]
		residual.A, residual.B = residual.A+last.A, residual.B+last.B
		residual.CountA, residual.CountB = residual.CountA+last.CountA, residual.CountB+last.CountB
	}
	return rows, residual
}

func magnitude(r Row) int64 { return magnitudeOf(r.Difference()) }
