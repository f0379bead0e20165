package state

import (
	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/model"
	"floodmark/parallel"
)

// keeper computes what layers keep under one set of options and lengths.
type keeper struct {
	o       Options
	at      Lengths
	context int64 // ranks that the positions are divided over
}

func newKeeper(o Options, at Lengths, context int) *keeper {
	if o.Keys == dtype.Unknown {
		o.Keys = o.Compute
	}
	if o.Values == dtype.Unknown {
		o.Values = o.Keys
	}
	if o.Conv == dtype.Unknown {
		o.Conv = o.Compute
	}
	return &keeper{o: o, at: at, context: int64(max(1, context))}
}

func provenance(formula string) account.Provenance {
	return account.Provenance{Origin: account.Calculated, Scope: account.Requested, Counter: formula, Source: sourceOf(formula)}
}

func none(formula string) account.Figure { return account.Exact(0, provenance(formula)) }

func unknown(formula, why string) account.Figure { return account.Unknown(why, provenance(formula)) }

// kept is payload and reservation of one mixer. Positions of a decoder are
// cached; elsewhere only those of causal attention are.
func (k *keeper) kept(m model.Mixer, stack model.StackKind) (payload, reserved account.Figure) {
	switch a := m.(type) {
	case model.Attention:
		a.Causal = a.Causal || stack == model.Decoder
		return k.attention(a)
	case model.LatentAttention:
		return k.latent(a)
	}
	return none(AttentionFormula), none(AttentionFormula)
}

func (k *keeper) attention(a model.Attention) (payload, reserved account.Figure) {
	if a.CacheOf >= 0 || !a.Causal && !a.Cross {
		return none(AttentionFormula), none(AttentionFormula)
	}
	row := k.pair(int64(a.KVHeads), int64(a.KeyDim), int64(a.ValueDim), AttentionFormula)
	if a.Cross {
		return k.cross(row)
	}
	window := int64(a.Window)
	if window == 0 {
		window = int64(a.Chunk)
	}
	formula := AttentionFormula
	if window > 0 {
		formula = WindowFormula
	}
	return times(row, k.retained(window)).As(provenance(formula)), times(row, k.reserved(window)).As(provenance(formula))
}

// cross is the keys and values of another stack's positions: once for each
// sequence, and as many from the first step to the last.
func (k *keeper) cross(row account.Figure) (payload, reserved account.Figure) {
	p := provenance(CrossFormula)
	if k.at.Encoder < 0 {
		f := account.Unknown("the workload does not say how many positions cross-attention reads (encoder_length of an input: of an image of Llama 3.2 up to 4 × 1,601)", p)
		return f, f
	}
	f := times(row, product(k.at.Encoder, k.at.Sequences)).As(p)
	return f, f
}

// pair is one position's keys and values. Rows of blocks run over all heads.
func (k *keeper) pair(heads, keyDim, valueDim int64, formula string) account.Figure {
	p := provenance(formula)
	if k.o.Keys == dtype.Unknown {
		return account.Unknown("neither the workload nor the model's configuration says in which format the cache is kept", p)
	}
	keys, a := k.o.Keys.Size([]int64{product(heads, keyDim)})
	values, b := k.o.Values.Size([]int64{product(heads, valueDim)})
	sum, c := bytesize.Add(keys, values)
	return account.Checked(sum, a && b && c, p)
}

func (k *keeper) latent(a model.LatentAttention) (payload, reserved account.Figure) {
	if a.CompressedEvery > 1 {
		f := unknown(LatentFormula, "a cache that keeps one entry for several positions is not modelled")
		return f, f
	}
	row := k.compressed(a)
	if k.o.PerHead {
		row = k.pair(int64(a.QueryHeads), int64(a.NopeDim)+int64(a.RopeDim), int64(a.ValueDim), PerHeadFormula)
	}
	if a.Indexer != nil {
		row = account.Sum(row.Provenance, row, indexer(a.Indexer))
	}
	return times(row, k.retained(0)), times(row, k.reserved(0))
}

// compressed is one position's compressed vector, which serves as key and as
// value.
func (k *keeper) compressed(a model.LatentAttention) account.Figure {
	p := provenance(LatentFormula)
	if k.o.Layout == FP8Latent {
		scales := 4 * bytesize.CeilDiv(int64(a.KVRank), 128)
		return account.Exact(int64(a.KVRank)+scales+2*int64(a.RopeDim), p)
	}
	if k.o.Keys == dtype.Unknown {
		return account.Unknown("neither the workload nor the model's configuration says in which format the cache is kept", p)
	}
	n, fits := k.o.Keys.Size([]int64{int64(a.KVRank) + int64(a.RopeDim)})
	return account.Checked(n, fits, p)
}

// indexer is one position's indexer key: FP8, and a 32-bit scale for each 128.
func indexer(x *model.Indexer) account.Figure {
	return account.Exact(int64(x.KeyDim)+4*bytesize.CeilDiv(int64(x.KeyDim), 128), provenance(IndexerFormula))
}

// times is a row for a number of positions; unknown when there are more than
// 63 bits count.
func times(row account.Figure, positions int64) account.Figure {
	if positions < 0 {
		return account.AtLeast(0, bytesize.ErrOverflow.Error(), row.Provenance)
	}
	return row.Times(positions)
}

// product multiplies counts; −1 for one that does not fit in 63 bits.
func product(factors ...int64) int64 {
	if n, fits := bytesize.Mul(factors...); fits {
		return n
	}
	return -1
}

// retained is how many positions all sequences keep: of a window only the
// newest, of a shared prefix one copy.
func (k *keeper) retained(window int64) int64 {
	kept := k.at.Positions
	if window > 0 {
		kept = min(kept, window)
	} else {
		kept = bytesize.CeilDiv(max(0, kept), k.context)
	}
	all := product(kept, k.at.Sequences)
	if window > 0 || all < 0 || k.at.Sequences < 1 {
		return all
	}
	shared := bytesize.CeilDiv(min(k.at.SharedPrefix, k.at.Positions), k.context)
	return all - shared*(k.at.Sequences-1)
}

// reserved is how many positions the engine allocates.
func (k *keeper) reserved(window int64) int64 {
	length := max(k.at.Positions, k.o.Static)
	if window > 0 && !k.o.WholeWindows {
		length = min(length, window+k.o.Ahead)
	} else {
		length = bytesize.CeilDiv(max(0, length), k.context)
	}
	block := max(1, k.o.Block)
	length = product(bytesize.CeilDiv(max(0, length), block), block)
	if length < 0 {
		return -1
	}
	all := product(length, k.at.Sequences)
	if window > 0 || all < 0 || k.at.Sequences < 1 || k.o.Static > 0 {
		return all
	}
	shared := bytesize.CeilDiv(min(k.at.SharedPrefix, k.at.Positions), k.context) / block * block
	return all - shared*(k.at.Sequences-1)
}

// widest is what the layer with the largest cache keeps.
func (k *keeper) widest(m *model.Model, plan parallel.RankPlan) account.Figure {
	list := []account.Figure{none(AttentionFormula)}
	for _, ref := range plan.Layers {
		var layer []account.Figure
		for _, mixer := range plan.Layer(m, ref).Mixers {
			_, reserved := k.kept(mixer, m.Stacks[ref.Stack].Kind)
			layer = append(layer, reserved)
		}
		list = append(list, account.Sum(provenance(AttentionFormula), layer...))
	}
	return account.Highest(provenance(AttentionFormula), list...)
}
