package enginelog

import (
	"fmt"
	"math"

	"floodmark/account"
	"floodmark/bytesize"
)

// refusals are what the numbers of an engine's own refusal say of the advice that
// it prints beside them.
func refusals(list []Component) []account.Warning {
	byLine := map[int]map[Kind]account.Figure{}
	var order []int
	for _, c := range list {
		if byLine[c.Line] == nil {
			byLine[c.Line] = map[Kind]account.Figure{}
			order = append(order, c.Line)
		}
		byLine[c.Line][c.Kind] = c.Bytes
	}
	seen := map[string]bool{}
	var warnings []account.Warning
	for _, line := range order {
		for _, w := range refusal(byLine[line]) {
			if !seen[w.Text] { // every rank prints its own
				seen[w.Text] = true
				warnings = append(warnings, w)
			}
		}
	}
	return warnings
}

// refusal is what the numbers of one line say.
func refusal(of map[Kind]account.Figure) []account.Warning {
	var list []account.Warning
	free, budget, total := of[KindFreeAtStart], of[KindBudget], of[KindCapacity]
	if most, known := free.High(); known && budget.Known() && budget.Low() > most && total.Low() > 0 {
		list = append(list, account.Warning{Code: "refused_at_start", Text: fmt.Sprintf(
			"the engine asks for %s and %s is free, so it refuses before it loads anything: the largest utilization that can start now is %.3f; raising it makes it worse, and what others hold of the card is what would help",
			show(budget), show(free), math.Floor(1000*middle(free)/middle(total))/1000)})
	}
	room := of[KindKVCacheAvailable]
	if needed := of[KindKVCacheNeeded]; needed.Known() && room.Known() {
		if lacking := middle(needed) - middle(room); lacking > 0 {
			list = append(list, account.Warning{Code: "cache_too_small", Text: fmt.Sprintf(
				"one request of the longest length lacks %s of cache: raising the utilization gives only what is left of the card, and a shorter longest length, more ranks or a cache of 8 bits give the rest",
				bytesize.Format(int64(lacking)/gibHundredth*gibHundredth, bytesize.GiB))})
		}
	} else if most, known := room.High(); known && most < 0 {
		list = append(list, account.Warning{Code: "no_cache_room", Text: fmt.Sprintf(
			"weights, the trial run and what lies outside the allocator take more than the budget: it lacks %s before the first block; here the utilization goes up (an out-of-memory while it runs would mean down), or less is taken for weights and for one step",
			bytesize.Format(-int64(middle(room))/gibHundredth*gibHundredth, bytesize.GiB))})
	}
	return list
}

const gibHundredth = int64(1<<30) / 100

// middle is the number that was printed, as near as its digits say.
func middle(f account.Figure) float64 {
	most, _ := f.High()
	return (float64(f.Low()) + float64(most)) / 2
}
