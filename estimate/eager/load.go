package eager

import (
	"floodmark/account"
	"floodmark/model"
	"floodmark/timeline"
	"floodmark/workload"
)

// load is the phase in which every tensor of the rank is born.
func (b *builder) load() {
	terms := map[account.Category]uint32{}
	parts := map[account.Category][]account.Figure{}
	var offloaded bool
	for _, local := range b.in.Plan.Tensors {
		t := b.in.Model.Tensors[local.Tensor]
		category := t.Role.Category()
		if _, seen := terms[category]; !seen {
			terms[category] = b.weightsTerm(category)
		}
		figure := local.Bytes(t)
		bytes, exact := figure.IsExact()
		switch {
		case b.has(workload.WeightOffload):
			offloaded = true
		case exact:
			b.tl.Bear(timeline.Caching, terms[category], bytes)
		default:
			parts[category] = append(parts[category], figure)
		}
	}
	b.tl.Phases = append(b.tl.Phases, timeline.Span{Phase: account.PhaseModelLoad, Last: len(b.tl.Events)})
	for _, category := range account.Categories() {
		if figures := parts[category]; len(figures) > 0 {
			b.tl.Bound(terms[category], loadSpan, timeline.ToEnd, account.Sum(b.tl.Terms[terms[category]].Provenance, figures...))
		}
		if term, ok := terms[category]; ok && offloaded {
			b.tl.Bound(term, loadSpan, timeline.ToEnd, account.Unknown("how many of the weights are offloaded is not modelled", b.tl.Terms[term].Provenance))
		}
	}
	b.notUnderstood(terms)
	if term, ok := terms[account.CategoryParameter]; ok && offloaded {
		b.tl.Bound(term, loadSpan, timeline.ToEnd, b.offloadable())
	}
	b.adapters()
	if f := b.buffers(); b.how.maskBuffers || b.how.tables {
		b.tl.Bound(b.tl.Term(account.TermBuffers, account.CategoryBuffer, f.Provenance), loadSpan, timeline.ToEnd, f)
	}
	b.tl.Bound(b.tl.Term(account.TermTemporaries, account.CategoryTemporary, b.requested(temporaryFormula)), loadSpan, loadSpan, b.incoming())
}

// offloadable is what weights take in main memory that are offloaded: none, or up
// to all of the rank's.
func (b *builder) offloadable() account.Figure {
	p := b.requested(weightsFormula)
	p.Scope = account.Host
	all := account.Exact(0, p)
	for _, local := range b.in.Plan.Tensors {
		all = account.Sum(p, all, local.Bytes(b.in.Model.Tensors[local.Tensor]))
	}
	high, known := all.High()
	if !known {
		return account.Unknown(all.Reason(), p)
	}
	return account.Between(0, high, p)
}

// weightsTerm is the term of a category of stored tensors.
func (b *builder) weightsTerm(c account.Category) uint32 {
	p := b.requested("weights.stored")
	if len(b.in.Model.Sources) > 0 {
		p.Source = b.in.Model.Sources[0].Name
	}
	id := account.TermWeights
	switch c {
	case account.CategoryBuffer:
		id = account.TermBuffers
	case account.CategoryQuantisationMetadata:
		id = account.TermQuantisationMetadata
	}
	return b.tl.Term(id, c, p)
}

// weights is the term of the weights, made when no tensor did.
func (b *builder) weights(terms map[account.Category]uint32) uint32 {
	term, seen := terms[account.CategoryParameter]
	if !seen {
		term = b.weightsTerm(account.CategoryParameter)
		terms[account.CategoryParameter] = term
	}
	return term
}

// notUnderstood makes the weights a lower bound where the reader of the model
// met something that it does not know.
func (b *builder) notUnderstood(terms map[account.Category]uint32) {
	if len(b.in.Model.Unknown) == 0 || b.in.Model.Listed {
		return
	}
	term := b.weights(terms)
	u := b.in.Model.Unknown[0]
	b.tl.Bound(term, loadSpan, timeline.ToEnd, account.Unknown("the model's configuration is not understood: "+u.Field+": "+u.Why, b.tl.Terms[term].Provenance))
}

// adapters are what lies beside the base model. How an engine divides one over
// tensor-parallel ranks is its own: a rank holds between its share and all.
func (b *builder) adapters() {
	for _, a := range b.in.Workload.Adapters {
		p := b.requested(adaptersFormula)
		term := b.tl.Term(account.TermAdapters, account.CategoryParameter, p)
		f := a.Bytes.As(p)
		if high, known := a.Bytes.High(); known {
			f = account.Between(a.Bytes.Low()/int64(max(1, b.in.Workload.Mesh.TensorParallel)), high, p)
		}
		b.tl.Bound(term, loadSpan, timeline.ToEnd, f)
	}
}

// incoming is what is on the device beside the tensors that stay there while
// they are read: nothing when each is copied into its place, up to the largest
// when it is moved and then cast, up to everything when whole files are read
// onto the device. Ranks that share a tensor read their parts of it.
func (b *builder) incoming() account.Figure {
	p := b.requested(temporaryFormula)
	most, all := int64(0), account.Exact(0, p)
	for _, local := range b.in.Plan.Tensors {
		bytes := local.Bytes(b.in.Model.Tensors[local.Tensor])
		high, known := bytes.High()
		if !known {
			return account.Unknown(bytes.Reason(), p)
		}
		most = max(most, high)
		all = account.Sum(p, all, account.Exact(high, p))
	}
	if whole, known := all.High(); b.how.files && known {
		return account.Between(0, whole, p)
	}
	return account.Between(0, most, p)
}

// buffers is what a model's class keeps that no weight file holds: a mask of all
// pairs of positions, or the sines and cosines of all positions.
func (b *builder) buffers() account.Figure {
	p := b.requested(bufferFormula)
	n := int64(b.in.Model.MaxPosition)
	if b.how.maskBuffers {
		return between(p, 0, n, n)
	}
	width, _ := b.compute().Size(nil)
	return between(p, 0, n, b.rotary(), width)
}

// rotary is the widest part of a head that rotary positions turn.
func (b *builder) rotary() int64 {
	most := 0
	for _, ref := range b.in.Plan.Layers {
		for _, m := range b.in.Model.Stacks[ref.Stack].Layers[ref.Layer].Mixers {
			switch a := m.(type) {
			case model.Attention:
				most = max(most, a.RotaryDim)
			case model.LatentAttention:
				most = max(most, a.RopeDim)
			}
		}
	}
	return int64(most)
}
