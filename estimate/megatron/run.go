package megatron

import (
	"floodmark/account"
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/timeline"
)

// run is the program of one rank.
type run struct {
	te     *te
	states *states
	arch   string
	hidden int64
	stage  int

	captured int // the phase in which graphs are captured; 0 for none
	chunks   []*chunk
	held     []torch.Tensor // by chunk: what the model was given last

	batches []torch.Tensor // of the step, where they stay

	embedding, position, head torch.Tensor
	final                     weight
	tl                        *timeline.Timeline
	pieces                    [][]*parameter // by chunk
	programmed                bool           // every layer has a program
	latentNorms               bool           // compressed queries, keys and values are normed
	projectionBias            bool           // latent attention's last product has a bias
	quantised                 bool           // products of the layer that is being built are in 8 bits
}

// chunk is a piece of the model that a stage runs at once.
type chunk struct {
	layers      []*layer
	first, last bool // it embeds the tokens; it makes the logits
	tabulated   bool // the angles of its positions are there
}

// column and row are the two ways in which a matrix is divided: by what it makes,
// and by what it reads.
func (r *run) column(in, out int64, bias bool, n model.Norm) weight {
	w := weight{in: in, out: out, column: true, parallel: r.te.s.tensor > 1}
	w.normW = r.states.add(false, in)
	if n.Kind == model.LayerNorm {
		w.normB = r.states.add(false, in)
	}
	w.matrix, w.eight = r.matrix(false, out, in)
	if bias {
		w.bias = r.states.add(false, out)
	}
	return w
}

func (r *run) row(in, out int64, bias bool) weight {
	w := weight{in: in, out: out, parallel: r.te.s.tensor > 1}
	w.matrix, w.eight = r.matrix(false, out, in)
	if bias {
		w.bias = r.states.add(false, out)
	}
	return w
}

// plainColumn is a column-parallel matrix without a norm, whole one that every rank
// has all of.
func (r *run) plainColumn(in, out int64) weight {
	w := weight{in: in, out: out, column: true, parallel: r.te.s.tensor > 1}
	w.matrix, w.eight = r.matrix(false, out, in)
	return w
}

func (r *run) whole(in, out int64) weight {
	w := weight{in: in, out: out}
	w.matrix, w.eight = r.matrix(false, out, in)
	return w
}

// normOf is a norm that is a module of its own.
func (r *run) normOf(n model.Norm, width int64) weight {
	w := weight{normW: r.states.add(false, width)}
	if n.Kind == model.LayerNorm {
		w.normB = r.states.add(false, width)
	}
	return w
}

// phase begins a phase behind the last event.
func (r *run) phase(name string, step int) {
	id := map[string]account.PhaseID{
		"load": account.PhaseModelLoad, "forward": account.PhaseForward, "backward": account.PhaseBackward, "optimizer": account.PhaseOptimizerStep, "graphs": account.PhaseGraphCapture,
	}[name]
	r.te.m.Phase(id, step)
	r.tl.Events = append(r.tl.Events, timeline.Event{Kind: timeline.Mark, Alloc: uint32(len(r.tl.Phases) - 1)})
}
