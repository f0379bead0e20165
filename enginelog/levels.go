package enginelog

import (
	"floodmark/account"
)

// derive fills in what follows from the numbers of one moment.
//
// PyTorch ≥ 2.1 prints as "allocated" the allocated bytes and the free blocks
// of private pools together, and as "unallocated" what remains of reserved
// (c10/cuda/CUDACachingAllocator.cpp). Until 2.0 it prints reserved, and until
// 1.3 what is cached on top of allocated.
func (m *OutOfMemory) derive() {
	printed := m.Allocated
	if m.PrivatePools.Known() && printed.Known() {
		m.Allocated = least(printed.Minus(m.PrivatePools, derived(printed, account.Allocated, "allocated − private pools")))
	}
	if !m.Reserved.Known() && printed.Known() && m.Unallocated.Known() {
		m.Reserved = account.Sum(derived(printed, account.Reserved, "allocated + unallocated"), printed, m.Unallocated)
	}
	if !m.Unallocated.Known() && m.Reserved.Known() && printed.Known() {
		m.Unallocated = least(m.Reserved.Minus(printed, derived(m.Reserved, account.Reserved, "reserved − allocated")))
	}
}

// derived is the provenance of a figure that follows from printed ones.
func derived(from account.Figure, scope account.Scope, counter string) account.Provenance {
	return account.Provenance{Origin: account.Observed, Scope: scope, Counter: counter, Source: from.Source}
}

// least takes away what rounding makes negative.
func least(f account.Figure) account.Figure {
	high, known := f.High()
	if !known || f.Low() >= 0 {
		return f
	}
	return account.Between(0, max(high, 0), f.Provenance)
}

// used is what is in use on the device: capacity − free, both of one moment.
func (m *OutOfMemory) used() account.Figure {
	p := derived(m.Capacity, account.Device, "capacity − free")
	if m.conflict != "" {
		return account.Unknown("the message's numbers contradict each other", p)
	}
	if !m.Capacity.Known() || !m.Free.Known() {
		return account.Unknown("the message does not give both capacity and free", p)
	}
	return least(m.Capacity.Minus(m.Free, p))
}

// own is which of the processes is the failing one; −1 when the message does
// not say. In a container the driver's process ids are not those that PyTorch
// knows, so that it prints its own process under its number: a process is its
// own if what the others and the free bytes leave of the card could not hold
// what PyTorch reserved.
func (m *OutOfMemory) own() int {
	used := m.used()
	for i, p := range m.Processes {
		if p.PID == 0 {
			return i
		}
	}
	for i, p := range m.Processes {
		rest := used.Minus(p.Bytes, used.Provenance)
		if high, known := rest.High(); known && high < m.Reserved.Low() {
			return i
		}
	}
	return -1
}

// process is what the failing process holds.
func (m *OutOfMemory) process() account.Figure {
	if m.Backend == MPS && m.Reserved.Known() && m.OtherAllocations.Known() {
		return account.Sum(derived(m.Reserved, account.Process, "MPS allocated + other allocations"), m.Reserved, m.OtherAllocations)
	}
	if own := m.own(); own >= 0 {
		return m.Processes[own].Bytes
	}
	return account.Unknown("the message does not say which process is its own",
		derived(m.Capacity, account.Process, "in_use"))
}

// Levels are the bytes of the moment, scope by scope.
func (m *OutOfMemory) Levels() account.Levels {
	return account.Levels{
		Allocated: m.Allocated, Active: m.Active, Reserved: m.Reserved,
		Process: m.process(), Device: m.used(),
	}
}

// Accounts gives one account for each failure. Its one phase is a recorded
// moment, or a moment of the phase that the text names: start and end are that moment, its levels are lower bounds of the
// peaks, and its failure is the message. Without a rank in the text it is rank
// 0, the only one of a program that runs alone.
func (l *Log) Accounts() []account.Account {
	var list []account.Account
	for i := range l.OutOfMemory {
		list = append(list, l.OutOfMemory[i].account())
	}
	return list
}

func (m *OutOfMemory) account() account.Account {
	levels := m.Levels()
	phase := account.Phase{
		ID: account.PhaseRecorded, Input: -1, Start: levels, End: levels, Failed: m.Message,
	}
	for _, scope := range account.Scopes() {
		if f := levels.In(scope); f.Known() {
			phase.Peaks = append(phase.Peaks, account.Peak{Figure: f, Moment: -1})
		}
	}
	if m.Phase != "" {
		phase.ID = m.Phase
	}
	a := account.Account{Ranks: []int{max(m.Rank, 0)}, Device: m.Device}
	for _, part := range m.parts(levels) {
		a.Terms = append(a.Terms, part.term)
		phase.AtPeak = append(phase.AtPeak, account.Share{Term: len(a.Terms) - 1, Bytes: part.bytes})
	}
	a.Phases = []account.Phase{phase}
	if m.Retried {
		a.Warnings = append(a.Warnings, account.Warning{Code: "retried",
			Text: "this is a warning of a retry: the allocator frees what it caches and tries again, so the program may have gone on"})
	}
	return a
}

type part struct {
	term  account.Term
	bytes account.Figure
}

// parts are what the device holds, from the inside outwards, as far as the
// message tells: each scope without the one inside it.
func (m *OutOfMemory) parts(l account.Levels) []part {
	var list []part
	add := func(id account.TermID, category account.Category, f account.Figure) {
		if f.Known() {
			list = append(list, part{account.Term{ID: id, Category: category, Provenance: f.Provenance}, f})
		}
	}
	add(account.TermUnattributed, account.CategoryUnattributed, l.Allocated)
	add(account.TermGraphPools, account.CategoryGraphPool, m.PrivatePools)
	add(account.TermAllocatorCache, account.CategoryAllocatorCache, m.Unallocated)
	if m.Backend == MPS {
		add(account.TermContext, account.CategoryContext, m.OtherAllocations)
		return list
	}
	if l.Process.Known() && l.Reserved.Known() {
		add(account.TermContext, account.CategoryContext,
			least(l.Process.Minus(l.Reserved, derived(l.Process, account.Process, "process − reserved"))))
		if l.Device.Known() {
			add(account.TermOtherProcesses, account.CategoryOther,
				least(l.Device.Minus(l.Process, derived(l.Device, account.Device, "device − process"))))
		}
	}
	return list
}
