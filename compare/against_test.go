package compare

import (
	"testing"

	"floodmark/account"
)

func TestDifference(t *testing.T) {
	p := account.Provenance{}
	exact := func(n int64) account.Figure { return account.Exact(n, p) }
	for _, c := range []struct {
		name                string
		predicted, observed account.Figure
		certainly           int64
		inside, known       bool
	}{
		{"equal", exact(5), exact(5), 0, true, true},
		{"more", exact(5), exact(8), 3, false, true},
		{"less", exact(5), exact(1), -4, false, true},
		{"a real zero is a number", exact(5), exact(0), -5, false, true},
		{"intervals meet", account.Between(3, 6, p), account.Between(6, 9, p), 0, true, true},
		{"intervals lie apart", account.Between(3, 6, p), account.Between(8, 9, p), 2, false, true},
		{"a lower bound above", account.Between(3, 6, p), account.AtLeast(8, "", p), 2, false, true},
		{"a lower bound below", account.Between(3, 6, p), account.AtLeast(2, "", p), 0, false, false},
		{"never measured", exact(5), account.Unknown("", p), 0, false, false},
		{"never estimated", account.Unknown("", p), exact(5), 0, false, false},
	} {
		d := Pair{"x", c.predicted, c.observed}.Difference()
		inside, known := d.Inside()
		if d.Certainly() != c.certainly || inside != c.inside || known != c.known {
			t.Errorf("%s: %d, %v, %v", c.name, d.Certainly(), inside, known)
		}
	}
}

// The published case: −27.46 and +20.55 make −6.91. Without one of the two nothing
// cancels.
func TestCancel(t *testing.T) {
	pair := func(a, b int64) Pair {
		return Pair{"x", account.Exact(a, account.Provenance{}), account.Exact(b, account.Provenance{})}
	}
	c, hidden := Cancel([]Pair{pair(10369, 7623), pair(1057, 3112)}, pair(11426, 10735))
	if !hidden || c.Over != 2055 || c.Under != -2746 || c.Total.Certainly() != -691 {
		t.Errorf("%+v, %v", c, hidden)
	}
	if _, hidden := Cancel([]Pair{pair(10369, 7623), pair(1057, 1057)}, pair(11426, 8680)); hidden {
		t.Error("one error cancels nothing")
	}
}

func TestAlike(t *testing.T) {
	terms := []Group{{Key: "weights", Bytes: 1000}, {Key: "states", Bytes: 2000}, {Key: "nothing"}}
	for difference, want := range map[int64]string{2000: "states", -1995: "states", 1010: "weights", 1500: "", 0: ""} {
		found := Alike(difference, terms, 100)
		if want == "" && len(found) > 0 || want != "" && (len(found) != 1 || found[0].Key != want) {
			t.Errorf("%d is %v, want %q", difference, found, want)
		}
	}
}
