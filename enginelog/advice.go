package enginelog

import (
	"fmt"
	"strings"

	"floodmark/account"
)

// Effect says what a step would do about a failure.
type Effect string

const (
	Helps       Effect = "helps"
	MayHelp     Effect = "may_help"
	DoesNotHelp Effect = "does_not_help"
)

// Advice is one step and what it would do here.
type Advice struct {
	Code   string // stable, lower_snake_case
	Effect Effect
	Text   string // a sentence with the numbers
}

// advice is what would and what would not help, most useful first.
func (m *OutOfMemory) advice(log *Log) []Advice {
	list := m.steps(log)
	if hint, printed := m.printedHint(log); printed {
		list = append(list, hint)
	}
	return list
}

func (m *OutOfMemory) steps(log *Log) []Advice {
	switch m.Class {
	case Spill:
		return []Advice{
			{"hold_less", Helps, fmt.Sprintf("hold at least %s less, so that tensors are within the card", show(m.Allocated.Minus(m.Capacity, m.Capacity.Provenance)))},
			{"system_memory_fallback", MayHelp, "switch the driver's fallback to system memory off: it then fails at once instead of slowing down"},
			{"allocator_settings", DoesNotHelp, "no allocator setting makes the card larger"},
		}
	case AbsurdSize:
		return []Advice{
			{"check_shape", Helps, "look for a negative or corrupt dimension in the operation that the traceback names"},
			{"larger_card", DoesNotHelp, "no card is large enough"},
			{"allocator_settings", DoesNotHelp, "no allocator setting serves such a request"},
		}
	case LimitOutsideAllocator:
		return m.outside(log)
	case Exhaustion:
		return m.shortage()
	case FragmentationPlausible:
		return m.fragmented(log)
	}
	return []Advice{{"complete_message", Helps, m.missing()}}
}

// outside is for bytes that were free and still refused.
func (m *OutOfMemory) outside(log *Log) []Advice {
	list := []Advice{{"check_limits", Helps, "look for the limit that refused free bytes: the commit limit of Windows, a container's or job's memory limit, " +
		"a limit on one allocation, a virtual GPU's quota, or a process that took the bytes in between and gave them back"}}
	if log.expandable() {
		list = append(list, Advice{"expandable_segments_off", MayHelp,
			"expandable segments are on, and some drivers refuse to map them (WSL is one): try without"})
	}
	if m.Unallocated.Known() {
		list = append(list, Advice{"allocator_settings", DoesNotHelp, fmt.Sprintf(
			"fragmentation is not the cause: only %s are cached unused, and %s were free", show(m.Unallocated), show(m.free()))})
	}
	return list
}

// shortage is for a request that nothing could have served.
func (m *OutOfMemory) shortage() []Advice {
	short := least(m.Request.Minus(m.room(), m.Request.Provenance))
	list := []Advice{{"hold_less", Helps, fmt.Sprintf("hold or ask for at least %s less at this moment",
		show(account.Exact(short.Low(), short.Provenance)))}}
	if others := m.others(); others.Known() && others.Low() > 0 {
		effect, text := MayHelp, "other processes hold %s of this card; %s are missing"
		if exceeds(short, others) == yes {
			effect, text = DoesNotHelp, "other processes hold %s of this card, less than the %s that are missing"
		}
		list = append(list, Advice{"free_other_processes", effect, fmt.Sprintf(text, show(others), show(short))})
	}
	if m.Allowed.Known() && m.Backend != MPS {
		list = append(list, Advice{"memory_fraction", MayHelp, fmt.Sprintf(
			"the process may reserve %s only: a larger fraction for this process (set_per_process_memory_fraction) gives it more of the card", show(m.Allowed))})
	}
	return append(list,
		Advice{"allocator_settings", DoesNotHelp, "no allocator setting helps: all that is cached was already counted as usable"},
		Advice{"empty_cache", DoesNotHelp, "emptying the cache does not help: the allocator had already given back what it could before it failed"})
}

