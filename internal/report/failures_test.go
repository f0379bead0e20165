package report

import (
	"strings"
	"testing"

	"floodmark/bytesize"
	"floodmark/record"
)

// A need that is copied from a table is enough, in every unit.
func TestNeedsAreRoundedUp(t *testing.T) {
	for _, n := range []int64{1, 999, 24_528_289_792, 24_528_289_793, 767_557_632, 1 << 40, 1<<62 - 1} {
		for u := bytesize.B; u <= bytesize.PiB; u++ {
			shown, whole, _ := strings.Cut(need(&n, u), " (")
			back, err := bytesize.Parse(strings.ReplaceAll(shown, ",", "") + u.String())
			if err != nil || back < n || back-n > u.Bytes()/100+1 {
				t.Errorf("%d in %s is shown as %q, which is %d, %v", n, u, shown, back, err)
			}
			if u != bytesize.B && whole != bytesize.Group(n)+" B)" {
				t.Errorf("%d in %s has %q beside it", n, u, whole)
			}
		}
	}
	if got := need(nil, bytesize.GiB); got != unknown {
		t.Errorf("none is %q", got)
	}
}

// A note that is true of one row stands with it, and one that is true of all of
// them stands once.
func TestNotesStandWithTheirRow(t *testing.T) {
	all, own := record.Warning{Text: "simulated"}, record.Warning{Text: "served"}
	list := []record.WhatIf{{Recorded: true}, {Warnings: []record.Warning{all}}, {Settings: "expandable_segments:True", Warnings: []record.Warning{all, own}}}
	var b strings.Builder
	notes(&b, list, Style{Width: 80})
	if want := "note: simulated\nnote on expandable_segments:True: served\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

// Many failures are shown by the first of them.
func TestFailuresAreShown(t *testing.T) {
	f := record.SnapshotFailure{Event: 1234, Class: "fragmentation_plausible", Because: "so it is", Phase: pointer("optimizer_step"),
		Composition: []record.Share{{Category: "other", Bytes: pointer(int64(0))}, {Category: "kv_cache", Bytes: pointer(int64(1 << 20))}}}
	var b strings.Builder
	failures(&b, []record.SnapshotFailure{f, f, f, f, f}, Style{Width: 120})
	for _, want := range []string{"out of memory at event 1,234, in optimizer step (fragmentation plausible): so it is\n",
		"  allocated then: 1.00 MiB kv cache\n", "asked for by: no stack was recorded\n", "and 2 more: --json has them\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
