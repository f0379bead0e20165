package vllm

import (
	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/estimate"
	"floodmark/model"
	"floodmark/parallel"
)

// profile is what the engine's trial run holds at its peaks, beside the weights.
// Forward and sampling are two moments; what stays is alive in both.
type profile struct {
	forward  account.Figure // activations of all positions of one step
	stream   account.Figure // the hidden states that are alive while sampling
	sampler  account.Figure // logits and their copies
	experts  account.Figure // workspaces of fused experts, which stay
	media    account.Figure // images and what the tower made of them
	handles  account.Figure // workspaces of matrix libraries, which stay
	peak     account.Figure // the higher moment, with what stays
	stays    account.Figure // experts and handles
	atSample bool           // the peak is sampling
}

// slackPerToken is how far the forward pass may be above what the rule of dense
// layers says: 0.06 GiB over 8,192 positions, of which 0.05 were seen; a quarter
// of it below.
const slackPerToken = 8 << 10

// profileOf is the trial run of a rank.
func (o *options) profileOf(in estimate.Input, plan parallel.RankPlan) profile {
	forward := provenance(forwardFormula, o.link("vllm/v1/worker/gpu_model_runner.py"), account.Requested)
	pr := profile{forward: o.forward(in, plan, forward)}
	sampler := provenance(samplerFormula, o.link("vllm/v1/sample/sampler.py"), account.Requested)
	hidden := int64(width(in.Model))
	pr.stream = account.Zero("the stage does not sample", forward)
	pr.sampler = account.Zero("only the last pipeline stage samples", sampler)
	if plan.Last {
		stream, a := bytesize.Mul(o.BatchedTokens, hidden, o.width)
		rows, b := bytesize.Mul(o.rows(), hidden, o.width)
		// Two copies of the rows that are sampled, and inputs of the step.
		pr.stream = account.Between(stream+2*rows, stream+4*rows, forward)
		if !a || !b {
			pr.stream = account.Unknown(bytesize.ErrOverflow.Error(), forward)
		}
		pr.sampler = o.sampling(in, sampler)
	}
	pr.experts = o.expertWorkspaces(in, plan)
	pr.media = o.media(in, plan)
	pr.handles = handles(in.Memory.Arch).As(provenance(forwardFormula, handleSource, account.Requested))
	pr.stays = account.Sum(forward, pr.experts, pr.handles)
	sampling := account.Sum(sampler, pr.stream, pr.sampler)
	pr.peak = account.Sum(forward, account.Highest(forward, pr.forward, sampling), pr.stays, pr.media)
	pr.atSample = sampling.Low() >= pr.forward.Low()
	return pr
}

// rows is how many dummy requests are sampled: one more for each token that is
// guessed ahead.
func (o *options) rows() int64 { return o.maxSeqs * (1 + min(o.Speculative, 1)) }

// width is the hidden size of the text.
func width(m *model.Model) int {
	for _, k := range []model.StackKind{model.Decoder, model.Encoder} {
		for _, s := range m.Stacks {
			if s.Kind == k {
				return s.Width
			}
		}
	}
	return 0
}

// forward is the activations of one step's positions in the layer where they
// are widest. With a compiled graph they are gate, up and their product, and 3.77
// times the stream: the one coefficient that is fitted (CodeLlama-7B 3.76,
// Granite-3.1-8B 3.73, Llama-3.1-8B over four stages 3.80; vLLM 0.19 on H100). An
// earlier stage holds in addition what it receives and sends. Worked number:
// 8,192 × 2 bytes × (3 × 11,008 + 3.77 × 4,096) are 794,060,226 bytes; with 32 MiB
// for the matrix library 0.77 GiB.
func (o *options) forward(in estimate.Input, plan parallel.RankPlan, p account.Provenance) account.Figure {
	var dense, wide int64
	exact := !hasExperts(in.Model)
	for _, ref := range plan.Layers {
		stack := in.Model.Stacks[ref.Stack]
		if stack.Kind != model.Decoder && stack.Kind != model.Encoder {
			continue
		}
		l := plan.Layer(in.Model, ref)
		switch f := l.FeedForward.(type) {
		case model.Dense:
			dense = max(dense, inner(f.Gated)*int64(f.Width))
		case model.Experts:
			dense = max(dense, 3*int64(f.SharedWidth))
		}
		for _, m := range l.Mixers {
			n, known := projected(m)
			wide, exact = max(wide, n), exact && known
		}
	}
	hidden := int64(width(in.Model))
	elements := float64(max(dense, wide)) + o.streams*float64(hidden)
	bytes := float64(o.BatchedTokens*o.width) * elements
	if bytes < 0 || bytes > 1<<60 {
		return account.Unknown(bytesize.ErrOverflow.Error(), p)
	}
	low, high := int64(bytes)-o.BatchedTokens*slackPerToken/4, int64(bytes)+o.BatchedTokens*slackPerToken
	if !plan.Last || !plan.First {
		high += 2 * o.BatchedTokens * hidden * o.width
	}
	if !plan.Last {
		low += 2 * o.BatchedTokens * hidden * o.width
	}
	if eightBits(in.Model) {
		high += o.BatchedTokens * (max(dense, wide)/2 + hidden) // inputs of matrices are copied to 8 bits
	}
	if !exact || o.extrapolated || o.Eager {
		low = 2 * o.BatchedTokens * hidden * o.width
		high += o.BatchedTokens * o.width * (max(dense, wide) + 2*hidden)
	}
	p.Origin = account.Fitted
	return account.Between(max(0, low), high, p)
}

