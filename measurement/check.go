package measurement

import (
	"fmt"
	"strings"

	"floodmark/account"
)

// contradictions lists the counters of a phase that cannot be: allocated is
// inside reserved, and a peak is at least every level of its phase.
func contradictions(p Phase) []account.Warning {
	var list []account.Warning
	refuse := func(code, text string) {
		list = append(list, account.Warning{Code: code, Text: where(p) + ": " + text})
	}
	for _, c := range []struct {
		name string
		at   Counters
	}{{"start", p.Start}, {"peak", p.Peak}, {"end", p.End}} {
		if above(c.at.Allocated, c.at.Reserved) {
			refuse("reserved_below_allocated", fmt.Sprintf("at the %s %d bytes were allocated and only %d reserved, which cannot be", c.name, *c.at.Allocated, *c.at.Reserved))
		}
	}
	for _, level := range []struct {
		name string
		at   Counters
	}{{"start", p.Start}, {"end", p.End}} {
		if above(level.at.Allocated, p.Peak.Allocated) || above(level.at.Reserved, p.Peak.Reserved) {
			refuse("peak_below_level", "a peak is below the level at the "+level.name+": something else reset the counters within the phase")
		}
	}
	return list
}

func above(a, b *int64) bool { return a != nil && b != nil && *a > *b }

// where names a phase in a sentence.
func where(p Phase) string {
	name := p.Name
	if name == "" {
		name = string(p.ID)
	}
	if p.Step > 0 {
		name += fmt.Sprintf(" %d", p.Step)
	}
	if p.Rank >= 0 {
		name = fmt.Sprintf("rank %d, ", p.Rank) + name
	}
	if p.Device >= 0 {
		name += fmt.Sprintf(" on cuda:%d", p.Device)
	}
	return name
}

// Check adds what the readings themselves say is wrong or not known.
func (m *Measurement) Check() {
	for _, p := range m.Phases {
		m.Warnings = append(m.Warnings, contradictions(p)...)
	}
	m.Warnings = append(m.Warnings, m.absent()...)
	if lacks := m.Trial.lacks(); m.Subject == Program && len(lacks) > 0 {
		m.Warnings = append(m.Warnings, account.Warning{Code: "not_recorded", Text: "not recorded of this trial: " + strings.Join(lacks, ", ") + " (--trial model=…, revision=…, input_set=…, seed=…)"})
	}
	for _, w := range []*account.Warning{m.notCold(), m.noUpdate(), m.noDevice()} {
		if w != nil {
			m.Warnings = append(m.Warnings, *w)
		}
	}
}

// noDevice tells of a program whose phases all ran without a device: no CPU is
// taken for a GPU.
func (m *Measurement) noDevice() *account.Warning {
	for _, p := range m.Phases {
		if p.Device >= 0 {
			return nil
		}
	}
	if len(m.Phases) == 0 {
		return nil
	}
	return &account.Warning{Code: "no_device", Text: "no phase had a device: the program ran without a GPU, and nothing here measures one"}
}

// noUpdate tells of a training of which no update was seen: the optimizer
// allocates its states in the first one.
func (m *Measurement) noUpdate() *account.Warning {
	backward, update := false, false
	for _, p := range m.Phases {
		backward = backward || p.ID == account.PhaseBackward
		update = update || p.ID == account.PhaseOptimizerStep && p.Status == Completed
	}
	if !backward || update {
		return nil
	}
	return &account.Warning{Code: "optimizer_states_not_observed", Text: "no update of the optimizer was seen to its end, so its states are in no figure here"}
}

// absent are the ranks that never said anything or stopped in the middle.
func (m *Measurement) absent() []account.Warning {
	var list []account.Warning
	for i, r := range m.Ranks {
		switch {
		case r.Status == RankMissing:
			list = append(list, account.Warning{Code: "rank_missing",
				Text: fmt.Sprintf("rank %d of %d never reported: nothing is known of its memory, and no other rank speaks for it", r.Rank, r.World)})
		case r.Status == RankCut && m.measured(i):
			list = append(list, account.Warning{Code: "rank_cut",
				Text: fmt.Sprintf("the readings of %s stop: it was killed or left without notice, so its last peaks are lower bounds", r.name())})
		}
		if r.Dropped > 0 {
			list = append(list, account.Warning{Code: "readings_dropped",
				Text: fmt.Sprintf("%d readings of process %d could not be written (was the disk full?)", r.Dropped, r.PID)})
		}
	}
	return list
}

// name is a process in a sentence.
func (r Rank) name() string {
	if r.Rank < 0 {
		return fmt.Sprintf("process %d", r.PID)
	}
	return fmt.Sprintf("rank %d (process %d)", r.Rank, r.PID)
}

// notCold tells of a series whose first phase found memory in use: objects were
// left behind, so it does not measure the first pass.
func (m *Measurement) notCold() *account.Warning {
	if m.Subject != Lab {
		return nil
	}
	for _, p := range m.Phases {
		if p.Device < 0 || p.Start.Allocated == nil {
			continue
		}
		if *p.Start.Allocated > 0 {
			return &account.Warning{Code: "not_cold", Text: fmt.Sprintf("%d bytes were allocated before the first phase: this series did not start cold", *p.Start.Allocated)}
		}
		return nil
	}
	return nil
}
