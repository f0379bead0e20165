package vllm

import (
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/model"
	"floodmark/parallel"
)

// weights is what a rank holds once the model is loaded.
type weights struct {
	stored   account.Figure // tensors of the files, padded and divided
	metadata account.Figure // scales and their like
	buffers  account.Figure // sines and cosines
	relaid   account.Figure // what kernels' own layouts take more
	rounding account.Figure // of the blocks that they lie in
	adapters account.Figure // slots for adapters
	loading  account.Figure // beside them while files are read
	all      account.Figure // all but loading
}

// weightsOf counts what a rank of a plan holds.
func (o *options) weightsOf(in estimate.Input, plan parallel.RankPlan) weights {
	p := provenance(weightsFormula, o.link("vllm/model_executor/layers/vocab_parallel_embedding.py"), account.Requested)
	w := weights{stored: account.Exact(0, p), metadata: account.Exact(0, p)}
	most := int64(0)
	for _, l := range plan.Tensors {
		t := in.Model.Tensors[l.Tensor]
		f := l.Bytes(t)
		if t.Role.Category() == account.CategoryQuantisationMetadata {
			w.metadata = account.Sum(p, w.metadata, f)
			continue
		}
		if t.Role == model.RoleBuffer {
			continue // the class makes its own
		}
		w.stored = account.Sum(p, w.stored, f)
		if high, known := f.High(); known {
			most = max(most, high)
		}
	}
	if len(in.Model.Unknown) > 0 && !in.Model.Listed {
		u := in.Model.Unknown[0]
		w.stored = account.AtLeast(w.stored.Low(), "the model's configuration is not understood: "+u.Field+": "+u.Why, p)
	}
	if scales := packedScales(in, plan); scales > 0 {
		w.metadata = account.Exact(scales, p)
	}
	w.buffers = o.rotary(in, plan)
	w.relaid = account.Sum(p, o.relaid(in, plan), o.absorbed(in, plan))
	w.rounding = rounding(in, plan)
	w.adapters = o.slots(in, plan)
	w.all = account.Sum(p, w.stored, w.metadata, w.buffers, w.relaid, w.adapters, w.rounding)
	most += o.wider(in, plan)
	w.loading = account.Between(0, most, provenance(loadFormula, o.link("vllm/model_executor/model_loader/base_loader.py"), account.Requested))
	return w
}

// wider is what weights that are brought to 8 bits while they are loaded take more
// before that: older versions bring all of them once every file was read, newer
// ones layer by layer, so that it is up to this
// (https://github.com/vllm-project/vllm/issues/7200,
// https://github.com/vllm-project/vllm/pull/29196). Ways of 4 bits pack each
// tensor as it comes. Worked number: 6,979,321,856 elements of the matrices of
// Llama-3.1-8B take as many bytes more, 6.5 GiB.
func (o *options) wider(in estimate.Input, plan parallel.RankPlan) int64 {
	if !strings.Contains(o.Quantise, "fp8") || in.Model.Quantised != nil {
		return 0
	}
	var more int64
	for _, l := range plan.Tensors {
		t := in.Model.Tensors[l.Tensor]
		if t.Stored.Bits() != 8 || t.Role.Category() != account.CategoryParameter {
			continue
		}
		if high, known := l.Bytes(t).High(); known {
			more += high * (o.width - 1)
		}
	}
	return more
}

