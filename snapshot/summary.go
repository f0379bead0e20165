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
	// summaryUnknown is from how many percent on the unattributed bytes are named
	// in any case.
	summaryUnknown = 5
	// summaryPlace is from how many percent of a category on one file is named.
	summaryPlace = 25
)

// Summary explains a composition in one sentence: how much it is, what the
// program was doing, what the largest parts are and why, and what is left at the
// end. The level is that of the composition, in bytes, with what the allocator
// rounds up if that is known.
func (x *Explanation) Summary(c Composition, level int64) string {
	if c.Bytes == 0 {
		return "Nothing is allocated in this snapshot."
	}
	unit := bytesize.Suggest(level)
	show := func(n int64) string { return bytesize.Fixed(n, unit, 2) + " " + unit.String() }
	clauses, told := []string{}, int64(0)
	for _, share := range c.Shares {
		enough := len(clauses) == summaryShares || told >= c.Bytes/100*summaryEnough
		if unknown := share.Category == account.CategoryUnattributed && share.Bytes >= c.Bytes/100*summaryUnknown; enough && !unknown {
			continue
		}
		told += share.Bytes
		of := ""
		if len(clauses) == 0 {
			of = " of it"
		}
		clauses = append(clauses, fmt.Sprintf("%s%s is %s because %s", show(share.Bytes), of, nameOf(share.Category), x.because(c, share)))
	}
	if rounding := level - c.Bytes; rounding > 0 && rounding >= level/100*summaryUnknown {
		clauses = append(clauses, show(rounding)+" is what the allocator rounds up")
	}
	return x.opening(c.Phase, show(level)) + strings.Join(clauses, "; ") + x.closing(show) + "."
}

// opening is the level and the moment.
func (x *Explanation) opening(phase account.PhaseID, level string) string {
	if x.r.Trace.Len() <= 1 {
		return fmt.Sprintf("The snapshot holds %s: ", level)
	}
	when := ""
	switch phase {
	case account.PhaseRecorded:
		return fmt.Sprintf("The peak is %s: ", level)
	case account.PhaseOptimizerStep:
		when = "an optimizer step"
	case account.PhaseLoss:
		when = "the loss"
	default:
		when = "a " + strings.ReplaceAll(string(phase), "_", " ")
	}
	return fmt.Sprintf("The peak of %s is in %s: ", level, when)
}

// closing is what failed, and what is left.
func (x *Explanation) closing(show func(int64) string) string {
	text := ""
	if n := len(x.r.Timeline.Failures); n > 0 {
		f := x.r.Timeline.Failures[0]
		text = fmt.Sprintf("; a request of %s failed after event %d", show(f.Requested), x.r.Failures[0].Entry)
	}
	if end := x.r.Timeline.EndRequested(); x.r.Trace.Len() > 1 {
		text += "; at the end " + bytesize.Fixed(end, bytesize.Suggest(end), 2) + " " + bytesize.Suggest(end).String() + " is still held"
	}
	return text
}

// nameOf is a category as it stands in a sentence.
func nameOf(c account.Category) string {
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

// because gives the reason of a share, and where most of it comes from.
func (x *Explanation) because(c Composition, share Share) string {
	main := slices.IndexFunc(c.Reasons, func(r Reason) bool { return r.Category == share.Category })
	reason := c.Reasons[main]
	switch share.Category {
	case account.CategoryParameter:
		return "the weights live throughout (" + tensors(share.Count) + ")"
	case account.CategoryOptimizerState:
		return "the optimizer keeps it from step to step (" + tensors(share.Count) + ")"
	case account.CategoryGradient:
		if (c.Phase == account.PhaseForward || c.Phase == account.PhaseLoss) && reason.Evidence == ByFree {
			return "the gradients of the step before are still held while the next forward runs"
		}
		return "every trained weight has one until zero_grad (" + tensors(share.Count) + ")"
	case account.CategoryActivation:
		return "a forward holds " + tensors(share.Count) + " for its backward" + x.mostly(c, share)
	case account.CategoryUnattributed:
		return reason.Why
	}
	return "it is " + reason.Why + x.mostly(c, share)
}

func tensors(n int) string {
	if n == 1 {
		return "1 tensor"
	}
	return bytesize.Group(int64(n)) + " tensors"
}

// mostly names the file from which the largest part of a share comes, if it is
// a large one.
func (x *Explanation) mostly(c Composition, share Share) string {
	c.Allocs = slices.DeleteFunc(slices.Clone(c.Allocs), func(a uint32) bool { return x.Verdict(a).Category != share.Category })
	for _, g := range x.ByFile(c) {
		if percent := g.Bytes * 100 / max(share.Bytes, 1); g.Name != "" && percent >= summaryPlace && g.Bytes <= share.Bytes {
			return fmt.Sprintf(", %d %% of it in %s", percent, g.Name)
		}
		break
	}
	return ""
}
