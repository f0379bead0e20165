package recipe

import (
	"fmt"
	"strings"

	"floodmark/dtype"
	"floodmark/workload"
)

// train begins the training's own part of the workload with what every software
// says alike.
func (p *plan) train() *workload.Train {
	w := &p.workload
	w.Operation = workload.Training
	w.Training = &workload.Train{Accumulation: p.number("accumulation"), InBackward: p.yes("optimizer_in_backward")}
	dimensions := map[workload.Dimension]int64{}
	for d, f := range map[workload.Dimension]field{workload.Context: "context", workload.MicroBatch: "micro_batch"} {
		if n := p.number(f); n > 0 {
			dimensions[d] = n
		}
	}
	if len(dimensions) > 0 {
		w.Inputs = []workload.Input{{Name: "recipe", Dimensions: dimensions}}
	}
	if p.said("activation_offload") && p.yes("activation_offload") {
		p.lowersPasses(p.where("activation_offload"), "activations move to main memory")
	}
	if p.yes("compile") {
		w.Features = append(w.Features, workload.TorchCompile)
	}
	if p.yes("expandable_segments") {
		w.Features = append(w.Features, workload.ExpandableSegments)
	}
	if name := p.text("model"); name != "" {
		p.recipe.Models = append(p.recipe.Models, name)
	}
	if p.yes("cpu_only") {
		p.lowers(p.where("cpu_only"), "it runs on the processor")
	}
	return w.Training
}

// context is the positions of one sequence: where nobody says it, a flag must.
func (p *plan) needsContext() {
	if p.number("context") <= 0 {
		p.warn(LengthNotSaid, "no configuration says how many positions a sequence has: give --context")
	}
}

// checkpoints is full recomputation of each layer, where it is switched on.
func (p *plan) checkpoints(t *workload.Train) {
	if p.yes("checkpointing") {
		t.Checkpointing = workload.Checkpointing{Kind: workload.FullCheckpointing, Every: 1}
	}
	if t.Checkpointing.Kind != "" {
		t.Reentrant = p.reentrant()
	}
	switch way := strings.ToLower(p.text("activation_checkpointing")); way {
	case "", "false", "no", "none":
	case "true", "full":
		// Accelerate wraps layers that FSDP divides, and torchtitan its own, by PyTorch's
		// newer way (accelerate at 16cb6eb80dd9, accelerator.py: CheckpointImpl.NO_REENTRANT).
		t.Reentrant = new(bool)
		t.Checkpointing = workload.Checkpointing{Kind: workload.FullCheckpointing, Every: 1}
	default:
		p.open(p.where("activation_checkpointing"), "recomputation by the rule "+way+" is not modelled: the least that it keeps is counted")
		t.Checkpointing = workload.Checkpointing{Kind: workload.FullCheckpointing, Every: 1}
	}
}

// reentrant is by which of PyTorch's two ways layers are computed again; nil for the
// default of transformers: the older way before release 5, the newer since
// (https://github.com/huggingface/transformers/pull/43203). Two softwares do not do
// what is asked for: TRL's trainers take the older way for adapters under ZeRO-3 (TRL
// at f2cd57710ae3, dpo_trainer.py), LLaMA-Factory the newer under FSDP2 (at
// ff6d4d12eeb0, model_utils/checkpointing.py).
func (p *plan) reentrant() *bool {
	older := p.yes("use_reentrant")
	adapted := p.yes("peft") || p.text("adapter") != ""
	switch {
	case p.method != "" && p.software != "llamafactory" && adapted && p.shards() == "deepspeed" && p.number("zero_stage") == 3:
		older = true
	case p.software == "llamafactory" && p.shards() == "fsdp" && p.number("fsdp_version") == 2:
		older = false
	case !p.said("use_reentrant"):
		return nil
	}
	return &older
}

// attends reads which attention runs.
func (p *plan) attends(t *workload.Train) {
	switch name := strings.ToLower(p.text("attention")); name {
	case "", "auto":
	case "sdpa", "sdp":
	case "eager", "disabled":
		t.Attention = "eager"
	case "flash_attention_2", "flash_attention_3", "flash", "fa2", "fa3":
		p.workload.Features = append(p.workload.Features, workload.FlashAttention)
	default:
		p.open(p.where("attention"), "the attention "+name+" is not modelled: that of PyTorch is counted")
	}
}

