package enginelog

import (
	"fmt"
	"slices"
)

// settings is which allocator setting can reach fragmentation, as far as the
// PyTorch that printed the message has one. Expandable segments came with 2.1,
// for ROCm in March 2026 (pytorch/pytorch#177974), and not for Windows; before,
// there is max_split_size_mb; up to 1.3 there is none.
func (m *OutOfMemory) settings(log *Log) []Advice {
	cached := fmt.Sprintf("%s are cached in blocks that could not serve %s", show(m.Unallocated), show(m.Request))
	switch {
	case log.expandable():
		return []Advice{{"expandable_segments", DoesNotHelp, "expandable segments: they are already on"}}
	case m.Backend != CUDA && m.Backend != HIP && m.Backend != UnknownBackend:
		return nil
	case m.era == upTo13:
		return []Advice{{"newer_pytorch", MayHelp, "a newer PyTorch: one that prints this message has no setting against fragmentation"}}
	case m.era == upTo20:
		return []Advice{{"max_split_size_mb", MayHelp, m.environment() + "=max_split_size_mb:N, after which blocks of more than N MiB are not split: " + cached +
			"; PyTorch 2.0 and older, which print this message, have no expandable segments"}}
	}
	text := m.environment() + "=expandable_segments:True, set before the program starts: " + cached
	if m.Backend == HIP {
		text += "; PyTorch for ROCm has it since March 2026 only, and before warns that its platform does not support it"
	} else {
		text += "; PyTorch for Windows ignores it"
	}
	if m.variable == "" && m.Backend != HIP {
		text += ", and from 2.9 on the variable is called PYTORCH_ALLOC_CONF"
	}
	if len(m.Remedies) > 0 {
		text += "; vLLM's sleep mode refuses to run with it"
	}
	return []Advice{{"expandable_segments", MayHelp, text}}
}

// environment is the variable of the allocator's settings.
func (m *OutOfMemory) environment() string {
	switch {
	case m.variable != "":
		return m.variable
	case m.Backend == HIP:
		return "PYTORCH_HIP_ALLOC_CONF"
	}
	return "PYTORCH_CUDA_ALLOC_CONF"
}

// printedHint judges the advice that the message itself gives, unless it is
// among the steps already.
func (m *OutOfMemory) printedHint(steps []Advice) (Advice, bool) {
	if slices.ContainsFunc(steps, func(a Advice) bool { return a.Code == string(m.Hint) }) {
		return Advice{}, false
	}
	if m.Hint == HintExpandable && m.expandable {
		return Advice{"printed_hint", DoesNotHelp, fmt.Sprintf("the message's own hint (%s): it is already on, and the message prints it all the same", m.Hint)}, true
	}
	a := Advice{Code: "printed_hint", Effect: DoesNotHelp}
	own := fmt.Sprintf("the message's own hint (%s)", m.Hint)
	switch m.Hint {
	case HintExpandable, HintMaxSplit:
		switch {
		case m.Class == FragmentationPlausible:
			a.Effect, a.Text = MayHelp, own+": it is a way against fragmentation"
		case m.Class == CannotTell:
			a.Effect, a.Text = MayHelp, own+": it is printed whatever the numbers are, and these do not say whether it applies"
		default:
			a.Text = fmt.Sprintf("%s: it is against fragmentation, and this is %s", own, m.Class.words())
		}
	case HintEmptyCache:
		a.Text = own + ": the allocator had already given back what it could"
	case HintHighWatermark:
		a.Effect, a.Text = MayHelp, "no upper limit (PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0): the request is then tried, at the cost of swapping or of the whole system, as it makes no memory"
	default:
		return Advice{}, false
	}
	return a, true
}
