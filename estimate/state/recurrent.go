package state

import (
	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/model"
)

// recurrent is what one layer keeps of all sequences whatever their length:
// the state, and the positions that a convolution still needs. Width is that
// of the residual stream.
func (k *keeper) recurrent(m model.Mixer, width int64) account.Figure {
	switch a := m.(type) {
	case model.Mamba:
		inner, size := int64(a.Inner), int64(a.State)
		if a.Version == 1 {
			return k.states(k.free(), product(inner, size), product(k.conv(a.Conv), inner))
		}
		return k.states(k.free(), product(int64(a.Heads), int64(a.HeadDim), size),
			product(k.conv(a.Conv), sum(inner, product(2, int64(a.Groups), size))))
	case model.GatedDelta:
		keys, values := product(int64(a.KeyHeads), int64(a.KeyDim)), product(int64(a.ValueHeads), int64(a.ValueDim))
		return k.states([]dtype.Format{dtype.F32}, product(values, int64(a.KeyDim)),
			product(k.conv(a.Conv), sum(keys, keys, values)))
	case model.LinearAttention:
		return k.states(k.free(), product(int64(a.Heads), int64(a.KeyDim), int64(a.ValueDim)), product(int64(a.TokenShift), width))
	case model.ShortConv:
		return k.states(nil, 0, product(k.conv(a.Kernel), int64(a.Width)))
	case model.Attention, model.LatentAttention, nil:
		return none(RecurrentFormula)
	}
	return unknown(RecurrentFormula, "a layer of this kind is not known")
}

// sum adds counts; −1 when one of them, or the sum, does not fit in 63 bits.
func sum(counts ...int64) int64 {
	for _, n := range counts {
		if n < 0 {
			return -1
		}
	}
	if n, fits := bytesize.Add(counts...); fits {
		return n
	}
	return -1
}

// conv is how many positions a causal convolution keeps.
func (k *keeper) conv(kernel int) int64 {
	if k.o.ConvWhole {
		return int64(kernel)
	}
	return int64(max(0, kernel-1))
}

// free is the formats that a state can have whose format is the engine's
// choice.
func (k *keeper) free() []dtype.Format {
	if k.o.Recurrent != dtype.Unknown {
		return []dtype.Format{k.o.Recurrent}
	}
	return []dtype.Format{k.o.Compute, dtype.F32}
}

// states is the bytes of a state in each format that it can have, with what
// the convolution keeps, for all sequences.
func (k *keeper) states(formats []dtype.Format, state, conv int64) account.Figure {
	p := provenance(RecurrentFormula)
	kept, a := k.o.Conv.Size([]int64{conv})
	if conv == 0 {
		kept, a = 0, true
	}
	if !a {
		return account.Unknown("the model's configuration does not say in which format it computes", p)
	}
	total := account.Exact(kept, p)
	var ends []int64
	for _, f := range formats {
		n, fits := f.Size([]int64{state})
		if !fits {
			return account.Unknown("the model's configuration does not say in which format it computes", p)
		}
		ends = append(ends, n)
	}
	if len(ends) > 0 {
		total = account.Sum(p, total, account.Between(ends[0], ends[len(ends)-1], p))
	}
	if k.at.Sequences < 0 {
		return account.Unknown(bytesize.ErrOverflow.Error(), p)
	}
	return total.Times(k.at.Sequences)
}
