package fit

import (
	"strings"
	"testing"

	"floodmark/account"
)

// hostAccount is an account of some ranks that put so much into main memory.
func hostAccount(ranks []int, prefill, decode account.Figure) account.Account {
	return account.Account{Ranks: ranks, Phases: []account.Phase{
		{ID: account.PhasePrefill, Peaks: []account.Peak{{Figure: prefill}}},
		{ID: account.PhaseDecode, Peaks: []account.Peak{{Figure: decode}}},
	}}
}

// Ranks of one machine share its main memory: they are added up, phase by phase,
// and never maxima of different phases.
func TestDecideHost(t *testing.T) {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Host}
	exact := func(n int64) account.Figure { return account.Exact(n*gib, p) }
	have := func(n int64) account.Figure { return exact(n) }
	for _, c := range []struct {
		name     string
		accounts []account.Account
		capacity account.Figure
		want     Value
		phase    account.PhaseID
		because  string
	}{
		{"within", []account.Account{hostAccount([]int{0}, exact(10), exact(20))}, have(20), Fits, account.PhaseDecode, ""},
		{"ranks add up", []account.Account{hostAccount([]int{0, 1}, exact(10), exact(20))}, have(39), DoesNotFit, account.PhaseDecode, "at least 40 GiB"},
		{"so do classes of ranks", []account.Account{hostAccount([]int{0}, exact(10), exact(20)), hostAccount([]int{1}, exact(30), exact(1))}, have(40), Fits, account.PhasePrefill, ""},
		{"an interval across the capacity", []account.Account{hostAccount([]int{0}, exact(1), account.Between(gib, 9*gib, p))}, have(5), CannotTell, account.PhaseDecode, "up to 9 GiB"},
		{"unknown", []account.Account{hostAccount([]int{0}, exact(1), account.AtLeast(gib, "why", p))}, have(5), CannotTell, account.PhaseDecode, "why"},
		{"no capacity", []account.Account{hostAccount([]int{0}, exact(1), exact(1))}, account.Unknown("nobody said", p), CannotTell, account.PhasePrefill, "nobody said"},
	} {
		got, has := DecideHost(Calculated, c.accounts, c.capacity, account.TermKVCache)
		if !has || got.Value != c.want || got.Phase != c.phase || got.Term != account.TermKVCache || !strings.Contains(strings.Join(got.Reasons, " "), c.because) {
			t.Errorf("%s: %+v, want %s in %s because %q", c.name, got, c.want, c.phase, c.because)
		}
	}
	device := account.Exact(gib, account.Provenance{Scope: account.Process})
	if _, has := DecideHost(Calculated, []account.Account{hostAccount([]int{0}, device, device)}, have(1), account.TermKVCache); has {
		t.Error("bytes of a device were taken for main memory")
	}
}
