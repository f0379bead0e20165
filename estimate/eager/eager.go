package eager

import (
	"context"
	"fmt"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/model"
	"floodmark/timeline"
	"floodmark/workload"
)

// Engine is PyTorch without compilation or graph capture.
type Engine struct{}

// Name is "eager".
func (Engine) Name() string { return "eager" }

// Formulas lists the rules that the figures of this engine name.
func (Engine) Formulas() []account.Formula {
	return []account.Formula{
		{
			ID:     "weights.stored",
			Rule:   "the stored bytes of each tensor of the rank, shared storage once",
			Source: "https://pytorch.org/docs/stable/tensor_attributes.html (element sizes)",
			Worked: "7,000,000,000 elements of 2 bytes are 14,000,000,000 bytes",
		},
		{
			ID:     kvFormula,
			Rule:   "Σ layers: KV heads × (key + value dim) × positions × sequences × bytes of the format; K and V combined",
			Source: "https://huggingface.co/docs/transformers/kv_cache",
			Worked: "32 layers × 8 × (128 + 128) × 8,192 × 1 × 2 bytes = 1,073,741,824 bytes",
		},
	}
}

// Estimate lays out the timeline of one rank.
func (e Engine) Estimate(_ context.Context, in estimate.Input) (estimate.Result, error) {
	b := &builder{in: in, tl: &timeline.Timeline{Ranks: in.Plan.Ranks, Device: -1, Streams: []string{"default"}}}
	b.load()
	switch in.Workload.Operation {
	case workload.Load:
	case workload.Generation:
		b.span(account.PhasePrefill)
		b.span(account.PhaseDecode)
		b.cache()
		b.warnBeyond()
	default:
		b.span(account.PhaseForward)
	}
	b.unpredicted()
	b.toTheEnd()
	return estimate.Result{Timeline: b.tl}, nil
}

// builder writes one timeline.
type builder struct {
	in estimate.Input
	tl *timeline.Timeline
}

// load is the phase in which every tensor of the rank is born.
func (b *builder) load() {
	terms := map[account.Category]uint32{}
	unknown := map[account.Category]account.Figure{}
	for _, local := range b.in.Plan.Tensors {
		t := b.in.Model.Tensors[local.Tensor]
		category := t.Role.Category()
		term, seen := terms[category]
		if !seen {
			term = b.term(loadTerm(category), category, account.Provenance{
				Origin: account.Calculated, Scope: account.Requested, Counter: "weights.stored", Source: b.sources()})
			terms[category] = term
		}
		bytes, fits := t.Stored.Size(local.Shape)
		if !fits {
			unknown[category] = account.Unknown(model.WhyNoBytes(t), b.tl.Terms[term].Provenance)
			continue
		}
		b.tl.Events = append(b.tl.Events, timeline.Event{Kind: timeline.Born, Alloc: uint32(len(b.tl.Allocs))})
		b.tl.Allocs = append(b.tl.Allocs, timeline.Alloc{Requested: bytes, Term: term, Stack: timeline.NoStack})
	}
	b.tl.Phases = append(b.tl.Phases, timeline.Span{Phase: account.PhaseModelLoad, Last: len(b.tl.Events)})
	for _, category := range account.Categories() {
		if f, ok := unknown[category]; ok {
			b.bound(terms[category], 0, last, f)
		}
	}
	b.notUnderstood(terms)
}

// notUnderstood makes the weights a lower bound where the reader of the model
// met something that it does not know.
func (b *builder) notUnderstood(terms map[account.Category]uint32) {
	if len(b.in.Model.Unknown) == 0 {
		return
	}
	term, seen := terms[account.CategoryParameter]
	if !seen {
		term = b.term(account.TermWeights, account.CategoryParameter, account.Provenance{Origin: account.Calculated, Scope: account.Requested})
	}
	u := b.in.Model.Unknown[0]
	b.bound(term, 0, last, account.Unknown("the model's configuration is not understood: "+u.Field+": "+u.Why, b.tl.Terms[term].Provenance))
}

func loadTerm(c account.Category) account.TermID {
	switch c {
	case account.CategoryBuffer:
		return account.TermBuffers
	case account.CategoryQuantisationMetadata:
		return account.TermQuantisationMetadata
	}
	return account.TermWeights
}

func (b *builder) sources() string {
	if len(b.in.Model.Sources) == 0 {
		return ""
	}
	return b.in.Model.Sources[0].Name
}

func (b *builder) span(p account.PhaseID) {
	n := len(b.tl.Events)
	b.tl.Phases = append(b.tl.Phases, timeline.Span{Phase: p, First: n, Last: n})
}

func (b *builder) term(id account.TermID, c account.Category, p account.Provenance) uint32 {
	b.tl.Terms = append(b.tl.Terms, account.Term{ID: id, Category: c, Provenance: p})
	return uint32(len(b.tl.Terms) - 1)
}

// last is the To of a bound that is held to the end: which span that is, is
// known only when all are written.
const last = int32(-1)

// bound holds a figure from span first to span to.
func (b *builder) bound(term uint32, first int, to int32, f account.Figure) {
	b.tl.Bounds = append(b.tl.Bounds, timeline.Bound{Term: term, From: int32(first), To: to, Figure: f})
}

