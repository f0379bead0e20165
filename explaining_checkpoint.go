package floodmark

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"floodmark/account"
	"floodmark/measurement"
	"floodmark/record"
)

// levelFigures are readings of one moment, scope by scope.
type levelFigures map[account.Scope]account.Figure

// checkpointOf sets the levels of one moment inside each other, the widest first;
// nil where fewer than two scopes were read.
func (b *beside) checkpointOf(at string, levels levelFigures) *record.Checkpoint {
	c := &record.Checkpoint{At: at, Rank: b.rank, Device: b.device}
	words := map[account.Scope]string{
		account.Device: "other processes", account.Process: "context, libraries and communicators of this process",
		account.Reserved: "cached: held by the allocator and by no tensor", account.Allocated: "tensors, rounded up to blocks",
	}
	scopes := []account.Scope{account.Device, account.Process, account.Reserved, account.Allocated}
	for i, scope := range scopes {
		f := levels[scope]
		if !f.Known() {
			continue
		}
		level := record.CheckpointLevel{Scope: string(scope), BesideWords: words[scope]}
		level.Bytes, level.LowBytes, level.HighBytes = record.Interval(f)
		for _, inner := range scopes[i+1:] {
			if g := levels[inner]; g.Known() {
				rest := f.Minus(g, account.Provenance{})
				low, high := max(0, rest.Low()), max(0, highOf(rest))
				level.BesideLow, level.BesideHigh = &low, &high
				if scope == account.Device && inner != account.Process {
					level.BesideWords = "context and libraries of this process, and all other processes"
				}
				break
			}
		}
		c.Levels = append(c.Levels, level)
	}
	if len(c.Levels) < 2 {
		return nil
	}
	return c
}

// Reconcile sets the levels of checkpoints of a measurement inside each other:
// "backward#2" is the end of that phase in step 2, "backward#2:start" its start, and
// without a step it is all of them.
func Reconcile(document any, checkpoints []string) (*record.Measurement, error) {
	m, is := document.(*record.Measurement)
	if !is {
		return nil, ErrNoCheckpoints
	}
	copied := *m
	for _, text := range checkpoints {
		name, which, _ := strings.Cut(text, ":")
		if which != "" && which != "start" && which != "end" {
			return nil, &SettingsError{fmt.Errorf("the checkpoint %q is neither :start nor :end of its phase", text)}
		}
		name, number, stepped := strings.Cut(name, "#")
		step, err := strconv.Atoi(number)
		if stepped && err != nil {
			return nil, &SettingsError{fmt.Errorf("the checkpoint %q has no step behind #", text)}
		}
		found := checkpointsAt(m, strings.ReplaceAll(name, " ", "_"), step, stepped, which)
		if len(found) == 0 {
			return nil, &SettingsError{fmt.Errorf("no checkpoint %q holds two scopes; phases are %s", text, strings.Join(phaseNames(m), ", "))}
		}
		copied.Checkpoints = append(copied.Checkpoints, found...)
	}
	return &copied, nil
}

// ErrNoCheckpoints is evidence without checkpoints.
var ErrNoCheckpoints = errors.New("only a measurement has checkpoints")

func checkpointsAt(m *record.Measurement, name string, step int, stepped bool, which string) []record.Checkpoint {
	var list []record.Checkpoint
	for _, p := range m.Phases {
		if p.Name != name || stepped && p.Step != step {
			continue
		}
		b := &beside{rank: p.Rank, device: p.Device}
		at, readings := "the end of "+stepWords(p), p.End
		if which == "start" {
			at, readings = "the start of "+stepWords(p), p.Start
		}
		if c := b.checkpointOf(at, readingsAt(readings)); c != nil {
			list = append(list, *c)
		}
	}
	return list
}

func phaseNames(m *record.Measurement) []string {
	var names []string
	for _, p := range m.Phases {
		name := p.Name
		if p.Step > 0 {
			name += fmt.Sprintf("#%d", p.Step)
		}
		if !slices.Contains(names, name) && len(names) < 20 {
			names = append(names, name)
		}
	}
	return names
}

// widest is the end of the phase at which most scopes were read, and of those the
// one that reserves most.
func (b *beside) widest(phases []record.MeasuredPhase) *record.Checkpoint {
	var best *record.Checkpoint
	var most int64
	for _, p := range phases {
		if p.Status != string(measurement.Completed) {
			continue
		}
		c := b.checkpointOf("the end of "+stepWords(p), readingsAt(p.End))
		if c == nil || best != nil && len(c.Levels) < len(best.Levels) {
			continue
		}
		held := int64(0)
		if p.End.ReservedBytes != nil {
			held = *p.End.ReservedBytes
		}
		if best == nil || len(c.Levels) > len(best.Levels) || held > most {
			best, most = c, held
		}
	}
	return best
}

// readingsAt is the readings of one checkpoint.
func readingsAt(c record.MeasuredCounters) levelFigures {
	return levelFigures{
		account.Device: figureOf(c.DeviceBytes, nil, nil), account.Process: figureOf(c.ProcessBytes, nil, nil),
		account.Reserved: figureOf(c.ReservedBytes, nil, nil), account.Allocated: figureOf(c.AllocatedBytes, nil, nil),
	}
}
