package recipe

import (
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/workload"
)

// llamaFactory resolves a configuration of LLaMA-Factory: weights are loaded in the
// format of the computation (model/patcher.py), and what is trained is cast to 32 bits
// unless pure_bf16 says otherwise or ZeRO-3 does that itself (model/adapter.py).
// Source: LLaMA-Factory at ff6d4d12eeb0.
func (p *plan) llamaFactory() {
	const by = "default of LLaMA-Factory"
	p.otherwise("context", int64(2048), by)
	p.otherwise("micro_batch", int64(8), "default of TrainingArguments")
	p.otherwise("checkpointing", true, by+": unless disable_gradient_checkpointing")
	p.otherwise("use_reentrant", true, by+" (use_reentrant_gc)")
	p.otherwise("adapter", "lora", by)
	if p.text("adapter") == "lora" {
		p.otherwise("lora_rank", int64(8), by)
		p.otherwise("lora_targets", "all", by)
	}
	if p.number("quantisation_bits") == 4 {
		p.otherwise("double_quantised", true, by)
	}
	if targets := p.list("lora_targets"); len(targets) == 1 && targets[0] == "all" {
		f := p.facts["lora_targets"]
		f.value = []string{"all-linear"}
		p.facts["lora_targets"] = f
	}
	t := p.train()
	p.lays()
	p.divides(t)
	p.checkpoints(t)
	p.attends(t)
	p.trainerOptimizer(t)
	base, by2 := p.mixed()
	switch {
	case p.yes("pure_bf16"):
		base, by2 = dtype.BF16, p.where("pure_bf16")
	case base == dtype.Unknown:
		base, by2 = dtype.F32, "neither bf16 nor fp16"
		p.assume("precision", "neither bf16 nor fp16 is asked for: LLaMA-Factory then takes the format of the checkpoint, and 32 bits are counted (give --precision)")
	}
	switch {
	case p.adapts() || p.shards() != "":
		p.trainerFormats(t, base, by2+": LLaMA-Factory loads the weights in it")
	case p.yes("pure_bf16"):
		p.plain(dtype.BF16, by2)
	default:
		p.plain(dtype.F32, "LLaMA-Factory casts what is trained to 32 bits")
		if base != dtype.F32 {
			t.Autocast = base
			p.derive("autocast", workload.FormatName(base), by2)
		}
	}
	p.evaluates(t, p.trainerEvaluates())
	p.generates(t)
	p.saves(t)
	p.resumes(t)
	p.freezes(base)
	if p.strategy("adapter_folder") {
		p.open(p.where("adapter_folder"), "an adapter is loaded from there")
	}
	if p.method == "" {
		p.method = "sft"
	}
	if p.method == "rm" || p.method == "ppo" {
		p.lowersPasses("stage: "+p.method, "its models and its loss are not modelled")
	}
	p.composite(base)
}

// exports reports a model that llamafactory-cli export writes from a card.
func (p *plan) exports() bool {
	return p.said("export_dir") && p.exportsTo == "auto"
}

// merges is llamafactory-cli export on a card: the model is loaded as it is stored, the
// adapter beside it is added to its weights one module at a time (merge_and_unload, by
// _setup_lora_tuning of model/adapter.py), and what there is then is written in the format
// of the model (export_model of train/tuner.py).
func (p *plan) merges() {
	p.workload.Operation = workload.Export
	p.workload.Training = &workload.Train{}
	p.lays()
	if name := p.text("model"); name != "" {
		p.recipe.Models = append(p.recipe.Models, name)
	}
	if p.recipe.Adapter = p.text("adapter_folder"); p.recipe.Adapter != "" {
		p.workload.Phases = append(p.workload.Phases, account.PhaseMerge)
	}
	if strings.Contains(p.recipe.Adapter, ",") {
		p.open(p.where("adapter_folder"), "several adapters are merged one after another")
	}
	if p.said("quantisation_bits") {
		p.open(p.where("quantisation_bits"), "an adapter is not merged into weights that are packed")
	}
}

// freezing is the components that LLaMA-Factory freezes of models that read more than text,
// and the format that they keep.
type freezing struct {
	components []string
	format     dtype.Format
	adapter    bool // an adapter is trained beside them
}

// freezes reads which components are frozen: towers and projector where nobody says
// otherwise (hparams/finetuning_args.py). What
// is frozen stays in the format that the model is loaded in, and is not cast to 32 bits
// (_setup_full_tuning of model/adapter.py).
func (p *plan) freezes(base dtype.Format) {
	f := &freezing{format: base, adapter: p.workload.Training.Tuning != nil}
	for _, part := range []struct {
		key       field
		component string
		on        bool
	}{{"freeze_vision_tower", "vision_tower", true}, {"freeze_multi_modal_projector", "projector", true}, {"freeze_language_model", "language_model", false}} {
		if p.yes(part.key) || part.on && !p.said(part.key) {
			f.components = append(f.components, part.component)
		}
	}
	p.recipe.freezing = f
}

// composites are the types of models whose modules LLaMA-Factory freezes by names that
// agree with the components of package model (COMPOSITE_MODELS of
// model/model_utils/visual.py). Of others it leaves out embeddings and norms of a tower
// (glm4v), or vectors beside the projector (llava_next).
const composites = " gemma3 llama4 llava mistral3 mllama paligemma qwen2_vl qwen2_5_vl qwen3_vl qwen3_vl_moe qwen3_5 qwen3_5_moe "

// FreezesOf completes a training of LLaMA-Factory by the type of a model that reads more
// than text: which components it freezes, and puts no adapters on (get_forbidden_modules
// and patch_target_modules there). Where that is not known nothing is decided.
func (r *Recipe) FreezesOf(w *workload.Workload, modelType string) {
	f := r.freezing
	if f == nil || w.Training == nil {
		return
	}
	tower, projector := slices.Contains(f.components, "vision_tower"), slices.Contains(f.components, "projector")
	open := ""
	switch {
	case !strings.Contains(composites, " "+modelType+" "):
		open = "LLaMA-Factory freezes towers and projectors by names, and which those are of a model of the type " + modelType + " is not known here"
	case f.adapter && !projector:
		open = "which layers of the projector get adapters where freeze_multi_modal_projector is false is not modelled"
	case strings.HasPrefix(modelType, "qwen3_vl") && tower != projector:
		open = "LLaMA-Factory freezes the mergers of deeper layers with the tower, and they are counted to the projector"
	}
	if open != "" {
		w.Assumed = append(w.Assumed, open)
	}
	if len(f.components) == 0 {
		return
	}
	train := *w.Training
	train.Frozen = &workload.Frozen{Components: f.components, Format: f.format}
	w.Training = &train
	r.Declared = append(r.Declared, workload.Declaration{Field: "frozen", Value: shown(f.components), Rule: "freeze_vision_tower, freeze_multi_modal_projector and freeze_language_model of LLaMA-Factory"})
}
