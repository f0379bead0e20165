package estimate

import (
	"context"

	"floodmark/account"
	"floodmark/model"
	"floodmark/parallel"
	"floodmark/timeline"
	"floodmark/workload"
)

// Memory is what an engine may know of the card under a rank. Figures are
// unknown where no card was named.
type Memory struct {
	Total, Free account.Figure // bytes, as the driver reports them
	Name, Arch  string
}

// Input is one rank's work.
type Input struct {
	Model    *model.Model
	Plan     parallel.RankPlan
	Workload *workload.Workload
	Memory   Memory
}

// Capacity is what an engine that fills its budget can hold.
type Capacity struct {
	Blocks, Tokens, SequencesAtLength    account.Figure // counts, not bytes
	BytesPerToken, FixedBytesPerSequence account.Figure
}

// Result is what an engine predicts for one rank.
type Result struct {
	Timeline *timeline.Timeline
	Capacity *Capacity // nil for an engine without a budget
}

// Engine predicts the memory of one kind of software.
type Engine interface {
	// Name is how the engine calls itself.
	Name() string
	// Estimate predicts one rank. It fails only on input that the engine
	// cannot run; what it cannot predict is an unknown term.
	Estimate(ctx context.Context, in Input) (Result, error)
	// Formulas lists the rules that its figures name.
	Formulas() []account.Formula
}
