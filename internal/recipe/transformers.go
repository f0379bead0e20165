package recipe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"floodmark/dtype"
	"floodmark/workload"
)

// transformers resolves the Trainer of transformers and those of TRL on it.
//
// Sources: transformers v5.0.0 trainer.py and training_args.py; accelerate 1.x
// accelerator.py, utils/fsdp_utils.py; TRL at f2cd57710ae3 trainer/; DeepSpeed at
// edaa72212672 runtime/engine.py.
func (p *plan) transformers() {
	p.peftExample()
	p.methodByKeys()
	p.trl()
	t := p.train()
	if p.method != "grpo" {
		p.needsContext()
	}
	p.lays()
	p.divides(t)
	p.checkpoints(t)
	p.attends(t)
	p.trainerOptimizer(t)
	base, why := p.loaded()
	p.trainerFormats(t, base, why)
	p.evaluates(t, p.trainerEvaluates())
	if t.Evaluation != nil && p.yes("predict_with_generate") {
		p.open(p.where("predict_with_generate"), "how much it generates while it evaluates is not said: ask with --phase generate --generated N --sequences N")
	}
	p.saves(t)
	p.resumes(t)
	p.composite(base)
}

// methodByKeys tells TRL's trainers by keys that only one of them has.
func (p *plan) methodByKeys() {
	switch {
	case p.method != "":
	case p.said("completion_length") || p.said("generations"):
		p.method = "grpo"
	case p.said("reference_precomputed") || p.said("kl"):
		p.method = "dpo"
	case p.said("packing"):
		p.method = "sft"
	}
}

// trl gives what TRL's configurations say otherwise than the Trainer's.
func (p *plan) trl() {
	if p.method == "" || p.software != "transformers" {
		return
	}
	p.trlDefaults()
	if p.yes("peft") {
		p.otherwise("lora_rank", int64(16), "default of TRL's ModelConfig")
	}
}

// loaded is the format that the weights are loaded in. The Trainer does not say it:
// the script does.
func (p *plan) loaded() (dtype.Format, string) {
	if p.said("weights_format") && p.text("weights_format") != "auto" {
		return p.format("weights_format"), p.where("weights_format")
	}
	return dtype.Unknown, ""
}

// trainerOptimizer is --optim, unless DeepSpeed's own configuration has one.
func (p *plan) trainerOptimizer(t *workload.Train) {
	if p.said("shard_optimizer") {
		name := strings.ToLower(p.text("shard_optimizer"))
		p.goesOver("shard_optimizer", "optimizer", name)
		implementation := "fused"
		if p.yes("foreach") {
			implementation = "foreach"
		}
		switch name {
		case "adam", "adamw":
			p.optimizes(t, "adamw", implementation)
		default:
			p.facts["optimizer"] = p.facts["shard_optimizer"]
			p.optimizes(t, name, "")
		}
		return
	}
	p.defaultOptimizer()
	name := p.text("optimizer")
	if name == "adamw_torch" {
		p.optimizes(t, "adamw", "foreach")
		return
	}
	p.optimizes(t, name, "")
}

// defaultOptimizer is that of the Trainer, which became the fused one with transformers
// 4.54 and PyTorch 2.8 (https://github.com/huggingface/transformers/pull/37358); that of
// PyTorch came out after TRL 0.20.
func (p *plan) defaultOptimizer() {
	if p.before("transformers", 4, 54) || p.before("trl", 0, 21) {
		p.otherwise("optimizer", "adamw_torch", "default of transformers before release 4.54, or PyTorch before 2.8")
		return
	}
	p.otherwise("optimizer", "adamw_torch_fused", "default of transformers with PyTorch 2.8 and later")
}

