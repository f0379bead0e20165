package training

import (
	"slices"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/internal/torch"
	"floodmark/workload"
)

// fullySharded is fully_shard (FSDP2) and FullyShardedDataParallel (FSDP1), over
// each layer and over the rest as one. What is outside of layers is gathered from
// the beginning of a forward pass to the end of backward, for the outermost module
// keeps its parameters
// (https://github.com/pytorch/pytorch/tree/v2.9.0/torch/distributed/fsdp).
type fullySharded struct {
	divided
	units  []*unit
	kept   []keptGradient // of micro-batches before the last, in a pipeline
	passed []*unit        // in the order in which forward left them
	last   []torch.Tensor // gathered parts that wait for the next copy, in forward
	inputs []torch.Tensor // of the reduction that runs
	summed []torch.Tensor // between replicas, in another format than the gradients
}

// unit is what is gathered and reduced together.
type unit struct {
	part     int
	groups   []*flatGroup
	places   []int // in the order in which forward left the units, of each time it did
	awaited  bool  // a gradient of its output calls for it
	backward bool  // its backward has begun
	reduced  bool  // in this backward
}

// flatGroup is parameters of a unit in one format, and of FSDP1 all trained or
// none.
type flatGroup struct {
	stored, gathered dtype.Format
	trained          bool           // all of it, or of FSDP2 some
	weights          []torch.Tensor // as operators read them
	parts            []*parameter   // of the rank: of each weight, or of all together
	whole            int64          // elements of the gathered parts, padding included
	arriving         torch.Tensor   // gathered, and not yet copied to the weights
	smaller          []torch.Tensor // parts over fewer ranks, from forward to backward
}

func (s *fullySharded) gathers() bool { return true }

// flat reports FSDP1, which holds one flat parameter for a group.
func (s *fullySharded) flat() bool { return s.Kind == workload.FSDP1 }

func (s *fullySharded) hold() []*parameter {
	byUnit := map[int][]*piece{}
	for _, p := range s.pieces() {
		byUnit[p.part] = append(byUnit[p.part], p)
	}
	parts := make([]int, 0, len(byUnit))
	for part := range byUnit {
		parts = append(parts, part)
	}
	slices.Sort(parts)
	if s.flat() && parts[0] == modules.Outside {
		parts = append(parts[1:], modules.Outside) // the outermost is wrapped when what is in it is
	}
	var tuned []*parameter
	for _, part := range parts {
		u := &unit{part: part, groups: s.grouped(byUnit[part])}
		s.units = append(s.units, u)
		for _, g := range u.groups {
			for _, p := range g.parts {
				if p.trained {
					tuned = append(tuned, p)
				}
			}
		}
	}
	s.late()
	return tuned
}

// late is what FSDP1's streams hold of what is freed already: a block that another
// stream was told of (record_stream) goes back when that stream has passed, and a
// limiter lets two gathered units be under way
// (torch/distributed/fsdp/_runtime_utils.py, _free_event_queue).
func (s *fullySharded) late() {
	if !s.flat() {
		return
	}
	var largest int64
	for _, u := range s.units {
		var unit int64
		for _, g := range u.groups {
			unit += s.bytes(g.gathered, g.whole)
		}
		largest = max(largest, unit)
	}
	p := account.Provenance{Origin: account.Calculated, Scope: account.Reserved, Counter: gatherFormula, Source: sourceOf(gatherFormula)}
	s.bound(s.term(account.TermAllocatorCache, account.CategoryAllocatorCache, p), len(s.tl.Phases), last, account.Between(0, 2*largest, p))
}

// grouped makes the groups of a unit, and the rank's parts of them. FSDP2 gathers
// and reduces a unit at once, what is frozen and what is trained; it is formats
// that it cannot mix.
func (s *fullySharded) grouped(list []*piece) []*flatGroup {
	var groups []*flatGroup
	members := map[*flatGroup][]*piece{}
	for _, p := range list {
		at := slices.IndexFunc(groups, func(g *flatGroup) bool {
			return g.stored == p.format && g.gathered == p.gathered && (g.trained == p.trained || !s.flat())
		})
		if at < 0 {
			at = len(groups)
			groups = append(groups, &flatGroup{stored: p.format, gathered: p.gathered})
		}
		groups[at].trained = groups[at].trained || p.trained
		members[groups[at]] = append(members[groups[at]], p)
	}
	for _, g := range groups {
		s.divide(g, members[g])
	}
	return groups
}

