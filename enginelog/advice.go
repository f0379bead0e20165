package enginelog

import (
	"fmt"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/internal/sorting"
)

// Effect says what a step would do about a failure.
type Effect string

const (
	Helps       Effect = "helps"
	MayHelp     Effect = "may_help"
	DoesNotHelp Effect = "does_not_help"
	// MoreInformation frees nothing, but would tell more.
	MoreInformation Effect = "more_information"
)

// Advice is one step and what it would do here.
type Advice struct {
	Code   string // stable, lower_snake_case
	Effect Effect
	Text   string // what to do or not to do, with the numbers; reads on after the effect
}

// advice is what would help, then what would tell more, then what would not help;
// within each the most useful first.
func (m *OutOfMemory) advice(log *Log) []Advice {
	list := m.steps(log)
	if hint, printed := m.printedHint(list); printed {
		list = append(list, hint)
	}
	sorting.By(list, func(i, j int) int { return list[i].Effect.order() - list[j].Effect.order() })
	return list
}

func (e Effect) order() int {
	switch e {
	case MoreInformation:
		return 1
	case DoesNotHelp:
		return 2
	}
	return 0
}

func (m *OutOfMemory) steps(log *Log) []Advice {
	switch m.Class {
	case Spill:
		return []Advice{
			{"hold_less", Helps, fmt.Sprintf("holding at least %s less, so that tensors are within the card", show(least(m.Allocated.Minus(m.Capacity, m.Capacity.Provenance))))},
			{"system_memory_fallback", MayHelp, "switching the driver's fallback to system memory off: it then fails at once instead of slowing down"},
			{"allocator_settings", DoesNotHelp, "an allocator setting: none makes the card larger"},
		}
	case AbsurdSize:
		return []Advice{
			{"check_shape", Helps, "finding a negative or corrupt dimension in the operation that the traceback names"},
			{"larger_card", DoesNotHelp, "a larger card: none is large enough"},
			{"allocator_settings", DoesNotHelp, "an allocator setting: none serves such a request"},
		}
	case LimitOutsideAllocator:
		return m.refused(log)
	case Exhaustion:
		return m.shortage()
	case FragmentationPlausible:
		return m.fragmented(log)
	}
	return m.undecided()
}

// undecided is for numbers that leave the class open: less held or asked for,
// and more of the card, help whichever it is.
func (m *OutOfMemory) undecided() []Advice {
	if m.conflict != "" {
		return []Advice{{"complete_message", MoreInformation, "the message as the program printed it: as it stands here it cannot be right"}}
	}
	short := least(m.Request.Minus(m.free(), m.Request.Provenance))
	open := Advice{"complete_message", MoreInformation, m.missing()}
	if high, known := short.High(); !known || high == 0 {
		return append(m.remedies(), open)
	}
	list, later := m.sharing(short)
	list = append(list, m.remedies()...)
	list = append(list, m.enough(short))
	list = append(list, later...)
	list = append(list, m.fraction()...)
	return append(list, open)
}

// enough is to hold so much less that no cached block is needed.
func (m *OutOfMemory) enough(short account.Figure) Advice {
	if high, _ := short.High(); short.Low() == 0 {
		return Advice{"hold_less", MayHelp, fmt.Sprintf("holding or asking for up to %s less: rounding leaves it open how much was missing",
			show(account.Exact(high, short.Provenance)))}
	}
	return Advice{"hold_less", Helps, fmt.Sprintf("holding or asking for %s less: what is free is then enough, without any cached block", show(short))}
}

// refused is for bytes that were free and still not given.
func (m *OutOfMemory) refused(log *Log) []Advice {
	list := []Advice{{"check_limits", Helps, "finding the limit that refused free bytes: the commit limit of Windows, a container's or job's memory limit, " +
		"a limit on one allocation, a virtual GPU's quota, or a process that took the bytes in between and gave them back"}}
	if log.expandable() {
		list = append(list, Advice{"expandable_segments_off", MayHelp,
			"switching expandable segments off: some drivers refuse to map them (WSL is one)"})
	}
	if m.Unallocated.Known() {
		list = append(list, Advice{"allocator_settings", DoesNotHelp, fmt.Sprintf(
			"an allocator setting: %s were free as they were, whatever the %s that are cached unused could serve", show(m.free()), show(m.Unallocated))})
	}
	return list
}

// shortage is for a request that nothing could have served.
func (m *OutOfMemory) shortage() []Advice {
	short := least(m.Request.Minus(m.room(), m.Request.Provenance))
	list, later := m.sharing(short)
	list = append(list, m.remedies()...)
	list = append(list, Advice{"hold_less", Helps, "holding or asking for " + shortfall(short) + " less at this moment"})
	list = append(list, later...)
	list = append(list, m.fraction()...)
	if m.Backend == MPS {
		return list
	}
	return append(list,
		Advice{"allocator_settings", DoesNotHelp, "an allocator setting: all that is cached was already counted as usable"},
		Advice{"empty_cache", DoesNotHelp, "empty_cache(): the allocator had already given back what it could before it failed"})
}

// shortfall is how much is missing: an interval, or where that says little its
// lower end.
func shortfall(f account.Figure) string {
	if high, known := f.High(); known && high/2 <= f.Low() {
		return show(f)
	}
	return "at least " + show(account.Exact(f.Low(), f.Provenance))
}

