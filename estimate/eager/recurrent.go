package eager

import (
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/model"
)

const (
	// scanChunk is the positions that Mamba-2 works on together: 256 in its class
	// and 128 in most of those that follow it.
	scanChunk = 256
	// deltaChunk is the same of the gated delta rule.
	deltaChunk = 64
	// leastChunk is the fewest positions for which kernels keep a state.
	leastChunk = 64
	float      = 4 // bytes
)

// recurrent adds what a recurrent mixer makes of one position, and of one
// sequence whatever its length. Kernels make what has a name between the
// projections; the reference code also makes the products inside the recurrence
// in 32 bits.
func (w *work) recurrent(m model.Mixer, how manner, held stage, r int64) {
	switch a := m.(type) {
	case model.Mamba:
		held = append(slices.Clone(held), held...) // residuals may be kept in 32 bits (residual_in_fp32)
		if a.Version == 1 {
			w.scan(a, how, held, r)
			return
		}
		w.chunkedScan(a, how, held, r)
	case model.GatedDelta:
		w.deltaRule(a, how, held, r)
	default:
		w.unknown = "what a layer of linear attention computes with depends on kernels that are not modelled"
	}
}

// scan is Mamba-1: the projection of twice the inner width, its masked copies,
// the convolved stream, the time step, the scan and its gated form
// (cuda_kernels_forward and slow_forward of
// https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/models/mamba/modeling_mamba.py). The reference holds the
// discretised A, B and their product with the stream, each of inner × state
// elements a position, and one more while the first is made.
func (w *work) scan(a model.Mamba, how manner, held stage, r int64) {
	inner, cells := int64(a.Inner), product(int64(a.Inner), int64(a.State))
	narrow := product(inner, w.width)
	live := append(stage{r, 2 * narrow, narrow, narrow, narrow, narrow, narrow, narrow, product(int64(a.DTRank)+2*int64(a.State), w.width)}, held...)
	if how.reference {
		live = append(live, product(3, cells, float), product(2, inner, float))
	}
	w.stages = append(w.stages, live)
	w.sequence = max(w.sequence, product(4, cells, float))
}

// chunkedScan is Mamba-2: the projection, the convolved stream in two layouts, the
// scan, and a gated norm in 32 bits; kernels hold time steps, one state a chunk in
// 32 bits and one in the model's format, and the products of C and B of a chunk
// (_mamba_chunk_scan_combined_fwd of
// https://github.com/state-spaces/mamba/blob/v2.2.4/mamba_ssm/ops/triton/ssd_combined.py). The reference (torch_forward of
// https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/models/mamba2/modeling_mamba2.py) keeps the product of C and B for each pair of positions of a
// chunk, each head and each entry of the state, and products of stream and state.
func (w *work) chunkedScan(a model.Mamba, how manner, held stage, r int64) {
	inner, heads, state := int64(a.Inner), int64(a.Heads), int64(a.State)
	mixed := sumOf(inner, product(2, int64(a.Groups), state))
	narrow := product(mixed, w.width)
	live := append(stage{r, product(sumOf(inner, mixed, heads), w.width), narrow, narrow, narrow,
		product(inner, w.width), product(inner, w.width), product(3, inner, float)}, held...)
	kernels := append(stage{product(2, heads, float), product(int64(a.Groups), scanChunk, float), product(inner, bytesize.CeilDiv(state, leastChunk), float+w.width)}, live...)
	w.stages = append(w.stages, kernels)
	if how.reference {
		w.stages = append(w.stages, append(stage{
			product(scanChunk, heads, sumOf(state, 6), float), // C·B, its sum, the decay, M and its terms
			product(scanChunk, inner, float),                  // M × stream before its sum
			product(2, inner, state, float),                   // states of a position, C × states
			product(8, inner, float), product(6, heads, state, float),
		}, live...))
	}
	w.sequence = max(w.sequence, product(6, inner, state, float))
}

// deltaRule is the gated delta rule: projections, the mixed stream in two layouts,
// queries and keys repeated for each value head, and a gated norm; kernels hold
// products of a chunk and one state a chunk; the reference (torch_chunk_gated_delta_rule of
// https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/models/qwen3_next/modeling_qwen3_next.py) holds queries, keys and values in 32 bits with what it makes of
// them, and six squares of a chunk.
func (w *work) deltaRule(a model.GatedDelta, how manner, held stage, r int64) {
	heads := int64(a.ValueHeads)
	keys, values := product(int64(a.KeyHeads), int64(a.KeyDim)), product(heads, int64(a.ValueDim))
	each := product(heads, int64(a.KeyDim)) // a key for each value head
	mixed := product(sumOf(product(2, keys), values), w.width)
	live := append(stage{r, product(sumOf(product(2, keys), product(2, values)), w.width), mixed, mixed, mixed,
		product(2, each, w.width), product(values, w.width), product(values, w.width), product(3, values, float), product(4, heads, float)}, held...)
	w.stages = append(w.stages, append(stage{
		product(3, each, w.width), product(3, values, w.width), product(2, heads, deltaChunk, float),
		product(heads, int64(a.KeyDim), bytesize.CeilDiv(int64(a.ValueDim), leastChunk), float),
	}, live...))
	if how.reference {
		w.stages = append(w.stages, append(stage{
			product(5, each, float), product(4, values, float), product(6, heads, deltaChunk, float), product(2, each, w.width),
		}, live...))
	}
	w.sequence = max(w.sequence, product(4, values, int64(a.KeyDim), float))
}

// sumOf adds sizes; −1 when they do not fit in 63 bits.
func sumOf(sizes ...int64) int64 { return stage(sizes).sum() }

// states is what the recurrence makes for each sequence beside its positions: the
// state as it was, as it becomes, and their products.
func (w *work) states(p account.Provenance) account.Figure {
	return between(p, 0, w.d.sequences, w.sequence)
}