// divide makes the rank's parts of a group.
func (s *fullySharded) divide(g *flatGroup, list []*piece) {
	var sizes []int64
	for _, p := range list {
		if p.tensor.Defined() {
			g.weights = append(g.weights, p.tensor)
		}
		sizes = append(sizes, p.elements)
	}
	if s.flat() {
		align := max(1, flatAlignment*8/int64(max(8, g.gathered.Bits())))
		g.whole = flatten(sizes, align, s.ranks)
		s.machine.Together(s.bytes(g.gathered, g.whole), g.weights...)
		s.wrap(list, s.bytes(g.stored, g.whole), func() {
			g.parts = []*parameter{s.place(list[0].name, list[0], []int64{g.whole / s.ranks}, g.stored)}
		})
		return
	}
	for _, p := range list {
		padded, _ := chunk(p.shape, s.ranks, 0)
		part := s.place(p.name, p, padded, g.stored)
		g.parts = append(g.parts, part)
		g.whole += part.elements * s.ranks
	}
}

// wrap is what making a flat parameter holds on the device: what it is made of, as
// it comes from main memory and, with sync_module_states, is broadcast; the whole,
// of which the rank's part is copied before it goes; a part that is offloaded is
// there for that moment
// (https://github.com/pytorch/pytorch/blob/v2.2.0/torch/distributed/fsdp/_init_utils.py,
// _init_param_handle_from_module, which names the first to its end; _flat_param.py,
// shard). Worked number: the embedding and the head of Llama 2 7B, 524,296,192
// bytes with the last norm, over two ranks: 524 MB moved, 524 MB flat and a part of
// 262 MB stand together.
func (s *fullySharded) wrap(list []*piece, whole int64, divide func()) {
	term := s.temporaries()
	var moved []uint32
	for _, p := range list {
		moved = append(moved, s.born(term, s.stored(p.parameter)))
	}
	s.broadcast(list)
	flat := s.born(term, whole)
	part := uint32(none)
	if s.offloads(workload.OffloadParameters) {
		part = s.born(term, whole/s.ranks)
	}
	divide()
	s.free(flat, part)
	s.free(moved...)
}

// broadcastBytes is how many bytes are sent at once (_sync_params_and_buffers,
// PARAM_BROADCAST_BUCKET_SIZE).
const broadcastBytes = 250 << 20

// broadcast sends tensors in buckets, into which they are copied unless a bucket
// is one tensor; two are under way at once
// (torch/csrc/distributed/c10d/comm.cpp, broadcast_coalesced).
func (s *fullySharded) broadcast(list []*piece) {
	var sent []uint32
	var open int64
	var tensors int
	for i, p := range list {
		open, tensors = open+s.stored(p.parameter), tensors+1
		if open < broadcastBytes && i < len(list)-1 {
			continue
		}
		if tensors > 1 {
			sent = append(sent, s.born(s.bucketTerm(), open))
		}
		if open, tensors = 0, 0; len(sent) > 2 {
			s.free(sent[0])
			sent = sent[1:]
		}
	}
	s.free(sent...)
}

// bytes of elements in a format.
func (*fullySharded) bytes(f dtype.Format, elements int64) int64 {
	n, _ := f.Size([]int64{elements})
	return n
}

// reduce frees a unit's parameters, and puts its gradients together for the
// reduction, from which the rank's part comes back.
func (s *fullySharded) reduce(u *unit) {
	if u.reduced {
		return
	}
	u.reduced = true
	if s.stages() > 1 {
		s.keep(u)
		return
	}
	if !s.flat() {
		s.ownRows(u)
		s.release(u)
		s.let(&s.inputs)
	}
	for _, g := range u.groups {
		switch {
		case !g.trained || len(g.weights) == 0:
		case s.flat():
			s.reduceFlat(u, g)
		default:
			s.reduceEach(g)
		}
	}
	s.release(u)
}

// reduceFormat is the format in which a group's gradients are reduced.
func (s *fullySharded) reduceFormat(g *flatGroup) dtype.Format {
	if s.ReduceFormat != dtype.Unknown {
		return s.ReduceFormat
	}
	return g.gathered
}