// trainerFormats is in which format each tensor is kept, which depends on who
// divides the states.
func (p *plan) trainerFormats(t *workload.Train, base dtype.Format, why string) {
	mixed, by := p.mixed()
	adapter := p.adapts()
	if !adapter {
		p.uncounted()
	}
	shards := p.shards()
	fp32 := workload.In(dtype.F32)
	if base == dtype.Unknown && (adapter || shards == "" || mixed == dtype.Unknown) {
		base, why = dtype.F32, "assumed: as transformers before release 5 loads weights of which no script says the format"
		p.assume("precision", "no configuration says in which format the script loads the weights; 32 bits are counted, and release 5 of transformers takes that of the checkpoint (give --precision)")
	}
	switch {
	case adapter:
		if shards == "deepspeed" && mixed != dtype.Unknown {
			base, why = mixed, by+": DeepSpeed casts the model"
		}
		p.tunes(t, base, why)
		if p.software == "transformers" && p.method != "" && t.Tuning.Base != "" && p.castsAdapters() {
			t.Tuning.Format = dtype.BF16
		}
	case shards == "deepspeed" && mixed != dtype.Unknown:
		gradients := workload.In(mixed)
		if mixed == dtype.BF16 && p.number("zero_stage") == 0 || p.text("main_grads") == "fp32" {
			gradients = fp32
		}
		p.keeps(mixed, gradients, fp32, fp32, by+": DeepSpeed casts the model and updates a copy in 32 bits")
		return // it computes in the parameters' format, without autocast
	case shards == "fsdp" && mixed != dtype.Unknown:
		p.plain(dtype.F32, by+": accelerate casts what FSDP trains to 32 bits")
		p.workload.Precision.Compute = mixed
		if t.Sharding.ReduceFormat == dtype.Unknown {
			t.Sharding.ReduceFormat = mixed
		}
	default:
		p.plain(base, why)
	}
	if mixed != dtype.Unknown && (shards != "deepspeed") {
		t.Autocast = mixed
		p.derive("autocast", workload.FormatName(mixed), by)
	}
}

// castsAdapters reports that TRL casts adapters on packed weights to bf16: always in later
// releases, and before only with --bf16 and on 4 bits
// (https://github.com/huggingface/trl/blob/v0.26.0/trl/trainer/dpo_trainer.py, and
// sft_trainer.py beside it).
func (p *plan) castsAdapters() bool {
	earlier := p.before("trl", 0, 26) || p.method == "dpo" && p.before("trl", 1, 0)
	return !earlier || p.yes("bf16") && p.yes("four_bit")
}

// adapts reports whether an adapter is trained beside a frozen model.
func (p *plan) adapts() bool {
	switch strings.ToLower(p.text("adapter")) {
	case "lora", "qlora", "dora":
		return true
	case "", "full", "none":
	default:
		p.lowers(p.where("adapter"), "the adapter "+p.text("adapter")+" is not modelled")
	}
	asked := p.said("peft") || p.method != "" // a script of one's own may have ranks alone
	return p.yes("peft") || p.software == "transformers" && !asked && p.said("lora_rank")
}

// composite is what stands on the card beside what is trained: the models that
// preferences and rewards need, and an engine that generates.
func (p *plan) composite(base dtype.Format) {
	switch p.method {
	case "", "sft", "pt":
		return
	case "dpo":
		p.pairs()
		p.reference(base, true)
		if p.objective(workload.DPO) {
			p.rewards()
			return
		}
	case "grpo", "rloo":
		p.completions()
		p.reference(base, p.share("kl") != 0)
		p.rollout()
	case "kto":
		p.reference(base, true)
	}
	p.rewards()
	keep := p.open
	if p.method == "reward" {
		keep = p.lowersPasses // of one score for a sequence
	}
	keep("method "+p.method, "the loss of "+strings.ToUpper(p.method)+" is not modelled: cross entropy is counted in its place")
}

// objective says whose loss is computed, where TRL itself trains.
func (p *plan) objective(m workload.ObjectiveMethod) bool {
	if p.software != "transformers" {
		return false
	}
	o := &workload.Objective{Method: m}
	switch {
	case p.yes("reference_precomputed"):
		o.Reference = workload.ReferencePrecomputed
	case p.said("reference") || p.workload.Training.Tuning == nil:
		o.Reference = workload.ReferenceModel
	default:
		o.Reference = workload.ReferenceAdapterOff
	}
	p.workload.Training.Objective = o
	p.workload.Engine = workload.Engine{Name: "trl"}
	p.assume("engine", "no configuration says which release of TRL runs: 1.16 is counted, whose heads make no logits (from 1.15 on); earlier ones make those of all positions several times (give --engine trl@0.24)")
	return true
}

