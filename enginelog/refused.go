package enginelog

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
)

// refusedInWords is a refusal that names no bytes, and what it means.
type refusedInWords struct {
	line    int
	warning account.Warning
}

// refusal keeps an engine's refusal that names no bytes: vllm/worker/worker.py
// (0.2 to 0.7) and vllm/v1/core/kv_cache_utils.py of vLLM,
// python/sglang/srt/model_executor/model_runner.py of SGLang, src/llama-context.cpp of
// llama.cpp. A count of positions
// in it is read by [engineReader.counts] too.
func (e *engineReader) refusal(l line) bool {
	if strings.Contains(l.text, "failed to allocate compute") {
		e.keepRefusal(l.number, account.Warning{Code: "compute_buffer", Text: "it is llama.cpp's compute buffer that was refused, which is reserved whole at the start: a smaller micro-batch (-ub) divides it, flash attention (-fa on) takes the scores of every cell out of it, a shorter context (-c) makes it smaller where there are scores; a quantised cache or fewer slots of the same context do not"})
		return true
	}
	if strings.Contains(l.text, "failed to allocate buffer for kv cache") {
		e.keepRefusal(l.number, account.Warning{Code: "kv_buffer", Text: "it is llama.cpp's KV cache that was refused, which is reserved whole at the start for every position of the context: a shorter context (-c), a cache of 8 bits (-ctk q8_0 -ctv q8_0) or fewer layers on that device (-ngl, -ts) make it smaller; a smaller micro-batch does not"})
		return true
	}
	if strings.Contains(l.text, "retrying without pipeline parallelism") {
		e.keepRefusal(l.number, account.Warning{Code: "retried", Text: "llama.cpp tries again without pipeline parallelism, which takes more memory where several devices share the layers (GGML_SCHED_MAX_COPIES copies of what goes between them): the refusal before it need not be the end of the start"})
		return true
	}
	if !strings.Contains(l.text, "emory") && !strings.Contains(l.text, "stored in KV cache") {
		return false
	}
	text, _ := squash(l.text)
	var w account.Warning
	switch {
	case strings.Contains(text, "Noavailablememoryforthecacheblocks"):
		w = account.Warning{Code: "no_cache_room", Text: "weights, the trial run and what lies outside the allocator take the whole budget, so that no block of the cache is left: here the utilization goes up (an out-of-memory while it runs would mean down), or less is taken for weights and for one step; by how much, the lines before this one in the whole log say"}
	case strings.Contains(text, "Notenoughmemory") && strings.Contains(text, "--mem-fraction-static"):
		w = account.Warning{Code: "no_cache_room", Text: "the weights take all of the static share, so that nothing is left for the cache: here --mem-fraction-static goes up (an out-of-memory while it runs would mean down), or the weights get smaller or more ranks; where both happen at neighbouring values, no share works"}
	default:
		return e.tooLong(l, text)
	}
	e.keepRefusal(l.number, w)
	return true
}

// tooLong reads "The model's max seq len (29000) is larger than the maximum number
// of tokens that can be stored in KV cache (23648)". The line goes on to the
// readers of numbers.
func (e *engineReader) tooLong(l line, text string) bool {
	longest, ok := between(text, "maxseqlen(", ")islargerthan")
	most, also := between(text, "storedinKVcache(", ")")
	if ok && also && longest > most {
		e.keepRefusal(l.number, account.Warning{Code: "cache_too_small", Text: fmt.Sprintf(
			"one request of the longest length, %s positions, is %s more than the cache holds: a longest length of up to %s starts as it is; raising the utilization gives only what is left of the card, and more ranks or a cache of 8 bits give the rest",
			bytesize.Group(longest), bytesize.Group(longest-most), bytesize.Group(most))})
	}
	return false
}

// keepRefusal keeps a refusal once: every rank prints its own.
func (e *engineReader) keepRefusal(line int, w account.Warning) {
	for _, r := range e.refused {
		if r.warning == w {
			return
		}
	}
	if len(e.refused) < mostRefusals {
		e.refused = append(e.refused, refusedInWords{line, w})
	}
}

// mostRefusals bounds how many different refusals are kept.
const mostRefusals = 100

// between is the count that stands between two texts.
func between(text, before, after string) (int64, bool) {
	_, rest, found := strings.Cut(text, before)
	number, _, closed := strings.Cut(rest, after)
	n, err := strconv.ParseInt(number, 10, 64)
	return n, found && closed && err == nil && n >= 0
}

// inWords are the refusals that named no bytes, without those that the numbers of
// the log say better.
func inWords(refused []refusedInWords, numbers []account.Warning) []account.Warning {
	var list []account.Warning
	for _, r := range refused {
		better := func(w account.Warning) bool { return w.Code == r.warning.Code }
		if !slices.ContainsFunc(numbers, better) {
			list = append(list, r.warning)
		}
	}
	return list
}

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
	var card shareOfCard
	var warnings []account.Warning
	for _, line := range order {
		card.of(byLine[line])
		for _, w := range refusal(byLine[line], card) {
			if !seen[w.Text] { // every rank prints its own
				seen[w.Text] = true
				warnings = append(warnings, w)
			}
		}
	}
	return warnings
}

// shareOfCard is the card and the share of it that the lines so far gave.
type shareOfCard struct{ total, budget account.Figure }

func (s *shareOfCard) of(kinds map[Kind]account.Figure) {
	if total, budget := kinds[KindCapacity], kinds[KindBudget]; total.Known() && budget.Known() {
		*s = shareOfCard{total, budget}
	}
}

// needed is a clause with the utilization at which nothing is lacking; empty where
// the card or its share is not known.
func (s shareOfCard) needed(lacking float64) string {
	if !s.total.Known() || s.total.Low() <= 0 {
		return ""
	}
	return fmt.Sprintf("to %.3f of this card at least, and what one request takes beyond that; ", math.Ceil(1000*(middle(s.budget)+lacking)/middle(s.total))/1000)
}

// refusal is what the numbers of one line say, of a card that is known by then.
func refusal(of map[Kind]account.Figure, card shareOfCard) []account.Warning {
	var list []account.Warning
	free, budget, total := of[KindFreeAtStart], of[KindBudget], of[KindCapacity]
	if most, known := free.High(); known && budget.Known() && budget.Low() > most && total.Low() > 0 {
		list = append(list, account.Warning{Code: "refused_at_start", Text: fmt.Sprintf(
			"the engine asks for %s and %s is free, so it refuses before it loads anything: the largest utilization that can start now is %.3f; raising it makes it worse, and what would help is that others hold less of the card",
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
			"weights, the trial run and what lies outside the allocator take more than the budget: it lacks %s before the first block; here the utilization goes up (%san out-of-memory while it runs would mean down), or less is taken for weights and for one step",
			bytesize.Format(-int64(middle(room))/gibHundredth*gibHundredth, bytesize.GiB), card.needed(-middle(room)))})
	}
	return list
}

const gibHundredth = int64(1<<30) / 100

// middle is the number that was printed, as near as its digits say.
func middle(f account.Figure) float64 {
	most, _ := f.High()
	return (float64(f.Low()) + float64(most)) / 2
}
