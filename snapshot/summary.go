package snapshot

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
)

// A summary names the largest categories, until they make up enough of the peak.
const (
	summaryShares = 4
	summaryEnough = 90 // percent
	// summaryUnknown is from how many percent on the unattributed bytes, what the
	// allocator rounds up, and what was there before the trace are named in any
	// case.
	summaryUnknown = 5
	// summaryPlace is from how many percent of a category on one file is named.
	summaryPlace = 25
	// What the allocator holds beside what is used is named from so many percent
	// of that on, if it is more than a GiB.
	summaryCached = 10
	cachedEnough  = 1 << 30
)

// Part is a piece of a sentence: words, or an amount.
type Part struct {
	Text  string // of an amount, as it reads in a fitting unit
	Bytes *int64 // nil for words
}

// Sentence is what is said of amounts, in an order that a person reads.
type Sentence []Part

// String reads the sentence with each amount in a fitting unit.
func (s Sentence) String() string {
	var b strings.Builder
	for _, part := range s {
		b.WriteString(part.Text)
	}
	return b.String()
}

// say adds words and amounts, which are int64.
func (s *Sentence) say(parts ...any) {
	for _, part := range parts {
		switch p := part.(type) {
		case string:
			*s = append(*s, Part{Text: p})
		case int64:
			*s = append(*s, Part{Text: amount(p), Bytes: &p})
		case Sentence:
			*s = append(*s, p...)
		}
	}
}

// Say makes a sentence of words and amounts, which are int64, and of sentences.
func Say(parts ...any) Sentence {
	var s Sentence
	s.say(parts...)
	return s
}

// InOneUnit is the sentence with its amounts in the unit that fits the first of
// them; what is too small or too large to read in it keeps its own.
func (s Sentence) InOneUnit() Sentence {
	list, unit, found := slices.Clone(s), bytesize.B, false
	for i, part := range list {
		switch {
		case part.Bytes == nil:
		case !found:
			unit, found = bytesize.Suggest(*part.Bytes), true
		case *part.Bytes >= unit.Bytes()/smallestShown && *part.Bytes < unit.Bytes()*largestShown:
			list[i].Text = inUnit(*part.Bytes, unit)
		}
	}
	return list
}

// An amount reads well in a unit from a tenth of it up to a thousand.
const (
	smallestShown = 10
	largestShown  = 1000
)

// amount is a count in a fitting unit; bytes have no decimals.
func amount(n int64) string { return inUnit(n, bytesize.Suggest(n)) }

func inUnit(n int64, unit bytesize.Unit) string {
	if unit == bytesize.B {
		return bytesize.Group(n) + " B"
	}
	return bytesize.Fixed(n, unit, 2) + " " + unit.String()
}

// Summary explains a composition in one sentence: how much it is, what the
// program was doing, what the largest parts are and why, and what is left at the
// end. The level is that of the composition, in bytes, with what the allocator
// rounds up if that is known. A file that contradicts itself or begins in the
// middle of a run is said to.
func (x *Explanation) Summary(c Composition, level int64) Sentence {
	if c.Bytes == 0 {
		return Say("Nothing is allocated in this snapshot.")
	}
	s := x.opening(c.Phase, level)
	told, clauses := int64(0), 0
	for _, share := range c.Shares {
		enough := clauses == summaryShares || told >= c.Bytes/100*summaryEnough
		if unknown := share.Category == account.CategoryUnattributed && share.Bytes >= c.Bytes/100*summaryUnknown; enough && !unknown {
			continue
		}
		told += share.Bytes
		of := ""
		if clauses == 0 {
			of = " of it"
		} else {
			s.say("; ")
		}
		clauses++
		s.say(share.Bytes, of+" is "+CategoryWords(share.Category)+" because "+x.Because(c, share))
	}
	if rounding := level - c.Bytes; rounding > 0 && rounding >= level/100*summaryUnknown {
		s.say("; ", rounding, " is what the allocator rounds up")
	}
	s.say(x.closing(c, level), ".", x.truncation(level))
	return s.InOneUnit()
}

// opening is the level and the moment.
func (x *Explanation) opening(phase account.PhaseID, level int64) Sentence {
	switch {
	case x.Contradicted():
		return Say("The file contradicts itself, so no peak of it is certain; as its entries stand they add up to ", level, ": ")
	case !x.history:
		return Say("The snapshot holds ", level, ": ")
	case !x.r.EndKnown:
		return Say("The file has no segments, so levels count from its first entry; the peak is at least ", level, ": ")
	case phase == account.PhaseRecorded:
		return Say("The peak is ", level, ": ")
	}
	return Say("The peak of ", level, " is in "+PhaseWords(phase)+": ")
}

// PhaseWords is a phase as it stands in a sentence: "a forward".
func PhaseWords(phase account.PhaseID) string {
	switch phase {
	case account.PhaseOptimizerStep:
		return "an optimizer step"
	case account.PhaseLoss:
		return "the loss"
	case account.PhaseRecorded:
		return "no known phase"
	}
	return "a " + strings.ReplaceAll(string(phase), "_", " ")
}

// Contradicted reports whether the trace and the segments say different things
// of the same memory. That segments are missing alone is none.
func (x *Explanation) Contradicted() bool {
	return len(x.r.Contradictions) > 0
}

