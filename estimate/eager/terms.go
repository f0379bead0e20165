package eager

import (
	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/estimate/outside"
	"floodmark/model"
	"floodmark/workload"
)

// breaks is why a feature that the workload names makes activations unknown.
func (b *builder) breaks() string {
	switch {
	case b.has(workload.TorchCompile):
		return "torch.compile fuses and reorders operators, which is not modelled"
	case b.has(workload.FP8Compute):
		return "what FP8 computation copies is not modelled"
	case b.has(workload.WeightOffload):
		return "what weight offload brings to the device and when is not modelled"
	}
	return ""
}

// inPhase adds a figure of prefill and one of decode to a term. A feature that
// breaks the model leaves their lows. Where nothing is generated, decode holds
// what prefill left and makes nothing.
func (b *builder) inPhase(term uint32, prefill, decode account.Figure, reason string) {
	if reason != "" {
		prefill, decode = account.AtLeast(prefill.Low(), reason, prefill.Provenance), account.AtLeast(decode.Low(), reason, decode.Provenance)
	}
	id := b.tl.Terms[term].ID
	if n, declared := b.in.Workload.Dimension(workload.Generated); declared && n == 0 && (id == account.TermActivations || id == account.TermLogits) {
		decode = account.Zero("no position is generated", decode.Provenance)
	}
	b.bound(term, prefillSpan, prefillSpan, prefill)
	b.bound(term, decodeSpan, decodeSpan, decode)
}

// first is the first reason that there is.
func first(reasons ...string) string {
	for _, r := range reasons {
		if r != "" {
			return r
		}
	}
	return ""
}

// activations is the tensors of a layer at work. In prefill at least one
// position is under way, for prompts can be processed in parts, and at most all
// positions of all prompts; in decode one of each sequence.
func (b *builder) activations(w *work) {
	p := b.requested(activationFormula)
	term := b.term(account.TermActivations, account.CategoryActivation, p)
	prefill := account.Highest(p, b.together(p, w), b.together(p, newTower(b, w.d)))
	decode := between(p, w.residual*min(w.d.sequences, 1<<32), w.peak(), w.d.sequences)
	if b.how.scores {
		decode = account.Sum(p, decode, between(p, 0, w.d.sequences, w.heads, w.longest(), 4+2*w.width))
	}
	b.inPhase(term, w.d.bounded(prefill), w.d.bounded(decode), first(b.breaks(), w.unknown))
}

// together is the activations of all positions of all sequences at once, with
// the scores and the mask of their pairs where those can exist. Of images the
// patches are one row, whose mask is of them all.
func (b *builder) together(p account.Provenance, w *work) account.Figure {
	f := between(p, w.residual, w.peak(), w.d.context, w.d.sequences)
	if b.how.scores {
		f = account.Sum(p, f, between(p, 0, w.d.sequences, w.heads, w.d.context, w.d.context, 4+2*w.width))
	}
	if b.how.masks {
		f = account.Sum(p, f, between(p, 0, w.d.sequences, w.d.context, w.d.context, w.width))
	}
	return f
}

// longest is the positions of one sequence at the end; 0 where they overflow,
// which the cache says.
func (w *work) longest() int64 {
	n, _ := w.d.total()
	return n
}

// logits is the scores over the vocabulary, on the stage that has the head: in
// the model's format at least; with a copy in 32 bits and that of the cast
// before it at most, and what sampling sorts for the last position.
func (b *builder) logits(d dimensions) {
	p := b.requested(logitsFormula)
	if !b.in.Plan.Last {
		b.row(account.TermLogits, account.CategoryLogits, prefillSpan, last, account.Zero("the rank's stage does not hold the output head", p))
		return
	}
	width, _ := b.compute().Size(nil)
	vocab := int64(b.in.Plan.Vocab) * int64(max(1, b.in.Plan.Mesh.TensorParallel))
	if vocab == 0 || width == 0 {
		b.row(account.TermLogits, account.CategoryLogits, prefillSpan, last, account.Unknown("the size of the vocabulary or the format of the logits is not known", p))
		return
	}
	sampling := between(p, 0, d.sequences, vocab, samplingBytes)
	one, fits := bytesize.Mul(d.sequences, int64(b.in.Plan.Vocab), width)
	if !fits {
		one = 0
	}
	decode := account.Sum(p, between(p, one, d.sequences, vocab, width+8), sampling)
	prefill := decode
	if b.how.allLogits {
		low := one
		if all, fits := bytesize.Mul(one, d.context); fits && !b.how.lastLogits {
			low = all
		}
		prefill = account.Sum(p, between(p, low, d.sequences, d.context, vocab, width+8), sampling)
	}
	term := b.term(account.TermLogits, account.CategoryLogits, p)
	b.inPhase(term, d.bounded(prefill), d.bounded(decode), b.breaks())
}

// samplingBytes is what sampling one token makes for each entry of the
// vocabulary: scores, sorted scores, their 64-bit indexes, cumulative
// probabilities, a mask, and the scores that are left.
const samplingBytes = 4 + 4 + 8 + 4 + 1 + 8 + 4