// fragmented is for bytes that are there, but perhaps not in one piece.
func (m *OutOfMemory) fragmented(log *Log) []Advice {
	short := least(m.Request.Minus(m.free(), m.Request.Provenance))
	list, later := m.sharing(short)
	list = append(list, m.remedies()...)
	list = append(list, m.settings(log)...)
	list = append(list, m.fraction()...)
	list = append(list,
		m.enough(short),
		Advice{"snapshot", MoreInformation, "a memory snapshot of this moment: it shows the free blocks, and so proves or refutes fragmentation"})
	list = append(list, later...)
	return append(list,
		Advice{"empty_cache", DoesNotHelp, "empty_cache(): the allocator had already given back the blocks that were wholly free"})
}

// sharing is about what others hold on the card: in the first list where that
// could close a gap, in the second, for later, where it is too little. A request
// is served for sure once the driver has it free, besides all that is cached.
func (m *OutOfMemory) sharing(gap account.Figure) (first, later []Advice) {
	enough := least(m.Request.Minus(m.free(), m.Request.Provenance))
	others := m.others()
	small := exceeds(gap, others) == yes
	switch {
	case !others.Known():
		return m.owners(gap)
	case others.Low() <= 0, !m.named() && (m.capped() || small):
		return nil, nil
	case m.capped():
		return nil, []Advice{{"free_other_processes", DoesNotHelp, fmt.Sprintf(
			"ending %s, with %s of this card: the limit of this process is what binds", m.otherNames(), m.held())}}
	case small:
		return nil, []Advice{{"free_other_processes", DoesNotHelp, fmt.Sprintf(
			"ending %s alone: its %s of this card are less than the %s that are missing", m.otherNames(), m.held(), show(enough))}}
	}
	effect := MayHelp
	if exceeds(enough, others) == no {
		effect = Helps
	}
	return []Advice{{"free_other_processes", effect, fmt.Sprintf(
		"ending %s, or using another card: %s of this card are not this process's, and %s are missing", m.otherNames(), m.held(), show(enough))}}, nil
}

// owners is for a card of which something is held outside this allocator, where
// the message does not say by whom. It comes first where that is more than
// PyTorch itself holds.
func (m *OutOfMemory) owners(gap account.Figure) (first, later []Advice) {
	rest := m.elsewhere()
	if !rest.Known() || rest.Low() <= 0 || m.capped() || exceeds(gap, rest) == yes {
		return nil, nil
	}
	list := []Advice{{"find_owners", MayHelp, fmt.Sprintf(
		"freeing what is held outside this process's PyTorch: %s of this card, by other processes or by its own context and libraries (nvidia-smi names the owners)", show(rest))}}
	if exceeds(rest, m.Reserved) == yes {
		return list, nil
	}
	return nil, list
}

// fraction is for a process that was given a share of the card.
func (m *OutOfMemory) fraction() []Advice {
	if !m.Allowed.Known() || m.Allowed.In(bytesize.B) == m.Capacity.In(bytesize.B) {
		return nil // or all of the card, which is no limit
	}
	if m.Backend == MPS {
		return []Advice{{"empty_cache", DoesNotHelp, "empty_cache(): the allocator had already given back all that it cached"}}
	}
	verb := "reserve"
	if m.era == ofAsync {
		verb = "allocate"
	}
	return []Advice{{"memory_fraction", MayHelp, fmt.Sprintf(
		"a larger fraction of the card for this process (set_per_process_memory_fraction): it may %s %s only", verb, show(m.Allowed))}}
}

// remedies is what the engine itself advises.
func (m *OutOfMemory) remedies() []Advice {
	if len(m.Remedies) == 0 {
		return nil
	}
	text := "lowering " + ordinary(m.Remedies, "or") + ", as the engine itself says: its cache was sized before this request came"
	if m.Capacity.Known() {
		text += fmt.Sprintf(" (0.01 of gpu_memory_utilization is %s GiB here)", bytesize.Fixed(m.Capacity.Low()/100, bytesize.GiB, 2))
	}
	return []Advice{{"engine_options", Helps, text}}
}

// missing names the numbers that would settle the class.
func (m *OutOfMemory) missing() string {
	var names []string
	unified := m.Backend == MPS && m.Allowed.Known() // its message counts within what is allowed
	for _, n := range []struct {
		name string
		f    account.Figure
		asks bool // the class needs it
	}{
		{"the request", m.Request, true}, {"the capacity", m.Capacity, !unified}, {"what was free", m.Free, !unified},
		{"what was allocated", m.Allocated, !unified}, {"what was reserved", m.Reserved, true},
	} {
		if n.asks && !n.f.Known() {
			names = append(names, n.name)
		}
	}
	if len(names) == 0 {
		return "the allocator's exact counters at this moment: all numbers are printed, and their rounding leaves it open"
	}
	verb := " are"
	if len(names) == 1 {
		verb = " is"
	}
	return "the whole message, or a record of the run: " + ordinary(names, "and") + verb + " not in this text"
}

// expandable reports whether the text shows expandable segments to be on.
func (l *Log) expandable() bool {
	s, shown := l.setting("expandable_segments")
	return shown && strings.EqualFold(s.Value, "true")
}