// rotary is the sines and cosines of every position that the model declares, in
// the format of the computation, once for each way in which layers turn
// (vllm/model_executor/layers/rotary_embedding/base.py). Layers of a window turn
// in their own way, which is not stretched. Worked number: 131,072 × 128 × 2 bytes
// are 32 MiB.
func (o *options) rotary(in estimate.Input, plan parallel.RankPlan) account.Figure {
	p := provenance(rotaryFormula, o.link("vllm/model_executor/layers/rotary_embedding/base.py"), account.Requested)
	type way struct {
		turned   int
		windowed bool
	}
	seen := map[way]bool{}
	var least, most int64
	for _, ref := range plan.Layers {
		if in.Model.Stacks[ref.Stack].Kind != model.Decoder {
			continue
		}
		for _, m := range in.Model.Stacks[ref.Stack].Layers[ref.Layer].Mixers {
			var w way
			switch a := m.(type) {
			case model.Attention:
				w = way{a.RotaryDim, a.Window > 0}
			case model.LatentAttention:
				w = way{turned: a.RopeDim}
			}
			if w.turned == 0 || seen[w] {
				continue
			}
			seen[w] = true
			positions := int64(in.Model.MaxPosition)
			if !w.windowed && in.Model.RotaryPositions > 0 {
				positions = in.Model.RotaryPositions
			}
			bytes, fits := bytesize.Mul(positions, int64(w.turned), o.width)
			if !fits {
				return account.Unknown(bytesize.ErrOverflow.Error(), p)
			}
			if same := (way{w.turned, !w.windowed}); !seen[same] || in.Model.RotaryPositions > 0 {
				least += bytes // a second way that is not stretched may be the first
			}
			most += bytes
		}
	}
	return account.Between(least, most, p)
}

// absorbed is the up-projection of latent attention once more, as the two
// matrices that are multiplied into query and output
// (process_weights_after_loading of vllm/model_executor/layers/attention/mla_attention.py).
// Worked number: 27 layers × 16 heads × (128 + 128) × 512 × 2 bytes are 108 MiB for
// DeepSeek-V2-Lite.
func (o *options) absorbed(in estimate.Input, plan parallel.RankPlan) account.Figure {
	p := provenance(relaidFormula, o.link("vllm/model_executor/layers/attention/mla_attention.py"), account.Requested)
	var bytes int64
	for _, ref := range plan.Layers {
		for _, m := range plan.Layer(in.Model, ref).Mixers {
			if a, is := m.(model.LatentAttention); is {
				bytes += int64(a.QueryHeads) * int64(a.NopeDim+a.ValueDim) * int64(a.KVRank) * o.width
			}
		}
	}
	if bytes == 0 {
		return account.Zero("no layer has latent attention", p)
	}
	return account.Exact(bytes, p)
}

// rounding is what the allocator's blocks hold beyond the tensors in them: one of
// 10 MiB and more takes a segment of whole steps of 2 MiB, of which 1 MiB or less
// is not split off; smaller ones share segments of 20 MiB. Matrices that are
// loaded as one (query, key and value; gate and up; all experts) are one tensor.
// Worked number: gate and up of Qwen2.5-7B are 259 MiB and take 260.
func rounding(in estimate.Input, plan parallel.RankPlan) account.Figure {
	p := provenance(roundingFormula, allocatorSource, account.Requested)
	type place struct {
		stack, layer int32
		fused        int
	}
	sizes := map[place]int64{}
	var order []place
	for i, l := range plan.Tensors {
		t := in.Model.Tensors[l.Tensor]
		at := place{t.Stack, t.Layer, fused(t.Role)}
		if at.fused == 0 {
			at.fused = -1 - i
		}
		if _, seen := sizes[at]; !seen {
			order = append(order, at)
		}
		bytes, _ := l.Bytes(t).High()
		sizes[at] += bytes
	}
	var least, small int64
	for _, at := range order {
		n := sizes[at]
		if n < 10*mib {
			small += n
			continue
		}
		if rest := bytesize.CeilDiv(n, 2*mib)*2*mib - n; rest <= mib {
			least += rest
		}
	}
	return account.Between(least, least+bytesize.CeilDiv(small, 20*mib)*mib/4, p)
}

// fused numbers the roles that are loaded into one tensor of a layer; 0 for those
// that have their own.
func fused(r model.Role) int {
	switch r {
	case model.RoleQuery, model.RoleKey, model.RoleValue, model.RoleQKV:
		return 1
	case model.RoleGate, model.RoleUp, model.RoleGateUp:
		return 2
	case model.RoleExpertGate, model.RoleExpertUp, model.RoleExpertGateUp:
		return 3
	case model.RoleExpertDown:
		return 4
	case model.RoleSharedExpertGate, model.RoleSharedExpertUp:
		return 5
	}
	return 0
}