// toTheEnd gives the bounds that are held to the end their last span.
func (b *builder) toTheEnd() {
	for i := range b.tl.Bounds {
		if b.tl.Bounds[i].To == last {
			b.tl.Bounds[i].To = int32(len(b.tl.Phases) - 1)
		}
	}
}

// unpredicted writes a row for everything else that can hold bytes, so that
// what is missing is seen.
func (b *builder) unpredicted() {
	row := func(id account.TermID, c account.Category, first int, f account.Figure) {
		b.bound(b.term(id, c, f.Provenance), first, last, f)
	}
	requested := account.Provenance{Origin: account.Calculated, Scope: account.Requested}
	process := account.Provenance{Origin: account.Calculated, Scope: account.Process}
	if len(b.tl.Phases) > 1 {
		row(account.TermActivations, account.CategoryActivation, 1,
			account.Unknown("activations are not predicted by this version", requested))
		row(account.TermLogits, account.CategoryLogits, 1,
			account.Unknown("logits are not predicted by this version", requested))
	}
	row(account.TermGraphPools, account.CategoryGraphPool, 0,
		account.Zero("eager execution captures no CUDA graph", requested))
	row(account.TermCommunication, account.CategoryCommunication, 0,
		account.Zero("one rank has nobody to talk to", process))
	row(account.TermContext, account.CategoryContext, 0,
		account.Unknown("the CUDA context and libraries are not predicted by this version", process))
	row(account.TermAllocatorCache, account.CategoryAllocatorCache, 0,
		account.Unknown("what the caching allocator holds unused is not predicted by this version",
			account.Provenance{Origin: account.Calculated, Scope: account.Reserved}))
}

// kvFormula is the id of the rule for the KV cache.
const kvFormula = "kv.attention"

// cache is the payload of the KV cache: after prefill it holds the context, and
// by the end of decode what was generated too. A dimension that nobody declared
// leaves a lower bound.
func (b *builder) cache() {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Requested, Counter: kvFormula,
		Source: "https://huggingface.co/docs/transformers/kv_cache"}
	term := b.term(account.TermKVCache, account.CategoryKVCache, p)
	declared := func(d workload.Dimension) int64 {
		n, _ := b.in.Workload.Dimension(d)
		return n
	}
	context, generated, sequences := declared(workload.Context), declared(workload.Generated), declared(workload.Sequences)
	perPosition := b.perPosition(p)
	payload := func(positions int64) account.Figure {
		f := perPosition.Times(positions).Times(sequences)
		if missing := b.in.Workload.Missing(); len(missing) > 0 {
			return account.AtLeast(f.Low(), "the workload does not say: "+join(missing), p)
		}
		return f
	}
	total, fits := bytesize.Add(context, generated)
	b.bound(term, prefillSpan, prefillSpan, payload(context))
	if !fits {
		b.bound(term, decodeSpan, decodeSpan, account.Unknown(bytesize.ErrOverflow.Error(), p))
		return
	}
	// The last generated position is never fed back, but its place is charged:
	// engines reserve it, and one position is far below any margin.
	b.bound(term, decodeSpan, decodeSpan, payload(total))
}

// The spans of a generation, after model_load.
const (
	prefillSpan = 1
	decodeSpan  = 2
)

// warnBeyond says so when the lengths go beyond what the model declares.
func (b *builder) warnBeyond() {
	context, _ := b.in.Workload.Dimension(workload.Context)
	generated, _ := b.in.Workload.Dimension(workload.Generated)
	most := int64(b.in.Model.MaxPosition)
	if total, fits := bytesize.Add(context, generated); most > 0 && (!fits || total > most) {
		b.tl.Warnings = append(b.tl.Warnings, account.Warning{Code: "beyond_max_position",
			Text: fmt.Sprintf("the workload's positions go beyond the %d that the model's configuration declares", most)})
	}
}

func (b *builder) perPosition(p account.Provenance) account.Figure {
	format := b.in.Workload.Precision.Cache
	if format == dtype.Unknown {
		format = b.in.Model.Compute
	}
	if format == dtype.Unknown {
		return account.Unknown("neither the workload nor the model's configuration says in which format the cache is kept", p)
	}
	total := account.Exact(0, p)
	for _, ref := range b.in.Plan.Layers {
		stack := &b.in.Model.Stacks[ref.Stack]
		for _, mixer := range stack.Layers[ref.Layer].Mixers {
			a, ok := mixer.(model.Attention)
			if !ok || a.Window > 0 || a.Chunk > 0 || a.Cross || !a.Causal || a.CacheOf >= 0 {
				total = account.Sum(p, total, account.Unknown("this version predicts the cache of plain causal attention only", p))
				continue
			}
			bytes, fits := format.Size([]int64{int64(a.KVHeads), int64(a.KeyDim) + int64(a.ValueDim)})
			total = account.Sum(p, total, account.Checked(bytes, fits, p))
		}
	}
	return total
}

func join(dimensions []workload.Dimension) string {
	s := ""
	for i, d := range dimensions {
		if i > 0 {
			s += ", "
		}
		s += string(d)
	}
	return s
}
