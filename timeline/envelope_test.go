package timeline

import (
	"testing"

	"pgregory.net/rapid"

	"floodmark/account"
)

func TestEnvelopeKeepsThePeak(t *testing.T) {
	tl := loadAndRun()
	e := tl.Envelope(0, len(tl.Events), 2)
	if len(e.Buckets) != 2 {
		t.Fatalf("%+v", e)
	}
	first, second := e.Buckets[0], e.Buckets[1]
	if first.Low != 100 || first.High != 110 || second.Low != 110 || second.High != 140 {
		t.Errorf("buckets are %+v and %+v", first, second)
	}
	if e.Categories[0] != account.CategoryParameter || second.AtHigh[0] != 100 {
		t.Errorf("at its highest the second bucket is made of %v of %v", second.AtHigh, e.Categories)
	}
	if got := tl.Envelope(3, 3, 10); len(got.Buckets) != 0 {
		t.Errorf("no moments gave %+v", got)
	}
}

// At any level of detail the highest bucket is the peak, the shares sum to the
// level, and buckets tile the moments.
func TestEnvelopeAtAnyDetail(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tl := &Timeline{Terms: []account.Term{{Category: account.CategoryParameter}, {Category: account.CategoryActivation}}}
		var alive []uint32
		for range rapid.IntRange(1, 60).Draw(t, "events") {
			if len(alive) > 0 && rapid.Bool().Draw(t, "free") {
				i := rapid.IntRange(0, len(alive)-1).Draw(t, "which")
				tl.Events = append(tl.Events, Event{FreeCompleted, alive[i]})
				alive = append(alive[:i], alive[i+1:]...)
				continue
			}
			term := rapid.SampledFrom([]uint32{0, 1, NoTerm}).Draw(t, "term")
			tl.Allocs = append(tl.Allocs, Alloc{Requested: rapid.Int64Range(1, 1000).Draw(t, "bytes"), Term: term})
			a := uint32(len(tl.Allocs) - 1)
			tl.Events = append(tl.Events, Event{Born, a})
			alive = append(alive, a)
		}
		e := tl.Envelope(0, len(tl.Events), rapid.IntRange(1, 80).Draw(t, "buckets"))
		peak, _ := tl.PeakRequested()
		highest, next := int64(0), 0
		for _, b := range e.Buckets {
			var sum int64
			for _, n := range b.AtHigh {
				sum += n
			}
			if sum != b.High || b.Low > b.High || b.First != next || b.Last <= b.First {
				t.Fatalf("bucket %+v after moment %d", b, next)
			}
			highest, next = max(highest, b.High), b.Last
		}
		if highest != peak || next != len(tl.Events) {
			t.Fatalf("buckets reach %d at moment %d, the peak is %d of %d moments", highest, next, peak, len(tl.Events))
		}
	})
}
