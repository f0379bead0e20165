package replay

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"floodmark/account"
	"floodmark/timeline"
)

// course is pieces that allocate so many MiB, one after the other, and free them;
// each leaves one block of a MiB and lets go of what the piece before it left.
func course(pieces [][]int64, orders ...[]int32) *timeline.Course {
	c := &timeline.Course{Timeline: &timeline.Timeline{}, Orders: orders}
	c.Timeline.Terms = []account.Term{{ID: account.TermWeights}, {ID: account.TermActivations}}
	birth(c.Timeline, 16*mib, 0, timeline.Caching)
	name := birth(c.Timeline, mib, 1, timeline.Caching)
	c.Begins = len(c.Timeline.Events)
	for _, sizes := range pieces {
		first := len(c.Timeline.Events)
		var made []uint32
		for _, n := range sizes {
			made = append(made, birth(c.Timeline, n*mib, 1, timeline.Caching))
		}
		next := birth(c.Timeline, mib, 1, timeline.Caching)
		free(c.Timeline, append(made, name)...)
		name = next
		c.Pieces = append(c.Pieces, timeline.Piece{First: first, Last: len(c.Timeline.Events)})
	}
	return c
}

func reach(t rapid.TB, c *timeline.Course, o Options) []int64 {
	reached, err := Course(context.Background(), c, o)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]int64, len(reached))
	for i, r := range reached {
		list[i] = r.Reserved
	}
	return list
}

// A block that was cached for one length serves no longer one: from the shortest to
// the longest everything stays reserved, from the longest on nothing more is.
func TestOrdersReserve(t *testing.T) {
	c := course([][]int64{{20}, {30}, {40}}, []int32{0, 1, 2}, []int32{2, 1, 0}, []int32{2, 0, 2, 1, 2, 0})
	const stays = 18 * mib // 16 of the beginning, 2 of small blocks
	if got := reach(t, c, DefaultOptions()); !slices.Equal(got, []int64{stays + 90*mib, stays + 40*mib, stays + 40*mib}) {
		t.Errorf("%d bytes", got)
	}
	o := DefaultOptions()
	o.Capacity = 100 * mib // what is cached is given back before a request fails
	if got := reach(t, c, o); got[0] > o.Capacity || got[1] != stays+40*mib {
		t.Errorf("within 100 MiB: %d bytes", got)
	}
	o.Capacity = 50 * mib
	reached, err := Course(t.Context(), c, o)
	if err != nil || reached[0].Stopped == nil || reached[0].Stopped.Requested != 40*mib {
		t.Errorf("within 50 MiB: %+v, %v", reached, err)
	}
}

// Pieces that are not run again change nothing: an order reserves what the same
// events reserve in a timeline of their own.
func TestCourseIsItsTimeline(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.SliceOfN(rapid.Int64Range(2, 60), 1, 6), 1, 5).Draw(t, "pieces")
		order := rapid.SliceOfN(rapid.Int32Range(0, int32(len(sizes)-1)), 1, 40).Draw(t, "order")
		c := course(sizes, order)
		again := make([][]int64, len(order))
		for i, piece := range order {
			again[i] = sizes[piece]
		}
		o := DefaultOptions()
		o.Settings.ExpandableSegments = rapid.Bool().Draw(t, "expandable")
		run, err := Simulate(context.Background(), course(again).Timeline, o)
		if err != nil {
			t.Fatal(err)
		}
		if got := reach(t, c, o)[0]; got != run.Peaks.Reserved.Bytes {
			t.Errorf("the order %v of %v reserves %d, its timeline %d", order, sizes, got, run.Peaks.Reserved.Bytes)
		}
	})
}

// An order is left when nothing has risen for long: eight times as many pieces as
// there are, and as many as came before the last rise.
func TestOrderIsLeft(t *testing.T) {
	long := make([]int32, 40)
	long[39] = 1
	early := slices.Clone(long)
	early[10] = 1
	const stays = 18 * mib
	if got := reach(t, course([][]int64{{20}, {30}}, long, early), DefaultOptions()); !slices.Equal(got, []int64{stays + 20*mib, stays + 50*mib}) {
		t.Errorf("%d bytes", got)
	}
}

// What contradicts itself is refused.
func TestCourseThatContradictsItself(t *testing.T) {
	for name, spoil := range map[string]func(*timeline.Course){
		"an order without such a piece": func(c *timeline.Course) { c.Orders[0][0] = 7 },
		"pieces that overlap":           func(c *timeline.Course) { c.Pieces[1].First-- },
		"a piece behind the end":        func(c *timeline.Course) { c.Pieces[1].Last++ },
		"a free of what another piece made and let go of": func(c *timeline.Course) {
			c.Timeline.Events = append(c.Timeline.Events, timeline.Event{Kind: timeline.FreeCompleted, Alloc: 2})
			c.Pieces[1].Last++
		},
	} {
		c := course([][]int64{{20}, {30}}, []int32{0, 1})
		spoil(c)
		if _, err := Course(t.Context(), c, DefaultOptions()); err == nil {
			t.Errorf("%s is run", name)
		}
	}
}
