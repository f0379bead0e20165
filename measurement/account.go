package measurement

import (
	"floodmark/account"
	"floodmark/internal/sorting"
)

// protocol is where the meaning of the counters is written.
const protocol = "torch.cuda memory counters, https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management"

// Accounts is one account a rank and device: what each phase held at its start,
// peak and end. A phase that did not complete has lower bounds, and one that was
// not seen has no figures.
func (m *Measurement) Accounts() []account.Account {
	type place struct{ process, device int }
	var order []place
	accounts := map[place]*account.Account{}
	for _, p := range m.Phases {
		if p.Device < 0 {
			continue
		}
		at := place{p.Process, p.Device}
		a := accounts[at]
		if a == nil {
			a = &account.Account{Ranks: []int{max(p.Rank, 0)}, Device: p.Device, Warnings: m.Warnings, Subject: subject(m.Subject)}
			accounts[at] = a
			order = append(order, at)
		}
		a.Phases = append(a.Phases, phaseOf(a, p))
	}
	list := make([]account.Account, 0, len(order))
	for _, at := range order {
		list = append(list, *accounts[at])
	}
	sorting.By(list, func(i, j int) int { return list[i].Ranks[0] - list[j].Ranks[0] })
	return list
}

func subject(s Subject) account.Subject {
	if s == Lab {
		return account.SubjectLab
	}
	return account.SubjectWorkload
}

// phaseOf is a phase as an account says it.
func phaseOf(a *account.Account, p Phase) account.Phase {
	out := account.Phase{ID: p.ID, Step: p.Step, Input: -1, Duration: p.Duration, Start: levels(p.Start), End: levels(p.End)}
	if p.Input != nil {
		out.Input = len(a.Inputs)
		a.Inputs = append(a.Inputs, *p.Input)
	}
	if p.Status != Completed {
		if out.Failed = p.Error; out.Failed == "" {
			out.Failed = "the phase is " + string(p.Status)
		}
	}
	for _, f := range p.Peaks() {
		out.Peaks = append(out.Peaks, account.Peak{Figure: f, Moment: -1})
	}
	return out
}

// levels are the readings of one checkpoint.
func levels(c Counters) account.Levels {
	return account.Levels{
		Allocated: counter(c.Allocated, account.Allocated, "memory_allocated"),
		Reserved:  counter(c.Reserved, account.Reserved, "memory_reserved"),
		Device:    counter(c.Device, account.Device, "mem_get_info"),
		Process:   counter(c.Process, account.Process, "nvml"),
	}
}

func counter(n *int64, scope account.Scope, name string) account.Figure {
	p := account.Provenance{Origin: account.Observed, Scope: scope, Counter: name, Source: protocol}
	if n == nil {
		return account.Unknown("the counter was not read", p)
	}
	return account.Exact(*n, p)
}

// Peaks are the peaks of a phase, scope by scope: exact where a counter kept
// them, from below where the phase did not complete or where samples saw them.
func (p Phase) Peaks() []account.Figure {
	list := []account.Figure{
		p.bound(counter(p.Peak.Allocated, account.Allocated, "max_memory_allocated"), p.Start.Allocated, p.End.Allocated),
		p.Reserved(),
	}
	for _, s := range []struct {
		n     *int64
		scope account.Scope
	}{{p.Sampled.Process, account.Process}, {p.Sampled.Device, account.Device}} {
		if s.n != nil {
			list = append(list, account.AtLeast(*s.n, "samples can miss the peak between two of them",
				account.Provenance{Origin: account.Observed, Scope: s.scope, Counter: "sampled", Source: protocol}))
		}
	}
	return list
}

// Reserved is the peak of reserved bytes. Under cudaMallocAsync the counter is
// an upper bound, and the levels and the allocated peak are the lower one.
func (p Phase) Reserved() account.Figure {
	f := p.bound(counter(p.Peak.Reserved, account.Reserved, "max_memory_reserved"), p.Start.Reserved, p.End.Reserved)
	n, exact := f.IsExact()
	if !p.Async || !exact {
		return f
	}
	low := int64(0)
	for _, level := range []*int64{p.Start.Reserved, p.End.Reserved, p.Peak.Allocated} {
		if level != nil && *level <= n {
			low = max(low, *level)
		}
	}
	return account.Between(low, n, f.Provenance).Because("max_memory_reserved is an upper bound under cudaMallocAsync, which can combine the highs of two pools")
}

// bound makes a lower bound of the peak of a phase that did not complete: the
// highest of what was read of it.
func (p Phase) bound(peak account.Figure, levels ...*int64) account.Figure {
	if p.Status == Completed && peak.Known() {
		return peak
	}
	low := peak.Low()
	for _, level := range levels {
		if level != nil {
			low = max(low, *level)
		}
	}
	why := "the phase is " + string(p.Status) + ": the last readings are a lower bound"
	if p.Status == Completed {
		why = "the peak was not read"
	}
	return account.AtLeast(low, why, peak.Provenance)
}
