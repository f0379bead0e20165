package recipe

import (
	"slices"
	"strings"

	"floodmark/dtype"
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
	p.axolotlTargets()
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

// axolotlTargets adds every linear module to those that are named (loaders/adapter.py).
// Named ones that are no linear modules of a layer stand beside them.
func (p *plan) axolotlTargets() {
	if !p.yes("lora_linear") {
		return
	}
	for _, name := range p.list("lora_targets") {
		switch name {
		case "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "all-linear":
		default:
			p.open(p.where("lora_targets"), "the module "+shown(name)+" is named beside lora_target_linear, and the linear modules alone are counted")
		}
	}
	delete(p.facts, "lora_targets")
	p.order = slices.DeleteFunc(p.order, func(f field) bool { return f == "lora_targets" })
	p.otherwise("lora_targets", []any{"all-linear"}, p.where("lora_linear")+": axolotl adds every linear module")
}