// optimizes reads the optimizer by its name; an unknown one is counted without
// states, which is the least.
func (p *plan) optimizes(t *workload.Train, name, implementation string) {
	o, err := workload.ParseOptimizer(name, implementation)
	if err != nil {
		o = workload.ForeignOptimizer(name)
	}
	if o.Foreign != "" {
		keep := p.open
		if lower := strings.ToLower(name); strings.Contains(lower, "lomo") || strings.Contains(lower, "layerwise") || strings.Contains(lower, "offload") {
			keep = p.lowers // gradients do not stay: it updates in backward, or moves them
		}
		keep(p.where("optimizer"), "the states of the optimizer "+name+" are not known: none are counted")
	}
	t.Optimizer = o
}

// mixed is the 16-bit format that was switched on, and what did that.
func (p *plan) mixed() (f dtype.Format, why string) {
	switch {
	case p.yes("bf16") && p.yes("fp16"):
		p.refuses("fp16", "one of fp16 and bf16")
	case p.yes("bf16"):
		p.goesOver("bf16", "mixed_precision", "bf16")
		return dtype.BF16, p.where("bf16")
	case p.yes("fp16"):
		p.goesOver("fp16", "mixed_precision", "fp16")
		return dtype.F16, p.where("fp16")
	case p.said("bf16") || p.said("fp16"):
		if !p.said("mixed_precision") {
			return dtype.Unknown, ""
		}
	}
	switch p.text("mixed_precision") {
	case "bf16":
		return dtype.BF16, p.where("mixed_precision")
	case "fp16":
		return dtype.F16, p.where("mixed_precision")
	}
	return dtype.Unknown, ""
}

// goesOver names a field that another one stands in for, where it says something else than
// that: bf16 and fp16 of the Trainer go over accelerate's mixed_precision
// (transformers/training_args.py, ACCELERATE_MIXED_PRECISION), and DeepSpeed's own
// optimizer over --optim (integrations/deepspeed.py, deepspeed_optim_sched).
func (p *plan) goesOver(f, other field, says string) {
	if p.said(other) && !strings.Contains(strings.ToLower(p.text(other)), says) {
		p.warn("overridden", fmt.Sprintf("%s goes over %s in %s", p.where(f), p.text(other), p.where(other)))
	}
}

// keeps declares the formats of what is trained, with the rule that says so.
func (p *plan) keeps(parameters dtype.Format, gradients, master, moments workload.StateFormat, why string) {
	switch p.workload.Training.Optimizer.Bits { // bitsandbytes chooses its own
	case 8:
		moments = workload.EightBit()
	case 32:
		moments = workload.In(dtype.F32)
	}
	w := &p.workload.Precision
	w.Parameters, w.Gradients, w.MasterCopy = parameters, gradients, master
	w.FirstMoment, w.SecondMoment = moments, moments
	p.derive("formats", fmt.Sprintf("parameters %s, gradients %s, master copy %s, moments %s",
		workload.FormatName(parameters), gradients, master, moments), why)
}

// plain declares formats as PyTorch has them: all in that of the parameters.
func (p *plan) plain(f dtype.Format, why string) {
	p.keeps(f, workload.In(f), workload.Without(), workload.In(f), why)
}

// tunes reads the adapter beside frozen weights, which are stored in a format.
func (p *plan) tunes(t *workload.Train, base dtype.Format, why string) {
	p.workload.Operation = workload.FineTuning
	a := &workload.Tuning{Kind: "lora", Rank: int(min(max(p.number("lora_rank"), 0), workload.MaxRank)), Targets: p.list("lora_targets"), Saved: p.list("modules_to_save"), Format: dtype.F32}
	if p.yes("dora") {
		a.Kind = "dora"
	}
	a.Dropout = p.share("adapter_dropout") > 0
	p.workload.Precision.Parameters = base
	switch bits := p.number("quantisation_bits"); {
	case p.yes("four_bit") || bits == 4:
		a.Base = "nf4"
		if kind := p.text("quantisation"); kind == "fp4" {
			a.Base = "fp4"
		}
		if p.yes("double_quantised") {
			a.Base += "-double"
		}
	case p.yes("eight_bit") || bits == 8:
		a.Base = "int8"
	case bits != 0:
		p.lowers(p.where("quantisation_bits"), fmt.Sprintf("weights of %d bits are packed in a way that is not modelled", bits))
	}
	frozen := workload.FormatName(base)
	if a.Base != "" {
		frozen = a.Base + ", the rest " + frozen
	}
	p.derive("frozen weights", frozen, why)
	t.Tuning = a
}