// temporaries is what is neither a layer's activation nor kept: workspaces of
// matrix libraries, copies of the cache that a step makes, keys and values
// repeated for each query head, and weights that are expanded to be used.
func (b *builder) temporaries(w *work) {
	p := b.requested(temporaryFormula)
	term := b.once(account.TermTemporaries, account.CategoryTemporary, p)
	always := account.Sum(p, outside.Workspaces(b.arch()), b.expanded(p, w.d))
	prefill, decode := always, always
	if b.how.concatenates && b.in.Workload.Cache != workload.Static {
		copied := between(p, 0, w.d.sequences, w.longest(), w.one)
		if b.how.twice {
			copied = b.wholeCache(p, w.d)
		}
		decode = account.Sum(p, decode, copied)
	}
	if b.how.repeats {
		prefill = account.Sum(p, prefill, between(p, 0, w.d.sequences, w.d.context, w.pair))
		decode = account.Sum(p, decode, between(p, 0, w.d.sequences, w.longest(), w.pair))
	}
	b.inPhase(term, w.d.bounded(prefill), w.d.bounded(decode), b.breaks())
}

// wholeCache is nothing to a second copy of the cache.
func (b *builder) wholeCache(p account.Provenance, d dimensions) account.Figure {
	for _, x := range b.tl.Bounds {
		if b.tl.Terms[x.Term].ID == account.TermKVCache && x.To == decodeSpan {
			high, known := x.Figure.High()
			if !known {
				return account.Unknown(x.Figure.Reason(), p)
			}
			return account.Between(0, high, p)
		}
	}
	return account.Exact(0, p)
}

// expanded is the largest packed weight as it is used: kernels that compute on
// packed weights expand none; others one at a time, to 16 bits. bitsandbytes
// makes of 8 bits a second packed copy beside it, and of 4 bits a copy in the 32
// that it computes in unless told otherwise, with input and output.
func (b *builder) expanded(p account.Provenance, d dimensions) account.Figure {
	var most, edges int64
	for _, local := range b.in.Plan.Tensors {
		t := b.in.Model.Tensors[local.Tensor]
		if t.Packed == nil && b.in.Model.Quantised == nil || t.Role.Category() != account.CategoryParameter || t.Role == model.RoleTokenEmbedding || t.Role == model.RoleHead {
			continue
		}
		if n, fits := bytesize.Mul(local.Shape...); fits && n > most {
			most, edges = n, stage(local.Shape).sum()
		}
	}
	q := b.in.Model.Quantised
	switch {
	case most == 0:
		return account.Exact(0, p)
	case q != nil && q.Method == "bitsandbytes" && q.Bits == 4:
		return account.Sum(p, between(p, 0, most, 2+4), between(p, 0, d.context, d.sequences, edges, 4))
	case q != nil && q.Method == "bitsandbytes":
		return between(p, 0, most, 2+1)
	}
	return between(p, 0, most, 2)
}

// cached is what the allocator keeps of blocks that were freed: none when a
// request took it all, and at most one block for each tensor of a layer that no
// other of its size can serve, and what loading left. In decode it can keep all that prefill used; what
// it keeps it gives back before a request fails.
func (b *builder) cached(w *work) {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Reserved, Counter: cacheFormula, Source: sourceOf(cacheFormula)}
	term := b.once(account.TermAllocatorCache, account.CategoryAllocatorCache, p)
	beyond := w.blocks() - w.peak()
	prefill := account.Sum(p, between(p, 0, max(0, beyond), w.d.context, w.d.sequences), account.Between(0, pools, p), b.incoming())
	decode := prefill
	for _, x := range b.tl.Bounds {
		switch id := b.tl.Terms[x.Term].ID; {
		case x.From != prefillSpan || id != account.TermActivations && id != account.TermLogits && id != account.TermTemporaries:
		case x.Figure.Known():
			high, _ := x.Figure.High()
			decode = account.Sum(p, decode, account.Between(0, high, p))
		default:
			decode = account.Sum(p, decode, account.Unknown(x.Figure.Reason(), p))
		}
	}
	if w.peak() < 0 || w.blocks() < 0 {
		prefill, decode = account.Unknown(bytesize.ErrOverflow.Error(), p), account.Unknown(bytesize.ErrOverflow.Error(), p)
	}
	b.inPhase(term, w.d.bounded(prefill), w.d.bounded(decode), first(b.breaks(), w.unknown))
}

// cachedLoading is what the allocator keeps beside the tensors while they are
// loaded.
func (b *builder) cachedLoading() {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Reserved, Counter: cacheFormula, Source: sourceOf(cacheFormula)}
	b.bound(b.once(account.TermAllocatorCache, account.CategoryAllocatorCache, p), loadSpan, loadSpan, account.Between(0, pools, p))
}

// pools is what segments hold beside their blocks: one of 20 MiB for blocks of 1
// to 10 MiB, one of 2 MiB for smaller ones, and the rounding of large ones.
const pools = (20 + 2 + 64) << 20
