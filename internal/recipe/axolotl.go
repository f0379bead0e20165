package recipe

import (
	"slices"
	"strings"

	"floodmark/dtype"
	"floodmark/workload"
)

// axolotl resolves a configuration of axolotl: the Trainer with weights that are
// loaded in the format of the computation (utils/config/__init__.py), and norms and
// embeddings that are cast back to it where attention needs that (loaders/model.py).
// Source: axolotl at 067b021c8b87.
func (p *plan) axolotl() {
	const by = "default of axolotl"
	if p.facts["bf16"].value == nil && !p.yes("fp16") {
		p.otherwise("bf16", true, by+": bf16 auto, on cards that have it")
	}
	p.otherwise("micro_batch", int64(1), by)
	p.otherwise("context", int64(512), by)
	p.otherwise("optimizer", "adamw_torch_fused", by)
	if strings.EqualFold(p.text("adapter"), "qlora") {
		p.otherwise("double_quantised", true, by+": QLoRA quantises its scales too")
	}
	p.otherwise("use_reentrant", p.method == "", by+": true but for rl (utils/config/__init__.py)")
	t := p.train()
	p.lays()
	p.divides(t)
	p.checkpoints(t)
	p.attends(t)
	p.trainerOptimizer(t)
	base, why := dtype.F32, "neither bf16 nor fp16"
	switch {
	case p.yes("bf16"):
		base, why = dtype.BF16, p.where("bf16")
	case p.yes("pure_bf16"):
		base, why = dtype.BF16, p.where("pure_bf16")
	case p.yes("fp16"):
		base, why = dtype.F16, p.where("fp16")
	}
	p.trainerFormats(t, base, why+": axolotl loads the weights in it")
	if t.Tuning == nil && p.shards() == "" && base != dtype.F32 && t.Attention == "" && !p.said("attention") {
		p.open("attention", "without FlashAttention axolotl keeps norms and embeddings in 32 bits, which is not counted")
	}
	p.evaluates(t, p.axolotlEvaluates())
	p.saves(t)
	p.resumes(t)
	p.composite(base)
}

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
	p.saves(t)
	p.resumes(t)
	p.frozen(t)
	if p.method == "" {
		p.method = "sft"
	}
	if p.method == "rm" || p.method == "ppo" {
		p.open("stage: "+p.method, "its models and its loss are not modelled")
	}
	p.composite(base)
}

// frozen names the parts of a model that sees which LLaMA-Factory does not train, and
// which are counted as if it did: nothing is decided over them. Adapters on all linear
// layers never go on a projector
// (get_forbidden_modules of model/model_utils/visual.py, find_all_linear_modules of
// model/model_utils/misc.py; defaults of hparams/finetuning_args.py).
func (p *plan) frozen(t *workload.Train) {
	const by = "default of LLaMA-Factory"
	var parts []string
	for _, part := range []struct {
		key  field
		name string
		on   bool
	}{{"freeze_vision_tower", "the towers", true}, {"freeze_multi_modal_projector", "the projector", true}, {"freeze_language_model", "the language model", false}} {
		switch {
		case !p.said(part.key) && part.on:
			parts = append(parts, part.name+" ("+string(part.key)+", "+by+")")
		case p.yes(part.key):
			parts = append(parts, part.name+" ("+p.where(part.key)+")")
		}
	}
	switch all := slices.Equal(p.list("lora_targets"), []string{"all-linear"}); {
	case t.Tuning == nil && len(parts) > 0:
		p.recipe.Towers = strings.Join(parts, ", ") + ": LLaMA-Factory freezes these, and they are counted as trained"
	case t.Tuning != nil && all:
		p.recipe.Towers = "adapters on towers and projector are counted, and LLaMA-Factory makes none on the projector, nor on towers unless freeze_vision_tower is false"
	}
}