// reduceFlat is FSDP1's: the backward of the split joins the gradients of the
// views, and what was joined is cast where it is reduced in another format.
func (s *fullySharded) reduceFlat(u *unit, g *flatGroup) {
	m, to := s.machine, s.reduceFormat(g)
	joined := m.Bucket("cat", g.gathered, g.whole)
	for _, w := range g.weights {
		m.ZeroGrad(w, true)
	}
	s.release(u)
	if to != g.gathered {
		cast := m.Bucket("to", to, g.whole)
		m.Drop(joined)
		joined = cast
	}
	s.give(g.parts, g.stored, to)
	m.Drop(joined)
}

// reduceEach is FSDP2's: gradients are copied to the input of the reduction, which
// stays until the next one, or of earlier releases until it is queued.
func (s *fullySharded) reduceEach(g *flatGroup) {
	m, to := s.machine, s.reduceFormat(g)
	var parts []*parameter
	var elements int64
	for i, w := range g.weights {
		if w.HasGrad() {
			parts, elements = append(parts, g.parts[i]), elements+g.parts[i].elements
		}
	}
	if len(parts) == 0 {
		return
	}
	var input torch.Tensor
	join := func() { input = m.Bucket("reduce_scatter", to, elements*s.ranks) }
	there := m.CopiesWhereReduced()
	if there {
		m.On("reduce_scatter", join)
	} else {
		join()
		s.inputs = append(s.inputs, input)
	}
	for _, w := range g.weights {
		m.ZeroGrad(w, true)
	}
	s.give(parts, g.stored, to)
	if there {
		m.Drop(input)
	}
}

// give makes what the reduction leaves the gradients of the rank's parts, in their
// format.
func (s *fullySharded) give(parts []*parameter, stored, reduced dtype.Format) {
	m := s.machine
	var elements int64
	for _, p := range parts {
		elements += p.elements
	}
	var out torch.Tensor
	m.On("reduce_scatter", func() { out = m.Bucket("reduce_scatter", reduced, elements) })
	if reduced != stored {
		out = s.narrow(out, stored, elements)
	}
	for _, p := range parts {
		if p.tensor.Defined() {
			m.GradIn(p.tensor, out)
		}
	}
	m.Drop(out)
}

// narrow is what was reduced in the format of the gradients. Replicas reduce between
// them first, on a stream of their own, and FSDP2 keeps what they reduced. Worked
// number: four ranks in two groups, 13,741,440 parameters of bfloat16 reduced in 32
// bits: 27,482,880 bytes stand beside the gradients' 13,741,440 when backward ends.
func (s *fullySharded) narrow(out torch.Tensor, to dtype.Format, elements int64) (cast torch.Tensor) {
	stream := "reduce_scatter"
	if s.replicas > 1 {
		stream = "all_reduce"
	}
	s.machine.On(stream, func() { cast = s.machine.Bucket("to", to, elements) })
	if s.replicas > 1 && !s.flat() && s.machine.KeepsAllReduced() {
		s.summed = append(s.summed, out)
	} else {
		s.machine.Drop(out)
	}
	return cast
}

// backwardEnds reduces what no gradient of an input has, the outermost unit among
// it, and lets go of what was kept for the overlap.
func (s *fullySharded) backwardEnds() {
	for _, u := range s.units {
		s.reduce(u)
		u.places, u.awaited, u.backward = u.places[:0], false, false
		for _, g := range u.groups { // gathered for nobody
			s.machine.Drop(g.arriving)
			g.arriving = torch.Tensor{}
			s.let(&g.smaller)
		}
	}
	s.let(&s.last)
	s.passed = s.passed[:0]
	if s.stages() > 1 {
		return // what waits is reduced with the last micro-batch
	}
	s.let(&s.inputs)
	s.let(&s.summed)
}

func (s *fullySharded) backwardUnseen() {
	for _, u := range s.units {
		u.reduced = true
		s.release(u)
	}
	s.backwardEnds()
}

// step of what is offloaded runs in main memory, where gradients and states are
// too.
func (s *fullySharded) step(list []*parameter, first bool) bool {
	if !s.offloads(workload.OffloadParameters) {
		return false
	}
	if first {
		s.statesAway(list)
	}
	return true
}
