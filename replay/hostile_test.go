package replay

import (
	"context"
	"testing"

	"floodmark/account"
	"floodmark/allocator"
	"floodmark/snapshot"

	"pgregory.net/rapid"
)

// Whatever a file claims, a replay ends without a panic and says what is wrong.
func TestContradictoryRecordings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := anySettings(t)
		tr := newTracer(rapid.Int64Range(60, 1000).Draw(t, "capacity in MiB")<<20, settings)
		program(t, tr, rapid.IntRange(1, 60).Draw(t, "steps"), 700<<10)
		s := tr.snapshot(rapid.IntRange(0, 200).Draw(t, "kept"))
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			contradict(t, s)
		}
		for _, r := range s.Recordings() {
			recorded := Replay(s, r, allocator.LatestRules(), 0)
			_ = recorded.Certificate.String()
			_ = recorded.Capacity()
			Account(&r.Timeline, recorded.Run, account.Observed)
			o := DefaultOptions()
			o.Settings = anySettings(t)
			if _, err := recorded.WhatIf(context.Background(), o); err == nil && !recorded.Certificate.Holds() {
				t.Fatal("a what-if without a certificate")
			}
			if run, err := Simulate(context.Background(), &r.Timeline, o); err == nil {
				Account(&r.Timeline, run, account.Calculated)
			}
		}
	})
}

// contradict changes something of a snapshot that its reader would let pass.
func contradict(t *rapid.T, s *snapshot.Snapshot) {
	trace := &s.Traces[0]
	number := rapid.OneOf(rapid.Int64Range(-1, 1<<21), rapid.SampledFrom([]int64{1 << 40, 1 << 62, -1 << 63, 1<<63 - 1})).Draw(t, "number")
	entry := func() int { return rapid.IntRange(0, trace.Len()-1).Draw(t, "entry") }
	switch change := rapid.IntRange(0, 7).Draw(t, "change"); {
	case change < 4 && trace.Len() == 0, change >= 4 && len(s.Segments) == 0:
	case change == 0:
		trace.Action[entry()] = rapid.SampledFrom(snapshot.Actions()).Draw(t, "action")
	case change == 1:
		trace.Addr[entry()] += uint64(number)
	case change == 2:
		trace.Size[entry()] += number
	case change == 3:
		trace.Stream[entry()] = rapid.Uint32Range(0, 2).Draw(t, "stream")
	case change == 4:
		g := &s.Segments[rapid.IntRange(0, len(s.Segments)-1).Draw(t, "segment")]
		g.Address += uint64(number)
	case change == 5:
		g := &s.Segments[rapid.IntRange(0, len(s.Segments)-1).Draw(t, "segment")]
		g.Total += number
		g.Expandable = !g.Expandable
	case change == 6:
		s.Settings.MaxSplitSize = number
		s.Settings.Roundups = append(s.Settings.Roundups, snapshot.Roundup{FromMiB: 1, Divisions: number})
	case len(s.Blocks) > 0:
		b := &s.Blocks[rapid.IntRange(0, len(s.Blocks)-1).Draw(t, "block")]
		b.Size += number
		b.Requested += number
		b.State = snapshot.Allocated
	}
}