// relaid is what Triton's layout of MXFP4 experts takes beside what the file
// stores on Hopper: packed inner sizes are padded to 64 bytes, the share of a
// rank to 64 elements, biases go to 32 bits, and the scales of the file stay
// beside the copies that the kernel reads
// (vllm/model_executor/layers/quantization/utils/mxfp4_utils.py and
// vllm/third_party/triton_kernels/tensor_details/layout_details/hopper_value.py).
// Other kernels and cards have other layouts: up to a tenth.
func (o *options) relaid(in estimate.Input, plan parallel.RankPlan) account.Figure {
	p := provenance(relaidFormula, o.link("vllm/model_executor/layers/quantization/utils/mxfp4_utils.py"), account.Requested)
	none := account.Zero("no experts are packed in MXFP4", p)
	if !packedExperts(in) {
		return none
	}
	var packed, add, file int64
	for _, ref := range plan.Layers {
		width := int64(in.Model.Stacks[ref.Stack].Width)
		e, is := plan.Layer(in.Model, ref).FeedForward.(model.Experts)
		if !is {
			continue
		}
		inner := bytesize.CeilDiv(int64(e.Width), 64) * 64
		values := int64(e.Count) * (2*inner*pad64(width/2) + width*pad64(inner/2))
		scales := int64(e.Count) * (2*inner*bytesize.CeilDiv(width, 32) + width*bytesize.CeilDiv(inner, 32))
		biases := int64(e.Count) * (2*inner + width) * 2
		stored := int64(e.Count) * 3 * int64(e.Width) * width
		packed += stored / 2
		file += stored/2 + stored/32
		add += values + 2*scales + biases - stored/2 - stored/32
	}
	if file == 0 {
		return none
	}
	if in.Memory.Arch == "Hopper" || in.Memory.Arch == "" {
		return account.Between(add, add+packed/100, p)
	}
	return account.Between(0, file/10, p)
}

// packedScales is the scales of a rank's MXFP4 experts, one byte for 32 elements.
func packedScales(in estimate.Input, plan parallel.RankPlan) int64 {
	if !packedExperts(in) {
		return 0
	}
	var scales int64
	for _, ref := range plan.Layers {
		if e, is := plan.Layer(in.Model, ref).FeedForward.(model.Experts); is {
			scales += int64(e.Count) * 3 * int64(e.Width) * int64(in.Model.Stacks[ref.Stack].Width) / 32
		}
	}
	return scales
}

func pad64(n int64) int64 { return bytesize.CeilDiv(n, 64) * 64 }

// slots is the memory of adapters, which the engine takes for as many as may be
// on the card at once, each of the highest rank, whether any is loaded
// (vllm/lora/layers): for every linear layer of the text rank × (in + out), the
// parts that tensor parallelism does not divide in whole.
func (o *options) slots(in estimate.Input, plan parallel.RankPlan) account.Figure {
	p := provenance(slotsFormula, o.link("vllm/lora/layers/base_linear.py"), account.Requested)
	if o.AdapterSlots == 0 {
		return account.Zero("no slot for an adapter is declared", p)
	}
	var whole, local int64
	for _, l := range plan.Tensors {
		t := in.Model.Tensors[l.Tensor]
		if len(t.Shape) != 2 || !adapted(t.Role) {
			continue
		}
		whole += t.Shape[0] + t.Shape[1]
		if len(l.Shape) == 2 {
			local += l.Shape[0] + l.Shape[1]
		}
	}
	low, a := bytesize.Mul(o.AdapterSlots, o.AdapterRank, local, 2)
	high, b := bytesize.Mul(o.AdapterSlots, o.AdapterRank, whole, o.width)
	if !a || !b {
		return account.Unknown(bytesize.ErrOverflow.Error(), p)
	}
	return account.Between(low, high, p)
}

// adapted reports the linear layers that get slots.
func adapted(r model.Role) bool {
	switch r {
	case model.RoleQuery, model.RoleKey, model.RoleValue, model.RoleQKV, model.RoleAttentionOutput,
		model.RoleGate, model.RoleUp, model.RoleGateUp, model.RoleDown:
		return true
	}
	return false
}

// linear is the format of most of the weights, for what a kernel copies of its
// input.
func eightBits(m *model.Model) bool {
	for f := range m.Formats() {
		if f == dtype.I8 || f == dtype.F8E4M3 {
			return true
		}
	}
	return false
}
