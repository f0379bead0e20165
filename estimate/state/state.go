package state

import (
	"fmt"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/model"
	"floodmark/parallel"
)

// Layout is how a latent cache stores one position.
type Layout string

// FP8Latent is the layout of vLLM's fp8_ds_mla: the compressed vector in FP8
// with a 32-bit scale for each 128 elements, and the rotary part in 16 bits.
// Worked number: 512 + 64 elements take 656 bytes.
const FP8Latent Layout = "fp8_ds_mla"

// Options are how an engine keeps the state of sequences.
type Options struct {
	Compute dtype.Format // of the model; what is not said below follows from it
	Keys    dtype.Format // of cached keys; Unknown for Compute
	Values  dtype.Format // of cached values; Unknown for that of keys
	Layout  Layout       // of latent attention
	// PerHead makes latent attention cache the keys and values of each head, as
	// software does that knows no compressed cache.
	PerHead bool
	// Recurrent is the format of Mamba's and linear attention's states. Unknown is
	// from Compute to 32 bits. The gated delta rule always keeps 32 bits.
	Recurrent dtype.Format
	Conv      dtype.Format // of convolution states; Unknown for Compute
	// ConvWhole keeps as many positions as a convolution is wide, not one less.
	ConvWhole bool

	WholeWindows bool  // reserve the whole length for windows and chunks too
	Ahead        int64 // positions that are reserved beyond a window or chunk
	Block        int64 // positions of which no part is reserved; 0 or 1 for none
	Static       int64 // positions that are reserved from the start; 0 for as many as there are
	Offloaded    bool  // all but the layers at work are in main memory
}

// Lengths are how much the sequences retain.
type Lengths struct {
	Sequences    int64
	Positions    int64 // of each
	SharedPrefix int64 // positions at the beginning that all have in common and keep once
	// Encoder is the positions that cross-attention reads of another stack;
	// negative when nobody said.
	Encoder int64
}

// State is what one rank keeps of all sequences.
type State struct {
	// Payload is the bytes that positions take which are retained; Reserved is
	// what the engine allocates for them. Both are of keys and values and what
	// stands in their place, on the device.
	Payload, Reserved account.Figure
	// Recurrent is the states of recurrent layers, which do not grow.
	Recurrent account.Figure
	// Host is what an offloaded cache has in main memory.
	Host account.Figure
}

// Of is the state that one rank keeps.
func Of(m *model.Model, plan parallel.RankPlan, o Options, at Lengths) State {
	k := newKeeper(o, at, plan.Mesh.ContextParallel)
	s := State{Payload: none(AttentionFormula), Reserved: none(AttentionFormula), Recurrent: none(RecurrentFormula), Host: none(AttentionFormula)}
	s.Host.Scope = account.Host
	for _, ref := range plan.Layers {
		stack := &m.Stacks[ref.Stack]
		for _, mixer := range plan.Layer(m, ref).Mixers {
			payload, reserved := k.kept(mixer, stack.Kind)
			s.Payload = account.Sum(s.Payload.Provenance, s.Payload, payload)
			s.Reserved = account.Sum(s.Reserved.Provenance, s.Reserved, reserved)
			s.Recurrent = account.Sum(s.Recurrent.Provenance, s.Recurrent, k.recurrent(mixer, int64(stack.Width)))
		}
	}
	if why := doubt(m, plan); why != "" {
		for _, f := range []*account.Figure{&s.Payload, &s.Reserved, &s.Recurrent} {
			*f = account.AtLeast(f.Low(), why, f.Provenance)
		}
	}
	if o.Offloaded {
		s.offload(k.widest(m, plan))
	}
	return s
}

// doubt says why the layers of a model may keep more than is counted: something
// about them was not understood, or none is known at all.
func doubt(m *model.Model, plan parallel.RankPlan) string {
	for _, u := range m.Unknown {
		if !u.FormatOnly {
			return "what the layers keep is not known, because the model is not understood: " + u.Field + ": " + u.Why
		}
	}
	if len(plan.Layers) == 0 && len(m.Tensors) > 0 {
		return "what the layers keep is not known, because the files do not say which layers the model has"
	}
	return ""
}

// PerPosition is what one more position of one sequence takes on a rank while
// it fits every window.
func PerPosition(m *model.Model, plan parallel.RankPlan, o Options) account.Figure {
	o.Block, o.Static, o.Offloaded = 0, 0, false
	return Of(m, plan, o, Lengths{Sequences: 1, Positions: 1}).Payload
}

// offload moves a cache to main memory: on the device are the layer at work and
// the next, which is fetched meanwhile (OffloadedCache of transformers).
func (s *State) offload(widest account.Figure) {
	p, host := s.Reserved.Provenance, s.Host.Provenance
	high, known := s.Reserved.High()
	most, bounded := widest.High()
	if !known || !bounded {
		s.Host = account.Unknown(s.Reserved.Reason(), host)
		s.Payload, s.Reserved = account.Unknown(s.Reserved.Reason(), p), account.Unknown(s.Reserved.Reason(), p)
		return
	}
	two := min(high, 2*most)
	s.Host = account.Between(max(0, s.Reserved.Low()-two), high, host)
	s.Payload = account.Between(min(widest.Low(), s.Payload.Low()), two, p)
	s.Reserved = account.Between(widest.Low(), two, p)
}

// Two says payload and reservation of a cache as the two numbers that they are.
func Two(payload, reserved account.Figure, sequences, positions int64) string {
	return fmt.Sprintf("the payload of %s × %s positions is %s, and the engine reserves %s for it",
		bytesize.Group(sequences), bytesize.Group(positions), payload.In(bytesize.GiB), reserved.In(bytesize.GiB))
}
