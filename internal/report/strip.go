package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"floodmark/bytesize"
	"floodmark/record"
)

// strip is the phases of a job in their order: where each starts, peaks and
// ends, and what the verdict on it is. The first step stands beside the second,
// and the highest phase is marked.
func strip(b *strings.Builder, r record.Rank, s Style) {
	var all []quantity
	judged := false
	for _, p := range r.Phases {
		all = append(all, startedIn(p), allocatedIn(p), endedIn(p), reservedIn(p))
		judged = judged || p.Verdict != nil
	}
	unit := s.unit(all...)
	g := grid{columns: []column{{title: "phase, " + unit.String()}, {title: "step", align: right}, {title: "start", align: right, spare: true},
		{title: "peak", align: right}, {title: "end", align: right}, {title: "reserved", align: right}}}
	if judged {
		g.columns = append(g.columns, column{title: "verdict"})
	}
	for _, p := range r.Phases {
		step := unknown
		if p.Step > 0 {
			step = strconv.Itoa(p.Step)
		}
		cells := []string{stripName(p), step, startedIn(p).number(unit), allocatedIn(p).number(unit), endedIn(p).number(unit), reservedIn(p).number(unit)}
		if judged {
			cells = append(cells, phaseVerdict(p))
		}
		if highestPhase(p, r.Peak) {
			for i := range cells {
				cells[i] = s.bold(cells[i])
			}
		}
		g.row(cells...)
	}
	fitted := g.within(s.Width)
	b.WriteString(fitted.render(s))
	about := "start, peak and end are allocated bytes; reserved is the peak of what the allocator holds"
	if len(fitted.columns) < len(g.columns) {
		about = "peak and end are allocated bytes, and a wider terminal shows the start too; reserved is the peak of what the allocator holds"
	}
	b.WriteString(paragraph(s, "  ", about))
}

// small keeps the tables of a job in GiB, as cards are: one phase that needs a
// thousand times what a card has would make zeros of all others.
func (s Style) small(r record.Rank) Style {
	if s.Unit == nil {
		var all []quantity
		for _, p := range r.Phases {
			all = append(all, process(p))
		}
		if s.unit(all...) == bytesize.TiB {
			unit := bytesize.GiB
			s.Unit = &unit
		}
	}
	return s
}

// isStrip reports phases of a job with steps.
func isStrip(list []record.Phase) bool {
	for _, p := range list {
		if p.Step > 0 {
			return true
		}
	}
	return false
}

// stripName is a phase, and which of several micro-batches it is of.
func stripName(p record.Phase) string {
	if p.MicroBatch > 0 {
		return fmt.Sprintf("%s, micro-batch %d", p.Name, p.MicroBatch)
	}
	return p.Name
}

// phaseVerdict is the answer for one phase alone.
func phaseVerdict(p record.Phase) string {
	if p.Verdict == nil {
		return unknown
	}
	return strings.ReplaceAll(p.Verdict.Value, "_", " ")
}

// highestPhase reports the phase in which the rank stands highest.
func highestPhase(p record.Phase, peak *record.RankPeak) bool {
	return peak != nil && p.Name == peak.Phase && p.Step == peak.Step
}

func startedIn(p record.Phase) quantity {
	return quantity{p.StartAllocatedBytes, p.StartAllocatedLowBytes, p.StartAllocatedHighBytes}
}

func endedIn(p record.Phase) quantity {
	return quantity{p.EndAllocatedBytes, p.EndAllocatedLowBytes, p.EndAllocatedHighBytes}
}

func allocatedIn(p record.Phase) quantity {
	return quantity{p.PeakAllocatedBytes, p.PeakAllocatedLowBytes, p.PeakAllocatedHighBytes}
}

func reservedIn(p record.Phase) quantity {
	return quantity{p.PeakReservedBytes, p.PeakReservedLowBytes, p.PeakReservedHighBytes}
}

// trained is what is trained, with what, in which formats.
func trained(b *strings.Builder, t *record.Training, s Style) {
	line := "trains "
	if t.TrainableParameters != nil {
		line += plural(*t.TrainableParameters, "parameter")
	} else {
		line += unknown
	}
	if f := t.FrozenParameters; f != nil && *f > 0 && t.TrainableParameters != nil {
		line += fmt.Sprintf(" beside %s, %.2f %% of all", plural(*f, "frozen one"), 100*float64(*t.TrainableParameters)/(float64(*t.TrainableParameters)+float64(*f)))
	}
	line += " · " + t.Optimizer
	if t.Implementation != nil && !strings.Contains(t.Optimizer, *t.Implementation) {
		line += " (" + *t.Implementation + ")"
	}
	for _, f := range t.Formats {
		line += " · " + strings.ReplaceAll(f.Tensor, "_", " ") + " " + f.Format
	}
	if t.Autocast != nil {
		line += " · autocast to " + *t.Autocast
	}
	line += " · checkpointing " + t.Checkpointing
	if t.Accumulation > 1 {
		line += fmt.Sprintf(" · %d micro-batches a step", t.Accumulation)
	}
	if len(t.FrozenComponents) > 0 {
		line += " · frozen: " + strings.Join(t.FrozenComponents, ", ")
	}
	b.WriteString(paragraph(s, "  ", line))
	for _, m := range t.Modules {
		if !slices.ContainsFunc(t.Formats, func(f record.TrainingFormat) bool { return f.Tensor == "adapter" }) {
			break // what is trained is no copy and stands beside nothing
		}
		b.WriteString(paragraph(s, "  ", trainedModule(m)))
	}
}

// trainedModule is what is trained of one kind of module.
func trainedModule(m record.TrainedModule) string {
	if m.Parameters == nil || m.Base == nil {
		return "  " + m.Module + ": " + unknown
	}
	if m.Whole {
		return fmt.Sprintf("  %s: all %s are trained, in a copy beside the frozen ones", m.Module, plural(*m.Parameters, "parameter"))
	}
	return fmt.Sprintf("  %s: %s on %s", m.Module, plural(*m.Parameters, "parameter"), plural(*m.Base, "frozen one"))
}
