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
	// Length is the positions of the sequences that are counted.
	Length int64
}

// Total is what a whole process holds at most in a phase, where that is known
// better than the sum of what its terms could be: an engine that fills a budget
// gives the cache what the others do not take.
type Total struct {
	Phase  account.PhaseID
	Figure account.Figure // of the process
}

// Share is what decides which share of its card an engine can be given: of the
// rank that needs most.
type Share struct {
	Given   float64        // the share that it has
	Spent   account.Figure // of the budget, before the cache
	Request account.Figure // the cache of one request of the longest length
	Beside  account.Figure // what the card must hold beside the budget
	Initial account.Figure // of that what is in use before the engine looks at what is free
}

// Result is what an engine predicts for one rank.
type Result struct {
	Timeline *timeline.Timeline
	Capacity *Capacity       // nil for an engine without a budget
	Checks   []account.Check // empty for an engine that checks nothing
	Totals   []Total
	Share    *Share // nil for an engine that takes no share of its card
	// Course is the same work over inputs of sizes that differ, in some of the orders
	// in which they can come; nil where all are of the size of the timeline.
	Course *timeline.Course
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
