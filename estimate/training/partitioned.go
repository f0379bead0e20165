package training

import (
	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/internal/torch"
	"floodmark/workload"
)

// partitionedStates is DeepSpeed's stages 1 and 2: whole parameters, and of master
// copies and moments a part; of the second stage of gradients too
// (https://github.com/deepspeedai/DeepSpeed/blob/v0.19.2/deepspeed/runtime/zero/stage_1_and_2.py).
type partitionedStates struct {
	divided
	whole    []*parameter
	part     *parameter           // of the run of all trained parameters
	starts   map[*parameter]int64 // where in that run each begins
	buckets  []torch.Tensor       // while backward runs
	inBucket int64                // elements
	waiting  []*parameter         // whose gradients are in the bucket, or as large as it
	kept     torch.Tensor         // gradients of the parameters in the part, the sum so far
	adds     bool                 // an earlier micro-batch of the step made them
	added    torch.Tensor         // those of the micro-batch that is added
	covered  int64                // elements of the parameters that lie in the part, the last rank's
}

func (z *partitionedStates) hold() []*parameter {
	z.whole = z.trained()
	var elements int64
	z.starts = map[*parameter]int64{}
	for _, p := range z.whole {
		z.starts[p] = elements
		elements += p.elements
	}
	if len(z.whole) == 0 {
		return nil
	}
	run := alignedRun(elements, z.ranks)
	z.part = newParameter("partition", z.whole[0].role, []int64{run / z.ranks}, z.whole[0].format, z.whole[0].term)
	z.part.trained = true
	z.covered = coveredBy(z.whole, run-run/z.ranks, elements)
	if z.ops != nil {
		for _, p := range z.whole {
			z.machine.WhenAccumulated(p.tensor, func() { z.ready(p) })
		}
	}
	if z.offloads(workload.OffloadOptimizer) {
		z.offloadBuffers()
	}
	z.masterOf([]*parameter{z.part})
	if z.stepsAtStart() {
		gradients := z.born(z.temporaries(), z.part.in(z.formatsOf(z.part).updated.Format))
		z.statesOf(z.part)
		z.free(gradients)
	}
	return []*parameter{z.part}
}

// offloadBuffers are the copy of one gradient on its way to main memory, and the
// part there from which parameters come back.
func (z *partitionedStates) offloadBuffers() {
	var largest int64
	for _, p := range z.whole {
		largest = max(largest, p.elements)
	}
	n, _ := z.gradientFormat().Size([]int64{largest})
	z.born(z.bucketTerm(), n)
	z.away(n)
	if !z.returnsWide() {
		z.away(z.part.in(z.whole[0].format))
	}
}

// returnsWide reports releases whose updated part comes back to the device in 32
// bits, and is made narrow there: from 0.14.1 (commit 7b5b06602) to 0.16 (17c8be070).
// Worked number: 1,134,838,829 parameters are 4.54 GB beside 2.27 GB of weights.
func (z *partitionedStates) returnsWide() bool {
	r, err := modules.ParseRelease(z.Release)
	return err == nil && r.Major == 0 && (r.Minor == 14 && r.Patch > 0 || r.Minor == 15 || r.Minor == 16)
}

// stepsAtStart reports releases that step once with gradients of zeros before anything
// has run, so that the moments are there from then on: before 0.13.2
// (initialize_optimizer_states; https://github.com/deepspeedai/DeepSpeed/pull/5104).
// Worked number: 143,130,624 parameters have 1,145,044,992 bytes of moments before the
// first forward pass, and 572,522,496 of gradients in 32 bits beside them for a moment.
func (z *partitionedStates) stepsAtStart() bool {
	r, err := modules.ParseRelease(z.Release)
	return err == nil && z.Release != "" && r.Major == 0 && (r.Minor < 13 || r.Minor == 13 && r.Patch < 2) && !z.offloads(workload.OffloadOptimizer)
}

