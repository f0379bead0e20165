package training

import (
	"slices"

	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/workload"
)

// partitionedParameters is DeepSpeed's third stage: of parameters, gradients and
// states a rank has a part. A module's parameters are fetched when it begins, and
// those of the next beside them; they go when it ends, unless they are used again
// soon
// (https://github.com/deepspeedai/DeepSpeed/blob/v0.19.2/deepspeed/runtime/zero/partitioned_param_coordinator.py).
// The modules are layers here, of which DeepSpeed fetches the matrices one after
// another: what is gathered is a layer at most, where it can be a matrix.
type partitionedParameters struct {
	divided
	all       []*piece
	groups    []*parameter // parts that are stepped one after another
	gradients torch.Tensor // of all parts, from when the optimizer is made
	bucket    torch.Tensor
	waiting   []*piece
	inBucket  int64
	order     []use                   // of one forward and backward pass
	next      int                     // the place in it
	second    map[*piece]torch.Tensor // parts of the second copy that are there
	traced    bool                    // the first pass has shown the order
	last      int                     // the last layer
}

// use is one use of the parameters of a segment, in forward or in backward.
type use struct {
	segment int
	times   int64 // a layer that is computed again by itself is met twice in backward
}

// Segments are layers by their index, what stands before them and what stands
// behind them.
const (
	ahead  = -1
	behind = -2
)

func (z *partitionedParameters) gathers() bool        { return true }
func (z *partitionedParameters) keepsGradients() bool { return true }

func (z *partitionedParameters) hold() []*parameter {
	z.all = z.pieces()
	for _, p := range z.all {
		z.last = max(z.last, p.part)
	}
	var elements []int64
	var total int64
	for _, p := range z.all {
		n := partitioned(p.elements, z.ranks)
		bytes, _ := p.format.Size([]int64{n})
		total += bytes
		if p.trained {
			elements = append(elements, n)
		}
	}
	if z.offloads(workload.OffloadParameters) {
		z.away(total)
	} else {
		z.born(z.all[0].term, total)
	}
	z.keepSecond()
	for _, n := range subgroups(elements, subgroupElements) {
		p := newParameter("partition", z.all[0].role, []int64{n}, z.trainedFormat(), z.all[0].term)
		p.trained = true
		z.groups = append(z.groups, p)
	}
	z.masterOf(z.groups)
	z.buffers(elements)
	z.persist()
	return z.groups
}

// subgroupElements is how many elements of parts DeepSpeed steps at once
// (sub_group_size of zero/config.py).
const subgroupElements = 1_000_000_000

// trainedFormat is the format of the parameters that are trained.
func (z *partitionedParameters) trainedFormat() dtype.Format {
	for _, p := range z.all {
		if p.trained {
			return p.format
		}
	}
	return z.all[0].format
}

// buffers are made with the optimizer and stay: one for gradients that wait for
// their reduction, and the gradients of all parts.
func (z *partitionedParameters) buffers(elements []int64) {
	if len(elements) == 0 {
		return
	}
	var all int64
	for _, n := range elements {
		all += n
	}
	f := z.trainedFormat()
	z.bucket = z.machine.Bucket("ipg_bucket", f, z.ReduceBucket)
	if z.offloads(workload.OffloadOptimizer) {
		n, _ := f.Size([]int64{all})
		z.away(n)
	} else {
		z.gradients = z.machine.AsGradients(z.machine.Bucket("grad_partitions", f, all))
	}
	for _, p := range z.all {
		if p.trained && p.tensor.Defined() {
			z.machine.WhenAccumulated(p.tensor, func() { z.ready(p) })
		}
	}
}

// persist gathers the small parameters, which stay.
func (z *partitionedParameters) persist() {
	for _, p := range z.all {
		if z.stays(p) && p.tensor.Defined() {
			z.machine.Fill(p.tensor)
		}
	}
}

func (z *partitionedParameters) stays(p *piece) bool { return p.elements < z.Persistence }

// uses reports where a parameter is used; a head that is tied to the embedding is
// used behind the layers too.
func (z *partitionedParameters) uses(p *piece, segment int) bool {
	if p.part != modules.Outside {
		return p.part == segment
	}
	embeds := p.role.Module() == model.EmbeddingModule
	switch segment {
	case ahead:
		return embeds
	case behind:
		return !embeds || !z.hasHead()
	}
	return false
}

func (z *partitionedParameters) hasHead() bool {
	return slices.ContainsFunc(z.all, func(p *piece) bool { return p.role.Module() == model.HeadModule })
}

// of is the parameters of a segment, but those that stay.
func (z *partitionedParameters) of(segment int) []*piece {
	var list []*piece
	for _, p := range z.all {
		if z.uses(p, segment) && p.tensor.Defined() && !z.stays(p) {
			list = append(list, p)
		}
	}
	return list
}

func (z *partitionedParameters) size(segment int) int64 {
	var n int64
	for _, p := range z.of(segment) {
		n += p.elements
	}
	return n
}

// Before begins a segment in forward. What stands before the layers ends when the
// first of them begins.
func (z *partitionedParameters) Before(part int, in torch.Tensor) {
	if part == modules.Outside {
		z.next = 0
		z.begin(ahead, 1)
		return
	}
	if z.machine.Stopped() {
		return
	}
	if part == 0 && !z.machine.InBackward() {
		z.release(ahead)
	}
	z.begin(part, 1)
	z.machine.BeforeBackward(in, func() {
		z.release(part)
		if part == 0 {
			z.begin(ahead, 1)
		}
	})
}

