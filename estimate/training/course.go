package training

import (
	"math/rand/v2"
	"slices"

	"floodmark/estimate"
	"floodmark/timeline"
	"floodmark/workload"
)

// What is laid out of sequences that differ in length.
const (
	lengthClasses = 64 // lengths that stand for all
	courseOrders  = 6  // orders in which they come
)

// course is training over sequences of different lengths: what the allocator keeps
// reserved depends on the order in which they come, since a block that was cached for
// one length serves a longer one no more. Nil where every sequence is as long as the
// context, or where the model has no program.
//
// The beginning is the process up to the end of a first step over the shortest. The
// pieces are micro-batches of each length: the first of a step, which makes the
// gradients, those behind it, and the step of the optimizer.
func course(in estimate.Input) *timeline.Course {
	j := newJob(in)
	lengths := j.lengths()
	if len(lengths) < 2 {
		return nil
	}
	j.surroundings()
	if j.load() != nil || j.ops == nil {
		return nil
	}
	c := &timeline.Course{Timeline: j.tl}
	j.workspaces()
	j.inputs()
	j.gradientsToHost()
	j.microBatchOf(lengths[0], true)
	j.optimizerStep(1)
	c.Begins = len(j.tl.Events)
	accumulates := j.accumulates()
	for i, length := range lengths {
		c.Pieces = append(c.Pieces, j.piece(func() { j.microBatchOf(length, true) }))
		if accumulates {
			c.Pieces = append(c.Pieces, j.piece(func() { j.microBatchOf(length, false) }))
		}
		step := j.piece(func() { j.optimizerStep(2) })
		if i == len(lengths)-1 {
			c.Pieces = append(c.Pieces, step)
		}
	}
	if _, err := j.machine.Timeline(); err != nil || j.machine.Unpredicted() != "" {
		return nil
	}
	batch, _ := in.Workload.Dimension(workload.MicroBatch)
	for seed := range uint64(courseOrders) {
		c.Orders = append(c.Orders, j.order(rand.New(rand.NewPCG(seed, 0)), len(lengths), max(1, int(batch))))
	}
	return c
}

// lengths are those that stand for all; none where all are as long as the context.
func (j *job) lengths() []int64 {
	context, has := j.in.Workload.Dimension(workload.Context)
	if j.train.Lengths == nil || !has || !j.trains() || j.why() != "" || j.pictures() {
		return nil
	}
	return j.train.Lengths.Classes(lengthClasses, context)
}

// piece is the events that some work makes.
func (j *job) piece(work func()) timeline.Piece {
	first := len(j.tl.Events)
	work()
	return timeline.Piece{First: first, Last: len(j.tl.Events)}
}

// microBatchOf is a micro-batch of sequences of a length, which the loop has names
// for when the ones before it go.
func (j *job) microBatchOf(length int64, makes bool) {
	was := j.ops.batch
	j.inputsOf(length)
	j.machine.Drop(was.IDs, was.Labels, was.Mask, was.Ignored, was.Positions)
	j.microBatch(2, 0, makes)
}

// smallBlock is the largest request that the allocator serves from blocks of its own,
// which move no larger one (kSmallSize of c10/cuda/CUDACachingAllocator.cpp).
const smallBlock = 1 << 20

// accumulates reports that the micro-batches behind the first of a step differ from
// it: they find gradients that lie among the blocks of what passes make.
func (j *job) accumulates() bool {
	return j.train.Accumulation > 1 && slices.ContainsFunc(j.tuned, func(p *parameter) bool {
		return p.in(j.formatsOf(p).gradient.Format) > smallBlock
	})
}

// order is the pieces of a run over as many sequences as training meets, by chance:
// a micro-batch is as long as the longest of its sequences.
func (j *job) order(chance *rand.Rand, classes, batch int) []int32 {
	accumulation, each := 1, 1
	if j.accumulates() {
		accumulation, each = int(j.train.Accumulation), 2 // pieces of a length
	}
	step := int32(classes * each)
	var order []int32
	context, _ := j.in.Workload.Dimension(workload.Context)
	for n := range int(j.train.Lengths.Met(context)) / batch {
		longest := 0
		for range batch {
			longest = max(longest, chance.IntN(classes))
		}
		piece := int32(longest * each)
		if n%accumulation > 0 {
			piece++
		}
		order = append(order, piece)
		if n%accumulation == accumulation-1 {
			order = append(order, step)
		}
	}
	return order
}