// closing is what failed, what is left, and what the allocator holds beside it.
func (x *Explanation) closing(c Composition, level int64) Sentence {
	var s Sentence
	if x.history && x.r.EndKnown {
		if reserved := x.reservedAt(c.Entry) - level; wasteful(reserved, level) {
			s.say("; the allocator then holds ", reserved, " more")
		}
	}
	if n := len(x.r.Timeline.Failures); n > 0 {
		s.say("; a request of ", x.r.Timeline.Failures[0].Requested, " failed at event "+bytesize.Group(int64(x.r.Failures[0].Entry)))
	}
	end := x.r.Timeline.EndRequested()
	if x.history {
		s.say("; at the end ", x.atLeast(), end, " is still held")
	}
	if cached := x.r.End.Reserved - x.r.End.Active; x.r.EndKnown && wasteful(cached, end) {
		if s.say("; "); x.history {
			s[len(s)-1].Text = ", and "
		}
		s.say("the allocator holds ", cached, " more", x.stuck(cached))
	}
	return s
}

// atLeast is said of levels that are lower bounds.
func (x *Explanation) atLeast() string {
	if x.r.EndKnown {
		return ""
	}
	return "at least "
}

// wasteful reports whether what the allocator holds beside what is used is
// worth a word.
func wasteful(cached, used int64) bool {
	return cached > cachedEnough && cached > used/100*summaryCached
}

// stuck tells what of the cached bytes can go back to the driver.
func (x *Explanation) stuck(cached int64) Sentence {
	stuck := int64(0)
	for _, h := range x.s.Holdings(x.r) {
		stuck += h.Stranded
	}
	switch {
	case stuck <= 0:
		return Say(", all of which empty_cache could return")
	case stuck >= cached:
		return Say(", all of it stuck in segments that something still uses")
	}
	return Say(", of which ", cached-stuck, " could be returned by empty_cache and ", stuck, " is stuck in segments that something still uses")
}

// reservedAt is the reserved bytes after an entry.
func (x *Explanation) reservedAt(entry int) int64 {
	reserved := x.r.reserved
	for i := range min(entry+1, x.r.Trace.Len()) {
		reserved += x.r.Trace.Action[i].reserves() * x.r.Trace.Size[i]
	}
	return reserved
}

// truncation warns of what the trace does not show: a part of the peak that was
// there before it.
func (x *Explanation) truncation(level int64) Sentence {
	start := x.r.Timeline.Start()
	if !x.history || x.Contradicted() || !x.r.Timeline.Truncated || start < level/100*summaryUnknown {
		return nil
	}
	return Say(" The recording begins in the middle of a run with ", start, " already held; the true peak may be earlier: "+
		"record from the start, with a larger max_entries.")
}

// CategoryWords is a category as it stands in a sentence.
func CategoryWords(c account.Category) string {
	switch c {
	case account.CategoryParameter, account.CategoryBuffer, account.CategoryGradient, account.CategoryActivation:
		return string(c) + "s"
	case account.CategoryTemporary:
		return "temporaries"
	case account.CategoryLogits:
		return "logits"
	case account.CategoryKVCache:
		return "KV cache"
	case account.CategoryUnattributed:
		return "not attributed"
	}
	return strings.ReplaceAll(string(c), "_", " ")
}

// Because gives the reason of the largest part of a composition's share, how many
// tensors that is, and where most of it comes from.
func (x *Explanation) Because(c Composition, share Share) string {
	reason := c.Reasons[slices.IndexFunc(c.Reasons, func(r Reason) bool { return r.Category == share.Category })]
	c.Allocs = slices.DeleteFunc(slices.Clone(c.Allocs), func(a uint32) bool { return x.Verdict(a) != reason.Verdict })
	text := "it is "
	switch {
	case x.stale(c, reason):
		return "the gradients of the step before are still held while the next forward runs (" + tensors(reason.Count) + ")"
	case share.Category == account.CategoryUnattributed:
		text = ""
	case reason.Bytes <= share.Bytes/2:
		text = "the largest part of it is "
	case reason.Bytes < share.Bytes/100*summaryEnough:
		text = "most of it is "
	}
	place := ""
	if share.Category != account.CategoryOptimizerState && share.Category != account.CategoryParameter {
		place = x.mostly(c, reason)
	}
	why, bracket := reason.Why, " ("
	if rest, ok := strings.CutSuffix(why, ")"); ok {
		why, bracket = rest, ", " // one pair of brackets is enough
	}
	return text + why + bracket + tensors(reason.Count) + place + ")"
}

// stale reports whether gradients were there before the forward that runs.
func (x *Explanation) stale(c Composition, reason Reason) bool {
	if reason.Category != account.CategoryGradient || c.Phase != account.PhaseForward && c.Phase != account.PhaseLoss {
		return false
	}
	begun := x.lives.switches[x.lives.passAt(c.Entry)]
	return !slices.ContainsFunc(c.Allocs, func(a uint32) bool { return x.lives.birth[a] >= begun })
}

func tensors(n int) string {
	if n == 1 {
		return "1 tensor"
	}
	return bytesize.Group(int64(n)) + " tensors"
}

// mostly names the file from which the largest part of a reason's bytes comes,
// if it is a large one.
func (x *Explanation) mostly(c Composition, reason Reason) string {
	files := x.ByFile(c)
	if len(files) == 0 || files[0].Name == "" {
		return ""
	}
	percent := files[0].Bytes * 100 / max(reason.Bytes, 1)
	if percent < summaryPlace || files[0].Bytes > reason.Bytes {
		return ""
	}
	return fmt.Sprintf(", %d %% of it in %s", percent, files[0].Name)
}
