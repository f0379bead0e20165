package compare

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestGroups(t *testing.T) {
	a := []Group{{"weights", 100, 1}, {"logits", 40, 2}, {"cache", 7, 1}}
	b := []Group{{"weights", 100, 1}, {"logits", 10, 1}, {"gradients", 100, 3}}
	rows, residual := Groups(a, b, 2)
	if len(rows) != 2 || rows[0].Key != "gradients" || rows[0].Difference() != 100 || rows[1].Key != "logits" || rows[1].Difference() != -30 {
		t.Errorf("rows are %+v", rows)
	}
	// What did not change and what is small stand together in the residual.
	if residual.A != 107 || residual.B != 100 || residual.CountA != 2 {
		t.Errorf("the residual is %+v", residual)
	}
	if rows, residual := Groups(nil, nil, 5); len(rows) != 0 || residual != (Row{}) {
		t.Errorf("nothing beside nothing gives %+v, %+v", rows, residual)
	}
}

// Rows and residual sum to both totals, whatever is cut off.
func TestGroupsSum(t *testing.T) {
	side := rapid.Custom(func(t *rapid.T) []Group {
		var list []Group
		for i := range rapid.IntRange(0, 12).Draw(t, "groups") {
			list = append(list, Group{fmt.Sprint(i * rapid.IntRange(1, 3).Draw(t, "step")), rapid.Int64Range(0, 1000).Draw(t, "bytes"), 1})
		}
		return list
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := side.Draw(t, "a"), side.Draw(t, "b")
		rows, sum := Groups(a, b, rapid.IntRange(0, 10).Draw(t, "most"))
		for _, r := range rows {
			sum.A, sum.B = sum.A+r.A, sum.B+r.B
		}
		for _, g := range a {
			sum.A -= g.Bytes
		}
		for _, g := range b {
			sum.B -= g.Bytes
		}
		if sum.A != 0 || sum.B != 0 {
			t.Fatalf("rows and residual are off by %d and %d", sum.A, sum.B)
		}
	})
}
