package megatron

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/workload"
)

// parameter is one of the rank's own.
type parameter struct {
	tensor   torch.Tensor
	elements int64
	format   dtype.Format
	expert   bool // divided over the ranks that hold the same experts
	shared   bool // an embedding that the first and the last stage hold
	frozen   bool // it has neither gradient nor states
	adapter  bool // it stands beside the model's own
}

// moments are the optimizer's states of one piece of the parameters.
type piece struct {
	elements int64
	eight    bool // of a parameter that is kept in 8 bits
}

// states are what is kept from step to step.
type states struct {
	m          *torch.Machine
	s          settings
	parameters []*parameter
	pieces     []piece // that the rank's optimizer updates
	stepped    bool
	wide       []torch.Tensor // copies of gradients that the last step read
}

// add makes a parameter in the format of the computation.
func (st *states) add(expert bool, shape ...int64) torch.Tensor {
	return st.addIn(st.s.compute, expert, shape...)
}

// addIn makes a parameter in a format.
func (st *states) addIn(f dtype.Format, expert bool, shape ...int64) torch.Tensor {
	elements := int64(1)
	for _, n := range shape {
		elements *= n
	}
	if st.s.divided {
		shape = []int64{max(1, elements/st.ranks(expert))}
	}
	frozen := st.s.frozen()
	t := st.m.Parameter(f, !frozen, shape...)
	if !frozen {
		st.m.ReduceInto(t)
	}
	st.parameters = append(st.parameters, &parameter{tensor: t, elements: elements, format: f, expert: expert, frozen: frozen})
	return t
}

// adapter makes a parameter of an adapter.
func (st *states) adapter(expert bool, rows, columns int64) torch.Tensor {
	t := st.m.Adapter(st.s.compute, rows, columns)
	st.m.ReduceInto(t)
	st.parameters = append(st.parameters, &parameter{tensor: t, elements: rows * columns, format: st.s.compute, expert: expert, adapter: true})
	return t
}

// ranks is over how many an optimizer's states of a kind are divided.
func (st *states) ranks(expert bool) int64 {
	if expert {
		return st.s.expertData
	}
	return st.s.data
}

// buffers are one contiguous buffer of gradients for the parameters of a kind and
// format, and with the distributed optimizer one of the parameters themselves, which
// move into it (megatron/core/distributed/param_and_grad_buffer.py).
func (st *states) buffers(chunk []*parameter) {
	for _, expert := range []bool{false, true} {
		for _, format := range []dtype.Format{st.s.compute, dtype.U8} {
			var list []*parameter
			for _, p := range chunk {
				if p.expert == expert && p.format == format && !p.frozen {
					list = append(list, p)
				}
			}
			if len(list) > 0 {
				st.buffer(list, st.ranks(expert))
			}
		}
	}
}

// A parameter begins at a multiple of 64 elements, and a bucket ends at one of the
// ranks and of 128, with the distributed optimizer alone.
const (
	parameterStart = 64
	bucketEnd      = 128
)

// bucketOf is the elements after which a bucket is full: of all parameters where
// nothing overlaps (DistributedDataParallel of
// megatron/core/distributed/distributed_data_parallel.py).
func (s *settings) bucketOf(ranks int64) int64 {
	if !s.overlap || ranks == 1 {
		return 1 << 62
	}
	return max(40_000_000, 1_000_000*ranks)
}

// place is where a parameter lies in the buffer.
type place struct {
	p        *parameter
	from, to int64
}

// bucket is a stretch of the buffer that is reduced at once.
type bucket struct {
	from, to int64
	places   []place
}

// lay puts parameters into buckets, the last parameter first.
func (st *states) lay(list []*parameter, ranks int64) (buckets []bucket) {
	distributed, size := st.s.distributed, st.s.bucketOf(ranks)
	var b bucket
	at := int64(0)
	close := func() {
		if distributed {
			at = roundUp(at, lcm(ranks, bucketEnd))
		}
		b.to = at
		buckets = append(buckets, b)
		b = bucket{from: at}
	}
	for i := len(list) - 1; i >= 0; i-- {
		p := list[i]
		if distributed {
			at = roundUp(at, parameterStart)
		}
		alone := p.shared && distributed
		if alone && len(b.places) > 0 {
			close()
		}
		b.places = append(b.places, place{p, at, at + p.elements})
		if at += p.elements; at-b.from >= size || alone {
			close()
		}
	}
	if len(b.places) > 0 {
		close()
	}
	return buckets
}

func roundUp(n, multiple int64) int64 { return (n + multiple - 1) / multiple * multiple }

