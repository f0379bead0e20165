package measurement

import (
	"cmp"
	"slices"

	"floodmark/account"
	"floodmark/internal/sorting"
)

// maxRanks bounds how many ranks are listed as missing.
const maxRanks = 1 << 16

// Merge makes one measurement of the streams of a run: a process each, ranks
// first. Expected is how many ranks the command asked for; 0 when it does not
// say. A rank that no stream has is there as missing.
func Merge(subject Subject, streams []*Stream, expected int) *Measurement {
	m := &Measurement{Subject: subject}
	streams = slices.Clone(streams)
	sorting.By(streams, func(i, j int) int {
		a, b := streams[i], streams[j]
		return cmp.Or(cmp.Compare(last(a.Process.Rank), last(b.Process.Rank)), cmp.Compare(a.Began, b.Began))
	})
	m.Policy = Policy{Instrumented: len(streams) > 0, RepeatKind: "in_process", Order: 1}
	said := map[account.Warning]bool{}
	for _, s := range streams {
		m.add(s, replaced(s, streams))
		m.warn(s.Warnings, said)
	}
	m.addMissing(expected)
	if m.Policy.Instrumented {
		m.Policy.Protocol = "synchronize, read, reset peaks, run, synchronize, read"
	}
	return m
}

// last puts processes without a rank behind those that have one.
func last(rank int) int {
	if rank < 0 {
		return maxRanks
	}
	return rank
}

// replaced reports a process that went on as another program.
func replaced(s *Stream, streams []*Stream) bool {
	return slices.ContainsFunc(streams, func(t *Stream) bool {
		return t != s && t.Process.PID == s.Process.PID && t.Process.Host == s.Process.Host && t.Began > s.Began
	})
}

func (m *Measurement) add(s *Stream, replaced bool) {
	process := s.Process
	if replaced && process.Status == RankCut {
		process.Status = RankReplaced
	}
	index := len(m.Ranks)
	m.Ranks = append(m.Ranks, process)
	for _, p := range s.Phases {
		p.Process = index
		m.Phases = append(m.Phases, p)
	}
	m.Environment.extend(s.Environment)
	if s.Verifying {
		m.Policy.Instrumented = false
	}
	if lab := s.Lab; lab != nil {
		m.Trial = Trial{Model: "the lab's network", InputSet: "synthetic", Seed: lab.Seed}
		m.Policy.Warmup, m.Policy.Repeats, m.Policy.EmptyCache = lab.Warmup, lab.Repeats, lab.EmptyCache
	}
}

// warn adds what no stream said before.
func (m *Measurement) warn(warnings []account.Warning, said map[account.Warning]bool) {
	for _, w := range warnings {
		if !said[w] {
			said[w] = true
			m.Warnings = append(m.Warnings, w)
		}
	}
}

// extend fills in what is not known yet.
func (e *Environment) extend(o Environment) {
	if e.PyTorch == "" && o.PyTorch != "" {
		// The process that loaded PyTorch is the one that is measured.
		e.Python, e.PyTorch, e.Backend, e.Extensions = o.Python, o.PyTorch, o.Backend, o.Extensions
	}
	e.Python = cmp.Or(e.Python, o.Python)
	e.Allocator, e.Settings = cmp.Or(e.Allocator, o.Allocator), cmp.Or(e.Settings, o.Settings)
	for _, d := range o.Devices {
		if !slices.ContainsFunc(e.Devices, func(k Device) bool { return k.Index == d.Index && k.UUID == d.UUID }) {
			e.Devices = append(e.Devices, d)
		}
	}
}

// addMissing lists the ranks that never reported.
func (m *Measurement) addMissing(expected int) {
	world := min(expected, maxRanks)
	seen := map[int]bool{}
	for _, r := range m.Ranks {
		world = max(world, r.World)
		if r.Rank >= 0 {
			seen[r.Rank] = true
		}
	}
	if world < 2 {
		return // one process needs no rank
	}
	for rank := range world {
		if !seen[rank] {
			m.Ranks = append(m.Ranks, Rank{Rank: rank, World: world, Status: RankMissing})
		}
	}
}

// measured reports a process that matters: it has a rank, or phases.
func (m *Measurement) measured(index int) bool {
	return m.Ranks[index].Rank >= 0 || slices.ContainsFunc(m.Phases, func(p Phase) bool { return p.Process == index })
}

// Lost tells of a run in which nothing reported, and why that may be.
func (m *Measurement) Lost(why string) {
	m.Warnings = append(m.Warnings, account.Warning{Code: "nothing_reported", Text: why})
}
