package megatron

import (
	"fmt"
	"slices"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/estimate/outside"
	"floodmark/timeline"
	"floodmark/workload"
)

// surroundings is what a process holds outside the allocator.
func (r *run) surroundings(in estimate.Input) {
	arch, mesh := in.Memory.Arch, in.Plan.Mesh
	hold := func(id account.TermID, c account.Category, f account.Figure) { r.tl.Hold(id, c, 0, timeline.ToEnd, f) }
	hold(account.TermContext, account.CategoryContext, outside.Context(arch))
	exchange := communicators(in.Memory, mesh)
	if r.te.s.Userbuffers {
		exchange = account.Sum(exchange.Provenance, exchange, r.userbuffers())
	}
	hold(account.TermCommunication, account.CategoryCommunication, exchange)
	for _, other := range in.Workload.Resident {
		hold(estimate.Resident(other))
	}
}

// communicators is what NCCL holds for the groups of Megatron-LM that talk: one of
// each kind of parallelism, those of data and context for gradients and parameters
// too (megatron/core/parallel_state.py).
func communicators(memory estimate.Memory, mesh workload.Mesh) account.Figure {
	link := outside.LinkOf(memory.Arch, memory.Name)
	over := func(m workload.Mesh) account.Figure {
		return outside.CommunicatorsOver(memory.Arch, link, m, m.ExpertParallel > 1)
	}
	parts := []account.Figure{over(workload.Mesh{TensorParallel: mesh.TensorParallel, PipelineParallel: mesh.PipelineParallel, ExpertParallel: mesh.ExpertParallel})}
	if mesh.ContextParallel > 1 {
		parts = append(parts, over(workload.Mesh{ContextParallel: mesh.ContextParallel}))
	}
	if mesh.DataParallel*mesh.ContextParallel > 1 {
		parts = append(parts, outside.Replicas(memory.Arch, link))
	}
	return account.Sum(parts[0].Provenance, parts...)
}

// beside is what a workload declares beside the steps of training; empty where
// nothing.
func beside(train *workload.Train, phases []account.PhaseID) string {
	for _, p := range phases {
		switch p {
		case account.PhaseModelLoad, account.PhaseForward, account.PhaseLoss, account.PhaseBackward, account.PhaseOptimizerStep:
		default:
			return string(p)
		}
	}
	switch {
	case train.Evaluation != nil:
		return "evaluation"
	case train.Save != nil:
		return "a copy that is gathered to be saved"
	case train.Export != nil:
		return "export"
	case train.Resume != "":
		return "resumption"
	case train.InBackward:
		return "an optimizer in backward"
	case train.Autocast != dtype.Unknown:
		return "autocast"
	}
	return ""
}

// unmodelled is why activations have no high: something that the workload says and
// that has no program here.
func unmodelled(in estimate.Input, s settings) string {
	train := in.Workload.Training
	for _, f := range in.Workload.Features {
		switch f {
		case workload.FlashAttention, workload.RecurrentKernels, workload.ExpandableSegments:
		case workload.CUDAGraphs:
			if len(s.Graphs) == 0 {
				return "what graphs capture is not said (training.megatron.cuda_graphs)"
			}
		case workload.FP8Compute:
			if s.Quantisation == "" {
				return "the recipe of its products in 8 bits is not said (training.megatron.quantisation)"
			}
		default:
			return fmt.Sprintf("%s is not modelled for Megatron-LM", f)
		}
	}
	if what := beside(train, in.Workload.Phases); what != "" {
		return what + " is not modelled for Megatron-LM"
	}
	switch {
	case len(in.Workload.Open) > 0:
		return in.Workload.Open[0]
	case len(in.Workload.Adapters) > 0 || train.Tuning != nil && !plainLoRA(*train.Tuning, s.compute):
		return "adapters other than LoRA on frozen weights of the computation's format are not modelled for Megatron-LM"
	case train.Tuning != nil && (s.local() || s.Quantisation != ""):
		return "adapters beside products in 8 bits or mcore's own layers are not modelled for Megatron-LM"
	case s.local() && s.unfused(workload.RopeFusion):
		return "positions that are given in operators of their own are not modelled for mcore's own layers (--no-rope-fusion)"
	case s.local() && s.Quantisation != "":
		return "products in 8 bits of mcore's own layers are not modelled (--transformer-impl local)"
	case train.Sharding != nil && len(train.Sharding.Offload) > 0:
		return "offloading is not modelled for Megatron-LM"
	case train.Sharding != nil && train.Sharding.Kind != workload.Distributed && train.Sharding.Kind != workload.DDP:
		return fmt.Sprintf("%s is not Megatron-LM's way to divide states", train.Sharding.Kind)
	case train.Optimizer.Name != "" && train.Optimizer.Name != workload.AdamW:
		return fmt.Sprintf("the optimizer %s is not modelled for Megatron-LM", train.Optimizer.Name)
	case len(in.Model.Unknown) > 0 && !in.Model.Listed:
		return "the model's configuration is not understood: " + in.Model.Unknown[0].Field
	case s.granularity == workload.EveryCheckpointing:
		return "Megatron-LM recomputes layers by its own methods (recompute: {method: uniform, layers: 2})"
	}
	return s.unmodelledModules(train.Tuning != nil)
}

// unmodelledModules is why modules that are offloaded or computed again have no
// program; empty where they have.
func (s *settings) unmodelledModules(adapters bool) string {
	for _, module := range s.OffloadModules {
		if !slices.Contains([]string{"attn_norm", "qkv_linear", "core_attn", "attn_proj", "mlp_norm", "expert_fc1", "moe_act"}, module) {
			return fmt.Sprintf("offloading of %s is not modelled for Megatron-LM", module)
		}
	}
	of := ""
	switch {
	case s.Quantisation != "":
		of = " beside products in 8 bits"
	case s.local():
		of = " of mcore's own layers"
	case adapters:
		of = " beside adapters"
	}
	if len(s.OffloadModules) > 0 && of != "" {
		return "offloading of activations" + of + " is not modelled for Megatron-LM"
	}
	if s.granularity != workload.SelectiveCheckpointing {
		return ""
	}
	for _, module := range s.recompute.Modules {
		switch module {
		case "core_attn", "mlp", "moe":
		case "layernorm", "mla_up_proj", "moe_act":
			if of != "" {
				return fmt.Sprintf("recomputation of %s%s is not modelled for Megatron-LM", module, of)
			}
		default:
			return fmt.Sprintf("recomputation of %s is not modelled for Megatron-LM", module)
		}
	}
	return ""
}

// plainLoRA reports LoRA of the format in which the model computes, which Megatron-Bridge
// casts its adapters to.
func plainLoRA(t workload.Tuning, compute dtype.Format) bool {
	return (t.Format == dtype.Unknown || t.Format == compute) && (t.Kind == "" || t.Kind == workload.LoRA) && t.Base == "" && !t.Prepared && len(t.Saved) == 0
}
