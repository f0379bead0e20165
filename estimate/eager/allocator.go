package eager

import (
	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/timeline"
)

// rounding is what blocks hold beyond the tensors in them: a block that is
// larger by 1 MiB or less is not split. The tensors that are laid out are
// rounded exactly; those that are bounds may each be in such a block.
func (b *builder) rounding(w *work) {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Allocated, Counter: roundingFormula, Source: sourceOf(roundingFormula)}
	tensors := int64(expandedTensors)
	for _, s := range w.stages {
		tensors = max(tensors, int64(len(s))+expandedTensors)
	}
	b.tl.Bound(b.tl.Term(account.TermAllocatorRounding, account.CategoryAllocatorRounding, p), prefillSpan, timeline.ToEnd, between(p, 0, tensors, 1<<20))
}

// expandedTensors is how many temporaries are alive beside a layer's tensors:
// keys and values repeated, or a weight and its copies.
const expandedTensors = 4

// cached is what the allocator keeps of blocks that were freed: none when a
// request took it all, and at most one block for each tensor of a layer that no
// other of its size can serve, what the head's moment or the layers' left, and
// what loading left. In decode it can keep all that prefill used. What it keeps
// it gives back before a request fails.
func (b *builder) cached(w *work) {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Reserved, Counter: cacheFormula, Source: sourceOf(cacheFormula)}
	term := b.tl.Term(account.TermAllocatorCache, account.CategoryAllocatorCache, p)
	s := b.prefill(w)
	layers := account.Sum(p, s.activations, s.expanded)
	beyond := between(p, 0, max(0, w.blocks()-w.peak()), w.d.context, w.d.sequences)
	left := account.Sum(p, beyond, account.Between(0, pools, p), b.incoming())
	prefill := account.Sum(p, left, fromNothing(p, smaller(layers, s.logits)))
	decode := account.Sum(p, left, fromNothing(p, layers), fromNothing(p, s.logits))
	if w.peak() < 0 || w.blocks() < 0 {
		prefill, decode = account.Unknown(bytesize.ErrOverflow.Error(), p), account.Unknown(bytesize.ErrOverflow.Error(), p)
	}
	reason := first(b.breaks(), w.unknown)
	b.tl.Bound(term, prefillSpan, prefillSpan, w.d.bounded(open(prefill, reason)))
	b.tl.Bound(term, decodeSpan, decodeSpan, w.d.bounded(open(decode, reason)))
}

// smaller is the figure with the lower high; one without a high where there is
// one.
func smaller(f, g account.Figure) account.Figure {
	a, known := f.High()
	b, also := g.High()
	if !known || also && a <= b {
		return f
	}
	return g
}

// fromNothing is a figure that may be nothing.
func fromNothing(p account.Provenance, f account.Figure) account.Figure {
	high, known := f.High()
	if !known {
		return account.Unknown(f.Reason(), p)
	}
	return account.Between(0, high, p)
}

// cachedLoading is what the allocator keeps beside the tensors while they are
// loaded.
func (b *builder) cachedLoading() {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Reserved, Counter: cacheFormula, Source: sourceOf(cacheFormula)}
	b.tl.Bound(b.tl.Term(account.TermAllocatorCache, account.CategoryAllocatorCache, p), loadSpan, loadSpan, account.Between(0, pools, p))
}

// pools is what segments hold beside their blocks: one of 20 MiB for blocks of 1
// to 10 MiB, one of 2 MiB for smaller ones, and the rounding of large ones.
const pools = (20 + 2 + 64) << 20
