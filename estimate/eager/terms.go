package eager

import (
	"math"

	"floodmark/account"
	"floodmark/bytesize"
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

// first is the first reason that there is.
func first(reasons ...string) string {
	for _, r := range reasons {
		if r != "" {
			return r
		}
	}
	return ""
}

// step is what one phase makes beside what it keeps. It has two moments: layers
// at work, and when their tensors are gone, the head with its logits.
type step struct {
	activations, expanded account.Figure // while layers work
	stream, logits        account.Figure // while the head does
	always                account.Figure // temporaries of both moments
}

// steps writes what prefill and decode make. Where nothing is generated, decode
// makes nothing.
func (b *builder) steps(w *work) {
	prefill, decode := b.prefill(w), b.decode(w)
	if n, declared := b.in.Workload.Dimension(workload.Generated); declared && n == 0 {
		none := account.Zero("no position is generated", decode.activations.Provenance)
		decode.activations, decode.stream, decode.expanded, decode.logits = none, none, none.As(decode.expanded.Provenance), none.As(decode.logits.Provenance)
	}
	b.write(prefillSpan, w, prefill)
	b.write(decodeSpan, w, decode)
}

// write holds the larger moment of a step: what the other makes is not alive
// then. A feature that breaks the model leaves the lows of both.
func (b *builder) write(span int, w *work, s step) {
	reason := first(b.breaks(), w.unknown)
	layers, a := account.Sum(account.Provenance{}, s.activations, s.expanded).High()
	head, c := account.Sum(account.Provenance{}, s.stream, s.logits).High()
	switch {
	case reason != "" || !a || !c:
		s.activations = open(s.activations, reason)
		s.expanded, s.logits, s.always = open(s.expanded, b.breaks()), open(s.logits, b.breaks()), open(s.always, b.breaks())
	case s.logits.Status() == account.StatusZero:
	case layers >= head:
		most, _ := s.logits.High()
		s.logits = account.Zero("they come when the layers' tensors are gone, and with what is left take less; they are "+upTo(most), s.logits.Provenance)
	default:
		s.activations = s.stream
		s.expanded = account.Exact(0, s.expanded.Provenance)
	}
	to := int32(span)
	b.tl.Bound(b.tl.Term(account.TermActivations, account.CategoryActivation, s.activations.Provenance), span, to, w.d.bounded(s.activations))
	b.tl.Bound(b.tl.Term(account.TermLogits, account.CategoryLogits, s.logits.Provenance), span, to, w.d.bounded(s.logits))
	temporaries := account.Sum(s.always.Provenance, s.always, s.expanded)
	b.tl.Bound(b.tl.Term(account.TermTemporaries, account.CategoryTemporary, temporaries.Provenance), span, to, w.d.bounded(temporaries))
}

// open leaves the low of a figure where there is a reason to.
func open(f account.Figure, reason string) account.Figure {
	if reason == "" {
		return f
	}
	return account.AtLeast(f.Low(), reason, f.Provenance)
}

func upTo(bytes int64) string { return "up to " + bytesize.Format(bytes, bytesize.Suggest(bytes)) }

// prefill is the prompts at work: at least one position, for prompts can be
// processed in parts, and at most all positions of all prompts. What runs before
// the context, towers and encoders, is gone when it does.
func (b *builder) prefill(w *work) step {
	p, t := b.requested(activationFormula), b.requested(temporaryFormula)
	s := step{
		activations: b.together(p, w),
		expanded:    b.expanded(t, w.d),
		stream:      between(p, w.residual, 3, w.residual, w.d.context, w.d.sequences),
		logits:      b.logits(w.d, b.how.allLogits),
		always:      b.workspaces().As(t),
	}
	if b.how.repeats {
		s.expanded = account.Sum(t, s.expanded, between(t, 0, w.d.sequences, w.d.context, w.pair))
	}
	for _, earlier := range b.before(w.d) {
		s.activations = account.Highest(p, s.activations, b.together(p, earlier))
	}
	return s
}

// decode is one position of each sequence at work, against all that it keeps.
func (b *builder) decode(w *work) step {
	p, t := b.requested(activationFormula), b.requested(temporaryFormula)
	low := w.residual * min(w.d.sequences, 1<<32)
	s := step{
		activations: account.Sum(p, between(p, low, w.peak(), w.d.sequences), between(p, 0, w.foreign, w.d.sequences), w.states(p)),
		expanded:    b.expanded(t, w.d),
		stream:      between(p, low, 3, w.residual, w.d.sequences),
		logits:      b.logits(w.d, false),
		always:      b.workspaces().As(t),
	}
	if b.how.scores != noScores {
		s.activations = account.Sum(p, s.activations, between(p, 0, w.d.sequences, w.heads, w.longest(), w.scoreBytes(b.compute())))
	}
	if b.how.repeats {
		s.expanded = account.Sum(t, s.expanded, between(t, 0, w.d.sequences, w.longest(), w.pair))
	}
	switch {
	case !b.how.concatenates || b.in.Workload.Cache == workload.Static:
	case b.how.twice:
		s.always = account.Sum(t, s.always, b.wholeCache(t))
	default:
		s.expanded = account.Sum(t, s.expanded, between(t, 0, w.d.sequences, w.longest(), w.one))
	}
	return s
}

// together is the activations of all positions of all sequences at once, with
// the scores and the mask of their pairs where those can exist. One sequence of
// full attention is not padded and has no mask (_ignore_causal_mask_sdpa of
// transformers); of images the patches are one row, whose mask is of them all. A
// mask is alive in all of the layer, what is converted of it beside attention only.
func (b *builder) together(p account.Provenance, w *work) account.Figure {
	f := account.Sum(p, between(p, w.residual, w.peak(), w.d.context, w.d.sequences), between(p, 0, w.foreign, w.d.context, w.d.sequences), w.states(p))
	if b.how.scores != noScores {
		f = account.Sum(p, f, between(p, b.leastScores(w), w.d.sequences, w.heads, w.d.context, w.d.context, w.scoreBytes(b.compute())))
	}
	if b.how.masks && (b.how.scores != noScores || w.masked || w.d.sequences > 1) {
		attending := account.Sum(p, between(p, 0, w.attention, w.d.context, w.d.sequences), between(p, 0, w.d.sequences, w.d.context, w.maskRow(), w.converted()))
		f = account.Sum(p, account.Highest(p, f, attending), between(p, 0, w.d.sequences, w.d.context, w.maskRow(), w.width))
	}
	return f
}

// leastScores is the scores and their softmax, which are alive together where
// the text's attention has no other way.
func (b *builder) leastScores(w *work) int64 {
	if n := product(w.d.sequences, w.heads, w.d.context, w.d.context, 2, w.width); b.how.scores == certainScores && !w.tower && n > 0 {
		return n
	}
	return 0
}

// maskRow is the positions of one row of a mask: PyTorch copies one whose rows
// are no multiple of 8 positions, in older releases of 16, into rows that are
// (pad_bias of https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/transformers/attention.cpp).
func (w *work) maskRow() int64 {
	if w.d.context > math.MaxInt64-maskAlignment {
		return w.d.context
	}
	return bytesize.CeilDiv(w.d.context, maskAlignment) * maskAlignment
}

const maskAlignment = 16

// converted is the bytes that attention makes of one pair of a mask while it runs:
// transformers makes booleans (sdpa_mask of
// https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/masking_utils.py),
// for each kind of layer its own, of which PyTorch makes a mask in the model's
// format, and a padded copy where rows are no such multiple. A context is the
// longest of a workload: one that is shorter by a position is padded, so that the
// copy is charged to a multiple too.
func (w *work) converted() int64 { return 2 * w.width }

// longest is the positions of one sequence at the end; 0 where they overflow,
// which the cache says.
func (w *work) longest() int64 {
	n, _ := w.d.total()
	return n
}

// logits is the scores over the vocabulary, on the stage that has the head: in
// the model's format at least; with a copy in 32 bits and that of the cast
// before it at most, and what sampling sorts for the last position.
func (b *builder) logits(d dimensions, all bool) account.Figure {
	p := b.requested(logitsFormula)
	if !b.in.Plan.Last {
		return account.Zero("the rank's stage does not hold the output head", p)
	}
	width, _ := b.compute().Size(nil)
	vocab := int64(b.in.Plan.Vocab) * int64(max(1, b.in.Plan.Mesh.TensorParallel))
	if vocab == 0 || width == 0 {
		return account.Unknown("the size of the vocabulary or the format of the logits is not known", p)
	}
	one, fits := bytesize.Mul(d.sequences, int64(b.in.Plan.Vocab), width)
	if !fits {
		one = 0
	}
	low, positions := one, int64(1)
	if all {
		positions = d.context
		if n, fits := bytesize.Mul(one, d.context); fits && !b.how.lastLogits {
			low = n
		}
	}
	return account.Sum(p, between(p, low, d.sequences, positions, vocab, width+8), between(p, 0, d.sequences, vocab, samplingBytes))
}

// samplingBytes is what sampling one token makes for each entry of the
// vocabulary: scores, sorted scores, their 64-bit indexes, cumulative
// probabilities, a mask, and the scores that are left.
const samplingBytes = 4 + 4 + 8 + 4 + 1 + 8 + 4

// wholeCache is nothing to a second copy of the cache.
func (b *builder) wholeCache(p account.Provenance) account.Figure {
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
