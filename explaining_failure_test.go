package floodmark

import (
	"testing"

	"floodmark/account"
)

// What lies beside a counter is never less than nothing.
func TestRestOfACounter(t *testing.T) {
	between := func(low, high int64) account.Figure { return account.Between(low, high, account.Provenance{}) }
	for _, c := range []struct {
		name        string
		whole, part account.Figure
		low, high   int64
		known       bool
	}{
		{"apart", between(10, 12), between(3, 4), 6, 9, true},
		{"equal but for rounding", between(10, 12), between(11, 13), 0, 1, true},
		{"a part above its whole", between(10, 12), between(20, 21), 0, 0, false},
		{"a part that was not read", between(10, 12), account.Unknown("not read", account.Provenance{}), 0, 0, false},
	} {
		got := rest(c.whole, c.part)
		if high, known := got.High(); got.Low() != c.low || high != c.high || known != c.known {
			t.Errorf("%s: %d to %d (%v)", c.name, got.Low(), high, known)
		}
	}
}