// coveredBy is the elements of the parameters of which a part of a run has
// elements: they are kept whole.
func coveredBy(list []*parameter, from, to int64) int64 {
	var at, sum int64
	for _, p := range list {
		if at < to && at+p.elements > from {
			sum += p.elements
		}
		at += p.elements
	}
	return sum
}

// gradientFormat is the format in which gradients are reduced and kept.
func (z *partitionedStates) gradientFormat() dtype.Format { return z.whole[0].format }

// backwardBegins makes the buffers into which gradients are copied: two where
// reduction overlaps with backward.
func (z *partitionedStates) backwardBegins() {
	if z.part == nil || z.ops == nil {
		return
	}
	z.adds = z.kept.Defined()
	z.buckets = append(z.buckets, z.machine.Bucket("ipg_bucket", z.gradientFormat(), z.ReduceBucket))
	if *z.Overlap {
		z.buckets = append(z.buckets, z.machine.Bucket("ipg_bucket", z.gradientFormat(), z.ReduceBucket))
	}
}

// ready takes a gradient when it is there. The first stage waits for the end of
// backward, unless reduction overlaps with it.
func (z *partitionedStates) ready(p *parameter) {
	if z.Kind == workload.ZeRO1 && !*z.Overlap {
		return
	}
	z.add(p)
}

func (z *partitionedStates) add(p *parameter) {
	if !p.tensor.HasGrad() {
		return
	}
	if z.inBucket+p.elements > z.ReduceBucket {
		z.reduce()
	}
	z.inBucket += p.elements
	z.waiting = append(z.waiting, p)
	if p.elements <= z.ReduceBucket {
		z.machine.ZeroGrad(p.tensor, true) // a view into the bucket now
	}
}

// reduce empties the bucket. What lies in the rank's part is copied out of it, to
// a buffer that is made for all of it at the first time: for the last rank that is
// early in backward, and it is the last rank that is followed. Each micro-batch has a
// buffer of its own, which is added to that of the first
// (independent_gradient_partition_epilogue). Worked number: 143,130,624 parameters of
// one rank in 16 bits are 286,261,248 bytes, and as many again from the second
// micro-batch on, until its backward pass ends.
func (z *partitionedStates) reduce() {
	if len(z.waiting) == 0 {
		return
	}
	z.average()
	z.keep()
	for _, p := range z.waiting {
		z.machine.ZeroGrad(p.tensor, true)
	}
	z.waiting, z.inBucket = z.waiting[:0], 0
}

// keep makes the buffer of a micro-batch.
func (z *partitionedStates) keep() {
	into := &z.kept
	if z.adds {
		into = &z.added
	}
	if into.Defined() || z.offloads(workload.OffloadOptimizer) {
		return
	}
	*into = z.machine.Bucket("grads_in_partition", z.gradientFormat(), z.covered)
	z.machine.AsGradients(*into)
}

// average reduces the bucket. Its slices for one rank after another are copied
// together, unless all of it is for one rank (average_tensor merges those, and
// allreduce_bucket flattens a list). Worked number: three layers of 262,656
// elements in bfloat16, two of one rank and one of the next, are 1,575,936 bytes
// beside the bucket, as DeepSpeed 0.19.8 allocated.
func (z *partitionedStates) average() {
	first, last := z.ranks, int64(-1)
	for _, p := range z.waiting {
		from, to := z.owners(p)
		first, last = min(first, from), max(last, to)
	}
	if first >= last {
		return
	}
	stream := "default"
	if *z.Overlap {
		stream = "reduction"
	}
	z.machine.On(stream, func() { z.machine.Drop(z.machine.Bucket("allreduce", z.gradientFormat(), z.inBucket)) })
}

// owners are the first and the last rank whose part a parameter has elements of.
func (z *partitionedStates) owners(p *parameter) (first, last int64) {
	at := z.starts[p]
	return at / z.part.elements, (at + max(1, p.elements) - 1) / z.part.elements
}