// fragmented is for bytes that are there, but perhaps not in one piece.
func (m *OutOfMemory) fragmented(log *Log) []Advice {
	var list []Advice
	switch {
	case log.expandable():
		list = append(list, Advice{"expandable_segments", DoesNotHelp, "expandable segments are already on"})
	case m.Backend == CUDA || m.Backend == HIP || m.Backend == UnknownBackend:
		list = append(list, Advice{"expandable_segments", MayHelp, fmt.Sprintf(
			"expandable_segments:True may help: %s are cached in blocks that could not serve %s", show(m.Unallocated), show(m.Request))})
	}
	if m.Allowed.Known() && m.Backend != MPS {
		list = append(list, Advice{"memory_fraction", MayHelp, fmt.Sprintf("the process may reserve %s only: a larger fraction gives it more of the card", show(m.Allowed))})
	}
	return append(list,
		Advice{"snapshot", MayHelp, "a memory snapshot at this moment shows the free blocks, and so proves or refutes fragmentation"},
		Advice{"hold_less", MayHelp, fmt.Sprintf("%s less held or asked for needs no cached block at all", show(least(m.Request.Minus(m.free(), m.Request.Provenance))))},
		Advice{"empty_cache", DoesNotHelp, "emptying the cache does not help: the allocator had already given back the blocks that were wholly free"})
}

// others is what other processes hold on the device.
func (m *OutOfMemory) others() account.Figure {
	used, own := m.used(), m.process()
	if !used.Known() || !own.Known() {
		return account.Unknown("the message does not say which process holds what", used.Provenance)
	}
	return least(used.Minus(own, used.Provenance))
}

// printedHint judges the advice that the message itself gives.
func (m *OutOfMemory) printedHint(log *Log) (Advice, bool) {
	a := Advice{Code: "printed_hint", Effect: DoesNotHelp}
	switch m.Hint {
	case HintExpandable, HintMaxSplit:
		switch {
		case m.Class == FragmentationPlausible && m.Hint == HintExpandable && log.expandable():
			a.Text = "the message's own hint does not apply: expandable segments are already on"
		case m.Class == FragmentationPlausible:
			a.Effect, a.Text = MayHelp, fmt.Sprintf("the message's own hint (%s) may apply here", m.Hint)
		case m.Class == CannotTell:
			a.Effect, a.Text = MayHelp, fmt.Sprintf("the message prints its hint (%s) whatever the numbers are; these do not say whether it applies", m.Hint)
		default:
			a.Text = fmt.Sprintf("the message's own hint (%s) does not apply: it is against fragmentation, and this is %s", m.Hint, m.Class)
		}
	case HintEmptyCache:
		a.Text = "the message's own hint (empty_cache) does not apply: the allocator had already given back what it could"
	case HintHighWatermark:
		a.Effect, a.Text = MayHelp, "without the upper limit the request is tried, at the cost of swapping or of the whole system: it makes no memory"
	default:
		return Advice{}, false
	}
	return a, true
}

// missing names the numbers that would settle the class.
func (m *OutOfMemory) missing() string {
	var names []string
	for _, n := range []struct {
		name string
		f    account.Figure
	}{
		{"the request", m.Request}, {"the capacity", m.Capacity}, {"what was free", m.Free},
		{"what was allocated", m.Allocated}, {"what was reserved", m.Reserved},
	} {
		if !n.f.Known() {
			names = append(names, n.name)
		}
	}
	if len(names) == 0 {
		return "all numbers are there, and their rounding leaves it open: the allocator's exact counters at this moment would close it"
	}
	return "the message does not give " + strings.Join(names, ", ") + ": the whole message, or a record of the run, would close it"
}

// expandable reports whether the text shows expandable segments to be on.
func (l *Log) expandable() bool {
	s, shown := l.setting("expandable_segments")
	return shown && strings.EqualFold(s.Value, "true")
}