// fittedStreams is how many times the width of the stream the compiled forward
// pass holds beside the widest layer.
const fittedStreams = 3.77

func inner(gated bool) int64 {
	if gated {
		return 3
	}
	return 2
}

// projected is what a mixer projects one position to, and whether the rule was
// measured for its kind.
func projected(m model.Mixer) (elements int64, measured bool) {
	switch a := m.(type) {
	case model.Attention:
		return int64(a.QueryHeads+a.KVHeads)*int64(a.KeyDim) + int64(a.KVHeads)*int64(a.ValueDim), !a.Cross
	case model.LatentAttention:
		return int64(a.QueryHeads) * int64(2*a.NopeDim+2*a.RopeDim+a.ValueDim), false
	case model.GatedDelta:
		return int64(4*a.KeyHeads*a.KeyDim + 4*a.ValueHeads*a.ValueDim), false
	case model.Mamba:
		return int64(6 * a.Inner), false
	}
	return 0, false
}

// sampling is the logits of the dummy requests in the format of the computation,
// their copy in 32 bits, probabilities and noise, and the rows in which the
// kernel filters, one for each processor of the card (forward_native of
// vllm/v1/sample/ops/topk_topp_sampler.py, topk_topp_triton.py). Older versions
// sort all logits with their indices: 37.9 bytes an entry were measured. Worked
// number: 1,024 × 128,256 × 14 + 132 × 128,256 × 4 bytes are 1,906,397,184.
func (o *options) sampling(in estimate.Input, p account.Provenance) account.Figure {
	vocabulary := int64(in.Model.Vocab)
	entries, fits := bytesize.Mul(o.rows(), vocabulary)
	if !fits || entries > 1<<52 {
		return account.Unknown(bytesize.ErrOverflow.Error(), p)
	}
	low, high := entries*(o.width+12), entries*(o.width+12)
	least, most := processors(in.Memory.Arch)
	switch o.rules.sampler {
	case inPlace:
		low += min(least, o.rows()) * vocabulary * 4
		high += min(most, o.rows()) * vocabulary * 4
	case sorting, eitherOr:
		p.Origin = account.Fitted
		high = entries * 383 / 10
		if o.wholeCard {
			low = 0
		}
	}
	if o.Speculative > 0 {
		high += entries * (o.width + 4) // the rejection sampler's trial
	}
	return account.Between(low, high, p)
}

// processors is how many multiprocessors cards of an architecture have.
func processors(arch string) (least, most int64) {
	switch arch {
	case "Hopper":
		return 114, 132
	case "Ampere":
		return 16, 108
	case "Ada":
		return 18, 142
	case "Blackwell":
		return 20, 192
	}
	return 10, 192
}

// expertWorkspaces is what fused experts take with the first step and keep: the
// inputs and outputs of each routed expert, tokens × active × the larger of the
// stream and an expert's width, and of twice that width (workspace_shapes of
// TritonExperts, vllm/model_executor/layers/fused_moe/fused_moe.py). Kernels for
// packed experts have their own. Worked number: 8,192 × 8 × (2,048 + 2,048) × 2
// bytes are 512 MiB for Qwen3-30B-A3B.
func (o *options) expertWorkspaces(in estimate.Input, plan parallel.RankPlan) account.Figure {
	p := provenance(expertsFormula, o.link("vllm/model_executor/layers/fused_moe/fused_moe.py"), account.Requested)
	var most int64
	for _, ref := range plan.Layers {
		stack := in.Model.Stacks[ref.Stack]
		e, is := plan.Layer(in.Model, ref).FeedForward.(model.Experts)
		if !is {
			continue
		}
		hidden, width := int64(stack.Width), int64(e.Width)
		first, second := max(width, hidden), max(2*width, hidden)
		n, fits := bytesize.Mul(o.BatchedTokens, int64(max(1, e.Active)), first+second, o.width)
		if !fits {
			return account.Unknown(bytesize.ErrOverflow.Error(), p)
		}
		most = max(most, n)
	}
	switch {
	case most == 0:
		return account.Zero("the rank runs no experts", p)
	case in.Model.Quantised != nil && in.Model.Quantised.Method == "mxfp4" || o.wholeCard || o.rules.minor < 11:
		return account.Between(0, most, p)
	case in.Model.Quantised != nil || o.extrapolated:
		return account.Between(most/2, most+most/2, p)
	}
	return account.Exact(most, p)
}

// media is the images of one step and what the tower makes of them, which the
// trial run keeps to its end: up to as many positions as a step works on, and
// the pixels behind each, of which families differ. Worked number: 32 images of
// 896 × 896 × 3 × 2 bytes are 154,140,672 bytes, and 8,192 positions × 3,840 × 2
// bytes 62,914,560, for Gemma-3-12B.
func (o *options) media(in estimate.Input, plan parallel.RankPlan) account.Figure {
	p := provenance(mediaFormula, o.link("vllm/v1/worker/gpu_model_runner.py"), account.Requested)
	if !seesImages(in.Model) {
		return account.Zero("the model takes text alone", p)
	}
	if o.MediaItems != nil && *o.MediaItems == 0 {
		return account.Zero("no images are admitted", p)
	}
	if !plan.First {
		return account.Zero("towers run on the first stage", p)
	}
	embedded := o.BatchedTokens * int64(width(in.Model)) * o.width
	pixels := o.BatchedTokens * pixelsPerToken * 3 * o.width
	return account.Between(embedded/4, embedded+pixels, p)
}

// pixelsPerToken is the most pixels that one position of an image stands for:
// 896 × 896 for 256 (Gemma 3).
const pixelsPerToken = 896 * 896 / 256
