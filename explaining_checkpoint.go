package floodmark

import (
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