// pairs doubles the micro-batch: DPO runs what was chosen and what was rejected as
// one batch (trl/trainer/dpo_trainer.py).
func (p *plan) pairs() {
	if n := p.number("micro_batch"); n > 0 {
		p.inputs(workload.MicroBatch, 2*n)
		p.derive("micro_batch", 2*n, fmt.Sprintf("chosen and rejected run together: 2 × %d", n))
	}
	if e := p.workload.Training.Evaluation; e != nil {
		e.Batch *= 2
	}
}

// completions is the length that GRPO trains on: the prompt and its completion.
func (p *plan) completions() {
	steps := p.atLeastOne("accumulation") // without steps_per_generation (TRL, GRPOConfig)
	if p.said("steps_per_generation") {
		steps = p.number("steps_per_generation")
	}
	if n := p.number("micro_batch") * p.world() * steps; remains(n, p.number("generations")) {
		p.refuses("generations", fmt.Sprintf("a divisor of the %d completions that all ranks make together", n))
	}
	prompt, completion := p.number("prompt_length"), p.number("completion_length")
	switch {
	case prompt > 0:
		p.inputs(workload.Context, prompt+completion)
		p.derive("context", prompt+completion, fmt.Sprintf("prompt %d and completion %d", prompt, completion))
	default:
		p.warn("length_not_said", fmt.Sprintf("completions have up to %d positions, and nothing bounds the prompts before them: give --context for both together", completion))
	}
}

// reference is the model that preferences are measured against: with an adapter it
// is the base itself, and none stands beside.
func (p *plan) reference(base dtype.Format, needed bool) {
	switch {
	case !needed, p.yes("reference_precomputed"):
		return
	case p.workload.Training.Tuning != nil && !p.said("reference"):
		p.derive("reference model", "none beside", "the adapter is switched off for it")
		return
	}
	name := cmp.Or(p.text("reference"), p.text("model"))
	if name == "" && len(p.recipe.Models) > 0 { // of software with names of its own
		name = p.recipe.Models[0]
	}
	p.resident(workload.Resident{Name: "reference", What: "the reference model", Model: name, Weights: base, Divided: p.divided()})
}

// divided reports that models beside the trained one are divided over the ranks too
// (TRL prepares them with DeepSpeed's third stage, or with FSDP).
func (p *plan) divided() bool {
	return p.number("zero_stage") == 3 || p.shards() == "fsdp"
}

func (p *plan) resident(r workload.Resident) {
	p.workload.Resident = append(p.workload.Resident, r)
}

// rewards are reward models that are named: functions of a script hold nothing.
func (p *plan) rewards() {
	names := slices.Clone(p.list("rewards"))
	if name := p.text("reward_model"); name != "" {
		names = append(names, name)
	}
	for _, name := range names {
		if strings.Contains(name, "/") {
			p.resident(workload.Resident{Name: "reward " + name, What: "a reward model", Model: name, Divided: p.divided()})
		}
	}
}

// rollout is an engine that generates beside what is trained (vllm_mode colocate).
func (p *plan) rollout() {
	if !p.yes("rollout") {
		p.open("generation", "what generation holds in the trained model between steps is not modelled")
		return
	}
	if p.before("trl", 1, 0) {
		p.otherwise("rollout_mode", "server", "default of TRL before 1.0")
	}
	p.otherwise("rollout_mode", "colocate", "default of TRL 1.0 and later; before it was server")
	if p.text("rollout_mode") != "colocate" {
		p.derive("rollout engine", "on other devices", p.where("rollout_mode"))
		return
	}
	p.otherwise("rollout_utilization", 0.3, "default of TRL's GRPOConfig")
	p.resident(workload.Resident{Name: "rollout", What: "vLLM in the same process", Model: p.text("model"), Engine: "vllm",
		Utilization: p.share("rollout_utilization"), Sleeps: p.yes("rollout_sleep"),
		Ranks: int(max(1, min(p.number("rollout_tensor_parallel"), workload.MaxDegree))), Length: p.number("rollout_length")})
}