// After ends a segment in forward, and begins it again when the gradient of its
// output is there. The last layer is followed by the head.
func (z *partitionedParameters) After(part int, out torch.Tensor) {
	if part == modules.Outside {
		z.release(behind)
		z.machine.BeforeBackward(out, func() { z.begin(behind, 1) })
		return
	}
	if z.machine.Stopped() { // what is left of a layer that is computed again is not run
		return
	}
	z.release(part)
	again := int64(1)
	if c := z.train.Checkpointing; c.Kind == workload.FullCheckpointing || c.Kind == workload.EveryCheckpointing && c.Every < 2 {
		again = 2
	}
	z.machine.BeforeBackward(out, func() { z.begin(part, again) })
	if part == z.last && !z.machine.InBackward() {
		z.begin(behind, 1)
		z.machine.BeforeBackward(out, func() { z.release(behind) })
	}
}

// begin fetches what a segment needs, and as much of the next ones as is fetched
// ahead, once the order is known.
func (z *partitionedParameters) begin(segment int, times int64) {
	z.fetch(z.of(segment))
	if !z.traced {
		z.order = append(z.order, use{segment, times})
		return
	}
	z.next++
	var ahead []*piece
	most := min(z.Prefetch, z.MostLive-z.live())
	for _, u := range z.order[min(z.next, len(z.order)):] {
		for _, p := range z.of(u.segment) {
			if most <= 0 {
				break
			}
			if !z.machine.Filled(p.tensor) {
				ahead, most = append(ahead, p), most-p.elements
			}
		}
	}
	z.fetch(ahead)
}

// live is the elements that are gathered.
func (z *partitionedParameters) live() int64 {
	var n int64
	for _, p := range z.all {
		if p.tensor.Defined() && z.machine.Filled(p.tensor) {
			n += p.elements
		}
	}
	return n
}

// fetch gathers parameters: several at once come into one buffer, and each is put
// together from it.
func (z *partitionedParameters) fetch(list []*piece) {
	for _, from := range []struct {
		second bool
		ranks  int64
	}{{true, z.Secondary}, {false, z.ranks}} {
		var missing []torch.Tensor
		var whole int64
		for _, p := range list {
			if !z.machine.Filled(p.tensor) && z.hasSecond(p) == from.second {
				missing, whole = append(missing, p.tensor), whole+partitioned(p.elements, z.ranks)*z.ranks
			}
		}
		if len(missing) > 0 {
			z.machine.On("all_gather", func() { z.gather(missing, whole, from.ranks) })
		}
	}
}

// gather joins the parts that so many ranks have.
func (z *partitionedParameters) gather(missing []torch.Tensor, whole, ranks int64) {
	var own, flat torch.Tensor
	if z.offloads(workload.OffloadParameters) {
		own = z.machine.Gathering(missing[0].Dtype(), whole/ranks)
	}
	if len(missing) > 1 {
		flat = z.machine.Gathering(missing[0].Dtype(), whole)
	}
	z.machine.Fill(missing...)
	z.machine.Drop(flat, own)
}

// reuseDistance is the elements within which a parameter that is used again is not
// released (stage3_max_reuse_distance).
const reuseDistance = 1_000_000_000

// release frees what a segment needs no more, unless it is used again within the
// distance.
func (z *partitionedParameters) release(segment int) {
	var passed int64
	for _, u := range z.order[min(z.next, len(z.order)):] {
		if !z.traced || passed >= reuseDistance {
			break
		}
		if u.segment == segment {
			return
		}
		passed += u.times * z.size(u.segment)
	}
	for _, p := range z.of(segment) {
		z.vacate(p)
	}
}

// ready takes a gradient when it is there: to the bucket, or as it is where it is
// larger than what is left of it.
func (z *partitionedParameters) ready(p *piece) {
	if z.inBucket+p.elements > z.ReduceBucket {
		z.reduce()
	}
	if z.inBucket+p.elements <= z.ReduceBucket {
		z.machine.ZeroGrad(p.tensor, true)
	}
	z.waiting, z.inBucket = append(z.waiting, p), z.inBucket+p.elements
}

// reduce scatters the gradients that wait: from one buffer in which the parts of
// each rank lie together, unless it is one tensor that the ranks divide evenly.
func (z *partitionedParameters) reduce() {
	if len(z.waiting) == 0 {
		return
	}
	var parts int64
	for _, p := range z.waiting {
		parts += partitioned(p.elements, z.ranks)
	}
	var together torch.Tensor
	if len(z.waiting) > 1 || parts*z.ranks != z.waiting[0].elements {
		z.machine.On("reduce_scatter", func() {
			together = z.machine.Bucket("reduce_scatter", z.trainedFormat(), parts*z.ranks)
		})
	}
	for _, p := range z.waiting {
		z.machine.ZeroGrad(p.tensor, true)
	}
	z.machine.Drop(together)
	z.waiting, z.inBucket = z.waiting[:0], 0
}

// backwardEnds reduces what is left, and releases what was kept.
func (z *partitionedParameters) backwardEnds() {
	z.reduce()
	for _, p := range z.all {
		if p.tensor.Defined() && !z.stays(p) {
			z.vacate(p)
		}
	}
	z.traced, z.next = true, 0
}

// step goes over the groups of parts, one after another.
func (z *partitionedParameters) step(list []*parameter, first bool) bool {
	if z.offloads(workload.OffloadOptimizer) {
		if first {
			z.statesAway(list)
		}
		z.dropSecond()
		return true
	}
	for _, p := range z.groups {
		z.stepPart(p, z.trainedFormat(), first, func() {})
	}
	z.dropSecond()
	return true
}
