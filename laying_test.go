package floodmark

import (
	"context"
	"errors"
	"testing"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/estimate"
	"floodmark/fit"
	"floodmark/replay"
	"floodmark/timeline"
)

// passing is a timeline of which every request, in GiB, is freed before the next, so
// that no block serves the next where they grow, beside 0.25 to 1 GiB outside.
func passing(requests ...int64) *timeline.Timeline {
	process := account.Provenance{Origin: account.Observed, Scope: account.Process}
	tl := &timeline.Timeline{Ranks: []int{0}, Streams: []string{"0"}}
	term := tl.Term(account.TermActivations, account.CategoryActivation, account.Provenance{Origin: account.Calculated, Scope: account.Requested})
	tl.Hold(account.TermContext, account.CategoryContext, 0, 0, account.Between(quarter, 4*quarter, process))
	for _, n := range requests {
		tl.Free(tl.Bear(timeline.Caching, term, n*4*quarter))
	}
	tl.Phases = []timeline.Span{{Phase: account.PhaseForward, Step: 1, Last: len(tl.Events)}}
	return tl
}

const quarter = int64(1) << 28 // of a GiB

// What the allocator caches gives way to the card: a run of 3 and 4 GiB holds 7 where
// there is room, and 4 where there is none. What it holds between is not known where
// what lies outside of it decides, and the process fits all the same.
func TestCacheGivesWay(t *testing.T) {
	for _, c := range []struct {
		name      string
		requests  []int64
		card      int64 // quarters of a GiB
		low, high int64 // reserved, GiB
		want      fit.Value
	}{
		{"room for all", []int64{3, 4}, 32, 7, 7, fit.Fits},
		{"room for one", []int64{3, 4}, 28, 4, 4, fit.Fits},
		{"just room for one", []int64{3, 4}, 20, 4, 4, fit.Fits},
		{"room for all beside the least outside alone", []int64{6, 7}, 55, 7, 13, fit.Fits},
		{"room for one beside the least outside alone", []int64{3, 4}, 18, 4, 4, fit.CannotTell},
		{"no room", []int64{3, 4}, 12, 7, 7, fit.DoesNotFit},
	} {
		t.Run(c.name, func(t *testing.T) {
			tl := passing(c.requests...)
			total := account.Exact(c.card*quarter, account.Provenance{Scope: account.Device})
			laid, err := lay(context.Background(), tl, estimate.Memory{Total: total}, replay.DefaultOptions())
			if err != nil {
				t.Fatal(err)
			}
			a := replay.Account(tl, laid.run, account.Calculated)
			reserved := a.Phases[0].Peak(account.Reserved).Figure
			if high, _ := reserved.High(); reserved.Low() != c.low*4*quarter || high != c.high*4*quarter {
				t.Errorf("reserved %s, want %d to %d GiB", reserved.In(bytesize.GiB), c.low, c.high)
			}
			v := fit.Decide(fit.Calculated, []account.Account{a}, fit.Budgets{fit.EveryRank: {Card: "card", Capacity: total, Others: account.Zero("none", account.Provenance{})}})
			if v.Value != c.want {
				t.Errorf("%s, want %s: %v", v.Value, c.want, v.Reasons)
			}
		})
	}
}

// What is free of a card is all that its cache has, whatever the card has.
func TestCacheGivesWayToWhatIsFree(t *testing.T) {
	tl := passing(3, 4)
	bytes := func(n int64) account.Figure {
		return account.Exact(n*quarter, account.Provenance{Scope: account.Device})
	}
	for name, m := range map[string]estimate.Memory{
		"of a card": {Total: bytes(64), Free: bytes(20)}, "of an unnamed one": {Free: bytes(20)},
	} {
		laid, err := lay(context.Background(), tl, m, replay.DefaultOptions())
		if err != nil || laid.run.Peaks.Reserved.Bytes != 16*quarter {
			t.Errorf("%s: %+v, %v", name, laid, err)
		}
	}
}

// Where what is allocated has room and no run ends, nobody can tell: of what is reserved
// no more than that is certain.
func TestBlocksThatLieBadly(t *testing.T) {
	process := account.Provenance{Origin: account.Observed, Scope: account.Process}
	tl := &timeline.Timeline{Ranks: []int{0}, Streams: []string{"0"}}
	term := tl.Term(account.TermActivations, account.CategoryActivation, account.Provenance{Origin: account.Calculated, Scope: account.Requested})
	tl.Hold(account.TermContext, account.CategoryContext, 0, 0, account.Between(quarter, 2*quarter, process))
	// Of a block of 4 GiB one half is left free and one taken; then 3 GiB are asked for.
	tl.Free(tl.Bear(timeline.Caching, term, 16*quarter))
	tl.Bear(timeline.Caching, term, 8*quarter)
	tl.Bear(timeline.Caching, term, 12*quarter)
	tl.Phases = []timeline.Span{{Phase: account.PhaseForward, Step: 1, Last: len(tl.Events)}}
	total := account.Exact(26*quarter, account.Provenance{Scope: account.Device})
	laid, err := lay(context.Background(), tl, estimate.Memory{Total: total}, replay.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	a := replay.Account(tl, laid.run, account.Calculated)
	if f := a.Phases[0].Peak(account.Reserved).Figure; f.Low() != 20*quarter {
		t.Errorf("reserved %s, of which 5 GiB are certain", f.In(bytesize.GiB))
	}
	v := fit.Decide(fit.Calculated, []account.Account{a}, fit.Budgets{fit.EveryRank: {Card: "card", Capacity: total, Others: account.Zero("none", account.Provenance{})}})
	if v.Value != fit.CannotTell {
		t.Errorf("%s: %v", v.Value, v.Reasons)
	}
}

// A run within less than is requested at once cannot end, and is not made: the context
// of this one is over, so that any run would be an error.
func TestRunsThatCannotEndAreNotMade(t *testing.T) {
	tl := passing(3, 4)
	free, err := replay.Simulate(context.Background(), tl, replay.DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	over, end := context.WithCancel(context.Background())
	end()
	least := free.Peaks.Requested.Bytes
	if runs, err := runsWithin(over, tl, free, replay.DefaultOptions(), 1<<30, []int64{quarter, least - 1}); len(runs) > 0 || err != nil {
		t.Errorf("%d runs, %v", len(runs), err)
	}
	if _, err := runsWithin(over, tl, free, replay.DefaultOptions(), 1<<30, []int64{least}); !errors.Is(err, context.Canceled) {
		t.Errorf("what may end is not run: %v", err)
	}
}