func lcm(a, b int64) int64 {
	x, y := a, b
	for y != 0 {
		x, y = y, x%y
	}
	return a / x * b
}

// buffer lays out the last of the ranks that divide the optimizer's states: they hold
// as much of each bucket, and differ in where parameters are cut
// (_build_model_gbuf_range of megatron/core/optimizer/distrib_optimizer.py).
func (st *states) buffer(list []*parameter, ranks int64) {
	if st.s.divided {
		st.least(list, ranks)
		return
	}
	buckets := st.lay(list, ranks)
	end := buckets[len(buckets)-1].to
	if f := list[0].format; st.s.distributed && !(f == dtype.U8 && st.s.Quantisation == workload.MXScaling) {
		// Parameters with scales of 32 are gathered through the buffer of gradients.
		weights := st.room(f, end)
		defer func() {
			for _, p := range list {
				st.m.PlaceIn(p.tensor, weights)
			}
		}()
	}
	st.m.GradientBuffer(st.s.gradients, end)
	if !st.s.distributed {
		for _, p := range list {
			st.pieces = append(st.pieces, piece{elements: p.elements})
		}
		return
	}
	for _, b := range buckets {
		from := b.to - (b.to-b.from)/ranks
		for _, at := range b.places {
			if n := min(at.to, b.to) - max(at.from, from); n > 0 {
				st.pieces = append(st.pieces, piece{n, at.p.format == dtype.U8})
			}
		}
	}
}

// room is the buffer into which trained parameters move.
func (st *states) room(f dtype.Format, elements int64) torch.Tensor {
	if st.s.frozen() {
		return st.m.Adapter(f, elements)
	}
	return st.m.Parameter(f, false, elements)
}

// least is what a rank holds at least where gradients and parameters are divided too.
func (st *states) least(list []*parameter, ranks int64) {
	n := int64(0)
	for _, p := range list {
		n += p.elements / ranks
	}
	st.m.GradientBuffer(st.s.gradients, max(1, n))
	st.pieces = append(st.pieces, piece{elements: max(1, n)})
}

// masters are copies in the optimizer's format of what the rank updates.
func (st *states) masters() {
	if st.s.master == dtype.Unknown || st.s.compute == dtype.F32 {
		return
	}
	for _, p := range st.pieces {
		st.m.MasterCopy(st.s.master, p.elements)
	}
}

// widen copies what the rank updates of narrower gradients into 32 bits, for the
// optimizer to read; the copies go when the next step begins
// (_copy_model_grads_to_main_grads of megatron/core/optimizer/optimizer.py and
// distrib_optimizer.py).
func (st *states) widen() {
	if st.s.gradients == dtype.F32 || st.s.compute == dtype.F32 || st.s.master == dtype.Unknown || st.s.takesAsItIs() {
		return
	}
	for _, p := range st.pieces {
		st.wide = append(st.wide, st.m.GradientBuffer(dtype.F32, p.elements))
	}
}

// takesAsItIs reports an optimizer that is aware of precision: it reads gradients and
// writes parameters in the formats that they have. Beside products in 8 bits it does so
// by delayed scaling alone, unless the master copy is narrower too
// (use_precision_aware_optimizer_no_fp8_or_ds_fp8 of
// megatron/core/optimizer/optimizer_config.py).
func (s *settings) takesAsItIs() bool {
	return s.PrecisionAware && (s.Quantisation == "" || s.Quantisation == workload.DelayedScaling || s.master != dtype.F32)
}

// quantise writes parameters in 8 bits from their master copies: all of them are in the
// computation's format at once before the first is cast. Those with scales of 32 are
// gathered through the buffer of gradients and need no copy
// (quantize_master_weights of transformer_engine/pytorch/tensor/utils.py,
// step_with_ready_grads of megatron/core/optimizer/optimizer.py).
func (st *states) quantise() {
	if st.s.master == st.s.compute || st.s.takesAsItIs() || st.s.Quantisation == workload.MXScaling {
		return
	}
	var copies []torch.Tensor
	for _, p := range st.pieces {
		if p.eight {
			copies = append(copies, st.m.Keep(st.m.Empty("to", st.s.compute, p.elements)))
		}
	}
	st.m.Drop(copies...)
}

// zeroGrad is the begin of a step.
func (st *states) zeroGrad() {
	st.m.Drop(st.wide...)
	st.wide = nil
}

// step is the optimizer's: the first one makes its moments, piece by piece.
func (st *states) step() {
	st.widen()
	if !st.stepped {
		st.stepped = true
		for _, p := range st.pieces {
			st.m.State(st.s.moment1, p.elements)
			st.m.State(st.s.moment2, p.elements)
		}
	}
	st.quantise()
}
