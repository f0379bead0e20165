package megatron

import (
	"slices"

	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/workload"
)

// settings is what the arguments say, with Megatron-LM's defaults in place of what
// they leave out.
type settings struct {
	workload.Megatron
	release                   release
	tensor, pipeline, context int64
	// data is the ranks that hold the same parameters of a layer and divide their
	// optimizer states, expertData those of the same experts: of one instance of the
	// optimizer (megatron/core/parallel_state.py, intra_partial_data_parallel_size).
	data, expertData int64
	uneven           bool // the instances do not divide them
	sequence         bool // sequence parallelism
	distributed      bool // the optimizer's states are divided
	divided          bool // parameters and gradients too, which has no program: what is least
	overlap          bool // buckets are reduced while backward runs
	schedule         workload.Schedule
	recompute        workload.Recompute
	granularity      workload.CheckpointingKind

	positions, batch int64 // of one micro-batch, and of its whole sequences
	micro            int64 // micro-batches of one step

	compute                             dtype.Format
	gradients, master, moment1, moment2 dtype.Format

	graphsAttention, graphsNetwork bool // parts of layers that CUDA graphs run

	hiddenDropout, attentionDropout, fusion, loaderMask bool

	lora *workload.Tuning // what is trained beside a frozen model; nil where the model is
}

// local reports that the layers are mcore's own.
func (s *settings) local() bool { return s.Implementation == workload.LocalLayers }

// unfused reports a fusion that was switched off.
func (s *settings) unfused(f workload.MegatronFusion) bool { return slices.Contains(s.Unfused, f) }

// frozen reports that the model's own parameters are not trained.
func (s *settings) frozen() bool { return s.lora != nil }

// yes is a switch that is on where nobody said otherwise.
func yes(b *bool) bool { return b == nil || *b }

// settingsOf reads a workload.
func settingsOf(in estimate.Input) settings {
	w, train := in.Workload, in.Workload.Training
	s := settings{schedule: train.Schedule, granularity: train.Checkpointing.Kind, compute: dtype.BF16, gradients: dtype.F32, master: dtype.F32, moment1: dtype.F32, moment2: dtype.F32}
	if train.Megatron != nil {
		s.Megatron = *train.Megatron
	}
	if train.Recompute != nil {
		s.recompute = *train.Recompute
	}
	if s.granularity == workload.SelectiveCheckpointing && len(s.recompute.Modules) == 0 {
		s.recompute.Modules = []string{"core_attn"}
	}
	mesh := in.Plan.Mesh
	s.tensor, s.pipeline, s.context = int64(mesh.TensorParallel), int64(mesh.PipelineParallel), int64(mesh.ContextParallel)
	if s.ExpertTensor == 0 {
		s.ExpertTensor = mesh.TensorParallel
	}
	s.data = int64(mesh.DataParallel) * s.context
	s.expertData = max(1, s.data*s.tensor/int64(mesh.ExpertParallel*s.ExpertTensor))
	instances := max(1, s.OptimizerInstances)
	s.uneven = s.data%instances != 0 || s.expertData%instances != 0
	s.data, s.expertData = max(1, s.data/instances), max(1, s.expertData/instances)
	s.sequence = train.SequenceParallel && s.tensor > 1
	if train.Sharding != nil {
		s.distributed = train.Sharding.Kind == workload.Distributed
		s.divided = !s.distributed && train.Sharding.Kind != workload.DDP
		s.overlap = train.Sharding.Overlap != nil && *train.Sharding.Overlap
	}
	s.Userbuffers = s.Userbuffers && s.sequence
	s.batch, _ = w.Dimension(workload.MicroBatch)
	s.positions, _ = w.Dimension(workload.Context)
	s.micro = max(1, train.Accumulation)
	for _, f := range []struct {
		declared workload.StateFormat
		into     *dtype.Format
	}{{w.Precision.Gradients, &s.gradients}, {w.Precision.MasterCopy, &s.master}, {w.Precision.FirstMoment, &s.moment1}, {w.Precision.SecondMoment, &s.moment2}} {
		if f.declared.Declared {
			*f.into = f.declared.Format
		}
	}
	if p := w.Precision.Parameters; p != dtype.Unknown {
		s.compute = p
	}
	s.hiddenDropout, s.attentionDropout = yes(s.HiddenDropout), yes(s.AttentionDropout)
	s.release = releaseOf(w.Engine.Version)
	s.fusion, s.loaderMask = yes(s.AccumulationFusion), yes(s.LoaderMask)
	s.graphsAttention, s.graphsNetwork = slices.Contains(s.Graphs, "attn"), slices.Contains(s.Graphs, "mlp")
	s.lora = train.Tuning
	return s
}

// tokens is the positions of a micro-batch that one rank works on within a layer's
// products; resident those of the stream between layers, which sequence
// parallelism divides too.
func (s *settings) tokens() int64 { return s.positions / s.context * s.batch }

func (s *settings) resident() int64 {
	if s.sequence {
		return s.tokens() / s.tensor
	}
	return s.tokens()
}

// kernels is whose kernels attention runs in; false where none do. Where nobody said,
// TransformerEngine prefers cuDNN on Hopper and Blackwell, and flash-attn before them;
// cuDNN's backward with dropout is not deterministic on Blackwell, so that flash-attn has
// its place where the same result is asked for each time. Sinks are cuDNN's alone, which
// does not repeat their gradients, or else products'; windows beside dropout
// flash-attn's; and over context parallelism there are no products
// (get_attention_backend of transformer_engine/pytorch/attention/dot_product_attention/utils.py,
// nvte_get_fused_attn_backend of transformer_engine/common/fused_attn/fused_attn.cpp).
func (s *settings) kernels(arch string, window, sinks bool) (workload.MegatronAttention, bool) {
	fused := !(window && s.attentionDropout) && !(sinks && (s.Deterministic || s.context > 1 && s.ContextExchange != "a2a"))
	list := []workload.MegatronAttention{workload.FusedKernels, workload.FlashKernels, workload.UnfusedAttention}
	if arch == "Ampere" || arch == "Ada" || arch == "Blackwell" && s.Deterministic && s.attentionDropout {
		list[0], list[1] = list[1], list[0]
	}
	for _, k := range list {
		switch {
		case s.Attention != "" && s.Attention != workload.AutoAttention && k != s.Attention:
		case k == workload.FusedKernels && !fused, k == workload.FlashKernels && sinks, k == workload.UnfusedAttention && sinks && s.context > 1:
		default:
			return k, true
		}
	}
	return workload.UnfusedAttention, false
}

// quantises reports that the products of a layer of so many are in 8 bits, which some
// at the ends can be left out of (is_first_last_bf16_layer of
// megatron/core/fp8_utils.py).
func (s *settings) quantises(layer, layers int) bool {
	return s.Quantisation != "" && int64(layer) >= s.WideAtStart && int64(layer) < int64(layers)-s.WideAtEnd
}

// offloads reports a module whose saved tensors move to main memory.
func (s *settings) offloads(module string) bool { return slices.Contains(s.OffloadModules, module) }

// recomputes reports a module that selective recomputation runs again.
func (s *settings) recomputes(module string) bool {
	return s.granularity == workload.SelectiveCheckpointing && slices.Contains(s.recompute.Modules, module)
}