// backwardEnds reduces what is left, and frees the buffers.
func (z *partitionedStates) backwardEnds() {
	if z.part == nil || z.ops == nil {
		return
	}
	for _, p := range z.whole {
		z.add(p)
	}
	z.reduce()
	z.machine.Drop(z.buckets...)
	z.buckets = z.buckets[:0]
	z.machine.Drop(z.added)
	z.added = torch.Tensor{}
}

// step brings the part's gradients together, then to the format of the master
// copy, and updates it.
func (z *partitionedStates) step(list []*parameter, first bool) bool {
	if z.offloads(workload.OffloadOptimizer) {
		if first {
			z.statesAway(list)
		}
		if z.returnsWide() {
			z.free(z.born(z.temporaries(), z.part.in(dtype.F32)))
		}
		return true
	}
	z.norm()
	z.stepPart(z.part, z.gradientFormat(), first, func() {
		z.machine.Drop(z.kept)
		z.kept = torch.Tensor{}
	})
	return true
}

// norm is that of the gradients, which each step takes, whether it clips or not:
// of each parameter's elements in the part in 64 bits, one after another
// (get_grad_norm_direct). Worked number: a layer of 512 × 512 is 2,097,152 bytes.
func (z *partitionedStates) norm() {
	from := (z.ranks - 1) * z.part.elements
	for _, p := range z.whole {
		begin := max(z.starts[p], from)
		if n := z.starts[p] + p.elements - begin; n > 0 {
			z.free(z.born(z.temporaries(), 8*n))
		}
	}
}

// stepPart is one step over a part: its gradients as one tensor, that tensor in
// the format of the master copy, the end of what they were read from, and
// DeepSpeed's fused Adam, which makes no temporaries.
func (d *divided) stepPart(p *parameter, from dtype.Format, first bool, read func()) {
	f := d.formatsOf(p)
	temporaries := d.temporaries()
	flat := d.born(temporaries, p.in(from))
	if f.updated.Format != from {
		cast := d.born(temporaries, p.in(f.updated.Format))
		d.free(flat)
		flat = cast
	}
	read()
	if first && len(p.states) == 0 {
		d.statesOf(p)
	}
	d.free(flat)
}

// statesOf makes the moments of a part.
func (d *divided) statesOf(p *parameter) {
	f, o, term := d.formatsOf(p), d.train.Optimizer, d.stateTerm()
	switch {
	case o.Bits != 0:
		d.inBlocks([]*parameter{p})
	default:
		for i := range o.Moments() {
			format := f.first.Format
			if i > 0 {
				format = f.second.Format
			}
			p.states = append(p.states, d.born(term, p.in(format)))
		}
	}
}

// masterOf makes the copies that DeepSpeed's optimizers update: in 32 bits, unless
// another format is declared.
func (d *divided) masterOf(list []*parameter) {
	if d.offloads(workload.OffloadOptimizer) {
		return
	}
	for _, p := range list {
		p.master = d.born(d.masterTerm(), p.in(d.formatsOf(p).updated.Format))
	}
}

// statesAway counts what the optimizer keeps of parts in main memory: a master
// copy where the parts themselves are not updated there, gradients, moments.
func (d *divided) statesAway(list []*parameter) {
	o := d.train.Optimizer
	for _, p := range list {
		f := d.formatsOf(p)
		bytes := p.in(f.updated.Format) // gradients, in the format of what is updated
		if d.deepSpeed() || f.master.Declared && !f.master.None() {
			bytes += p.in(f.updated.Format)
		}
		for i := range movedMoments(o) {
			format := f.first.Format
			if i > 0 {
				format = f.second.Format
			}
			bytes += p.in(format)
		}
		d.away(bytes)
	}
}

// movedMoments is how many moments an optimizer keeps, whoever chose their format.
func movedMoments(o workload.Optimizer) int {
	switch {
	case o.Name == workload.AdamW:
		return 2
	case o.Bits != 0:
		return 1
	}
	return o.Moments()
}
