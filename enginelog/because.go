package enginelog

import (
	"fmt"

	"floodmark/account"
)

// because is the class as a sentence with its numbers, and what held the card.
func (m *OutOfMemory) because() string {
	if m.conflict != "" && m.Class == CannotTell {
		return "the numbers contradict each other: " + m.conflict
	}
	text := m.reason()
	if holds := m.holdings(); holds != "" && m.Class != AbsurdSize && m.Class != Spill {
		text += ". " + holds
	}
	return text
}

func (m *OutOfMemory) reason() string {
	switch m.Class {
	case Spill:
		return fmt.Sprintf("tensors hold %s, more than the %s that the card has: the driver has moved bytes to main memory",
			show(m.Allocated), show(m.Capacity))
	case AbsurdSize:
		return "no memory holds as many bytes as were asked for: a shape or a count is corrupt, and memory is not the question"
	case LimitOutsideAllocator:
		return fmt.Sprintf("%s were free and %s were asked for: something outside the allocator refused them",
			m.freely(), show(m.Request))
	case Exhaustion:
		return m.exhausted()
	case FragmentationPlausible:
		return fmt.Sprintf("%s were asked for and only %s were free, but with the %s that the allocator caches unused it would be enough: fragmentation is plausible, not proven",
			show(m.Request), m.freely(), show(m.Unallocated))
	}
	switch {
	case len(m.Possible) > 0 && m.Request.Known() && m.free().Known():
		return fmt.Sprintf("%s were asked for and %s were free: the numbers that are printed leave it open whether this is %s",
			show(m.Request), m.freely(), alternatives(m.Possible))
	case len(m.Possible) > 0:
		return "the numbers that are printed leave it open whether this is " + alternatives(m.Possible)
	case m.retold:
		return "an engine says in its own words that memory ran out; the message with the numbers is another one of the whole log"
	}
	return "the message gives no numbers to compare"
}

// exhausted says why nothing would have served the request.
func (m *OutOfMemory) exhausted() string {
	if m.Backend == MPS && m.Reserved.Known() && m.OtherAllocations.Known() {
		sum := account.Sum(m.Reserved.Provenance, m.Reserved, m.OtherAllocations, m.Request)
		return fmt.Sprintf("%s that PyTorch allocated, %s of other allocations and the %s asked for are %s together, more than the %s allowed",
			show(m.Reserved), show(m.OtherAllocations), show(m.Request), show(sum), show(m.Allowed))
	}
	if m.era == ofAsync && m.capped() {
		return fmt.Sprintf("%s were free, less than the %s asked for", m.freely(), show(m.Request))
	}
	live := account.Sum(m.Allocated.Provenance, m.Allocated, m.Request)
	if live.Known() && exceeds(live, m.Capacity) == yes {
		return fmt.Sprintf("live tensors and the request together are %s, more than the %s that the card has",
			show(live), show(m.Capacity))
	}
	if m.Unallocated.Known() && m.free().Known() {
		return fmt.Sprintf("everything free (%s) and everything cached (%s) together is %s, less than the %s asked for",
			m.freely(), show(m.Unallocated), show(m.room()), show(m.Request))
	}
	most, _ := m.room().High()
	return fmt.Sprintf("there was room for %s at the very most, less than the %s asked for",
		show(account.Exact(most, m.Request.Provenance)), show(m.Request))
}

// freely is what was free to the process, and what capped it.
func (m *OutOfMemory) freely() string {
	if !m.capped() {
		return show(m.free())
	}
	if m.era == ofAsync {
		return fmt.Sprintf("%s (the process may allocate %s and has allocated %s, though the device had %s free)",
			show(m.free()), show(m.Allowed), show(m.Allocated), show(m.Free))
	}
	return fmt.Sprintf("%s (the process may reserve %s and has reserved %s, though the device had %s free)",
		show(m.free()), show(m.Allowed), show(m.Reserved), show(m.Free))
}

// holdings says what the card was full of, from live tensors outwards.
func (m *OutOfMemory) holdings() string {
	if !m.Allocated.Known() || !m.Capacity.Known() {
		return ""
	}
	var list []string
	add := func(f account.Figure, what string) {
		if high, known := f.High(); known && high > 0 {
			list = append(list, show(f)+" "+what)
		}
	}
	add(m.PrivatePools, "free in private pools of graphs")
	add(m.Unallocated, "cached unused")
	add(m.outside(), "of this process outside PyTorch's allocator")
	if own := m.process(); own.Known() {
		if others := m.others(); others.Low() > 0 {
			list = append(list, m.held()+" of "+m.otherNames())
		}
	} else {
		add(m.elsewhere(), "outside this allocator (of this process or of others)")
	}
	if !m.Reserved.Known() && !m.Unallocated.Known() {
		add(least(m.used().Minus(m.Allocated, m.Allocated.Provenance)), "cached unused or outside this allocator, which the message does not tell apart")
	}
	add(m.Free, "free")
	text := fmt.Sprintf("Live tensors fill %s of the card's %s", show(m.Allocated), show(m.Capacity))
	if len(list) == 0 {
		return text
	}
	return text + "; the rest is " + ordinary(list, "and")
}

// outside is what this process holds beside PyTorch's allocator: its context,
// its libraries, and what they allocate.
func (m *OutOfMemory) outside() account.Figure {
	own := m.process()
	return least(own.Minus(m.Reserved, derived(own, account.Process, "process − reserved")))
}

// elsewhere is what is in use on the device beside this allocator, where the
// message does not say by whom.
func (m *OutOfMemory) elsewhere() account.Figure {
	used := m.used()
	return least(used.Minus(m.Reserved, derived(used, account.Device, "capacity − free − reserved")))
}

// others is what other processes hold on the device.
func (m *OutOfMemory) others() account.Figure {
	used, own := m.used(), m.process()
	if !used.Known() || !own.Known() {
		return account.Unknown("the message does not say which process holds what", used.Provenance)
	}
	return least(used.Minus(own, used.Provenance))
}

// held is what the other processes hold: as it was printed where there is one,
// else by what the card leaves.
func (m *OutOfMemory) held() string {
	own := m.own()
	if len(m.Processes) == 2 && own >= 0 {
		return show(m.Processes[1-own].Bytes)
	}
	return show(m.others())
}

// otherNames names the other processes, as far as the message does.
func (m *OutOfMemory) otherNames() string {
	own := m.own()
	var names, sizes []string
	for i, p := range m.Processes {
		if i != own {
			names = append(names, process(p.PID))
			sizes = append(sizes, fmt.Sprintf("%s (%s)", process(p.PID), show(p.Bytes)))
		}
	}
	switch len(names) {
	case 0:
		return "others that the message does not name"
	case 1:
		return names[0]
	}
	return ordinary(sizes, "and")
}

// named reports whether the message names another process.
func (m *OutOfMemory) named() bool {
	own := m.own()
	return len(m.Processes) > 1 || (len(m.Processes) == 1 && own < 0)
}

func alternatives(classes []Class) string {
	var names []string
	for _, c := range classes {
		names = append(names, c.words())
	}
	return ordinary(names, "or")
}
