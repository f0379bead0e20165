package megatron

import (
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/workload"
)

// quantiser is how TransformerEngine lays tensors out in 8 bits for products
// (create_tensor of each quantiser in transformer_engine/pytorch/csrc/quantizer.cpp).
type quantiser struct {
	recipe workload.MegatronQuantisation
	// either says that products read a tensor of one scale along both its sides: on
	// Blackwell. On Hopper and Ada they take it transposed, which is a second tensor
	// (update_usage of
	// transformer_engine/pytorch/tensor/storage/float8_tensor_storage.py).
	either bool
}

// cannotQuantise says what a card or the other settings lack for products in 8 bits;
// empty where nothing is known to (check_fp8_support and check_mxfp8_support of
// transformer_engine/pytorch/quantization.py, validate_args of
// megatron/training/arguments.py).
func (s *settings) cannotQuantise(arch string) string {
	switch recipe := s.Quantisation; {
	case recipe == "":
		return ""
	case arch == "Ampere" || arch == "Turing" || arch == "Volta" || arch == "Pascal":
		return "products in 8 bits need compute capability 8.9"
	case recipe == workload.BlockScaling && arch == "Ada":
		return "products in 8 bits of blocks of 128 need compute capability 9.0"
	case recipe == workload.MXScaling && (arch == "Ada" || arch == "Hopper"):
		return "products in 8 bits of blocks of 32 need compute capability 10.0"
	case s.QuantisedParameters && !s.distributed && !s.divided:
		return "parameters in 8 bits need the distributed optimizer (sharding: {kind: distributed})"
	}
	return ""
}

// maker is one run of a function, which holds what it makes until it ends.
type maker interface {
	Empty(f dtype.Format, shape ...int64) torch.Tensor
}

// cast is a tensor in 8 bits, for products that read it along its rows and for those
// that read it along its columns, with the scales of each.
type cast struct{ rows, columns []torch.Tensor }

// whole reports that a tensor has one scale.
func (q quantiser) whole() bool {
	return q.recipe == workload.DelayedScaling || q.recipe == workload.CurrentScaling
}

// ofWeights and ofRows are the sides along which neighbours share a scale, where
// recipe is blockwise: squares of weights, stretches of one row of all others.
const (
	ofWeights = 128
	ofRows    = 1
)

// cast makes [rows, width] in 8 bits for the products that are asked for.
func (q quantiser) cast(to maker, side, rows, width int64, byRow, byColumn bool) (t cast) {
	if q.whole() {
		scale := to.Empty(dtype.F32, 1)
		if byRow || q.either {
			t.rows = []torch.Tensor{scale, to.Empty(dtype.U8, rows, width)}
		}
		if byColumn && !q.either {
			t.columns = []torch.Tensor{scale, to.Empty(dtype.U8, width, rows)}
		}
		return t
	}
	if byRow {
		t.rows = []torch.Tensor{to.Empty(dtype.U8, rows, width), q.scales(to, side, rows, width)}
	}
	if byColumn {
		t.columns = []torch.Tensor{to.Empty(dtype.U8, width, rows), q.scales(to, side, width, rows)}
	}
	return t
}

// scales are those of a product that sums over deep elements of each of so many
// lines: a byte for 32 of them, or 4 bytes for 128, padded as kernels read them
// (get_scale_shape of transformer_engine/pytorch/csrc/quantizer.cpp).
func (q quantiser) scales(to maker, side, lines, deep int64) torch.Tensor {
	if q.recipe == workload.MXScaling {
		return to.Empty(dtype.U8, roundUp(lines, 128), roundUp(ceil(deep, 32), 4))
	}
	return to.Empty(dtype.F32, ceil(deep, 128), roundUp(ceil(lines, side), 4))
}

func ceil(n, by int64) int64 { return (n + by - 1) / by }

// both is all there is of a tensor.
func (t cast) both() []torch.Tensor { return append(append([]torch.Tensor{}, t.rows...), t.columns...) }

// toAdd is what the product for the gradient of a weight reads.
func (t cast) toAdd() []torch.Tensor {
	if t.columns != nil {
		return t.columns
	}
	return t.rows
}

// eight is a weight whose products are in 8 bits.
type eight struct {
	quantiser
	kept     bool // it is a parameter in them; else there is a copy
	ran      bool // once, which makes the copy
	original bool // its input is kept as it comes, since others keep that too
}

// matrix makes a weight of the layer that is being built, and says how its products
// are computed; nil for those in 16 bits.
func (r *run) matrix(expert bool, out, in int64) (torch.Tensor, *eight) {
	if !r.quantised {
		return r.states.add(expert, out, in), nil
	}
	w := &eight{quantiser: r.te.quantiser(), kept: r.te.s.QuantisedParameters}
	if !w.kept {
		return r.states.add(expert, out, in), w
	}
	t := r.states.addIn(dtype.U8, expert, out, in)
	w.beside(staying{r.te.m}, out, in)
	return t, w
}

// beside is what a parameter in 8 bits has beside its bytes by rows: their scales, and
// what products along the other side read, which is made with it and after every
// gathering again (reset_parameters of transformer_engine/pytorch/module/base.py,
// post_all_gather_processing of transformer_engine/pytorch/tensor/utils.py).
func (w *eight) beside(to maker, out, in int64) {
	if w.whole() {
		to.Empty(dtype.F32, 1) // its scale
		if !w.either {
			to.Empty(dtype.U8, in, out)
		}
		return
	}
	w.scales(to, ofWeights, out, in)
	w.cast(to, ofWeights, out, in, false, true)
}

// quantiser is that of the settings.
func (e *te) quantiser() quantiser { return quantiser{recipe: e.s.Quantisation, either: e.either} }

// staying makes tensors of the model that stay.
type staying struct{ m *torch.Machine }

func (s staying) Empty(f dtype.Format, shape ...int64) torch.Tensor { return s.m.Buffer(f, shape...) }

// product is a weight in 8 bits for one run of its module: the parameter itself, or a
// copy that is made in the first run and filled again in the first micro-batch of each
// step, or, where copies are not cached, one of each run, which backward reads too
// (quantize_weight of transformer_engine/pytorch/module/base.py). It gives back what the
// run has to keep.
func (e *te) product(c *torch.Call, w *weight) []torch.Tensor {
	cached := !w.eight.kept && !e.s.UncachedWeights
	if !w.eight.ran {
		w.eight.ran = true
		e.history()
		if cached {
			w.eight.cast(staying{e.m}, ofWeights, w.out, w.in, true, true)
		}
	}
	if cached || w.eight.kept {
		return nil
	}
	return w.eight.cast(c, ofWeights, w.out, w.in, true, true).both()
}

// history makes the largest values of the last steps, of three tensors of a product in
// forward and of two in backward, and their scales, which delayed scaling keeps
// (DelayedScalingRecipeState of transformer_engine/pytorch/quantization.py).
func (e *te) history() {
	if e.s.Quantisation != workload.DelayedScaling {
		return
	}
	for _, tensors := range []int64{3, 2} {
		e.m.Buffer(dtype.F32, max(1, e.s.AmaxHistory), tensors)
		e.m.Buffer(dtype.F32, tensors)
	}
}
