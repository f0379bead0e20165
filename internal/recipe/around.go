package recipe

import (
	"fmt"
	"strings"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/workload"
)

// What a recipe declares beside its steps: evaluation between them, checkpoints, and
// the process that goes on from one.

// trainerEvaluates reports that a Trainer evaluates: it does where its strategy is not
// "no", and a script does behind the last step where do_eval is on, which a strategy
// switches on (training_args.py, __post_init__). Where neither is said, a batch that is
// written for it says so.
func (p *plan) trainerEvaluates() bool {
	switch {
	case p.strategy("eval_strategy"), p.yes("do_eval"):
		return true
	case p.said("eval_strategy"), p.said("do_eval"):
		return false
	}
	return p.number("eval_batch") > 0
}

// axolotlEvaluates reports that axolotl evaluates: where data are set aside for it, and
// no strategy is "no" (core/builders/base.py, _configure_save_and_eval_strategy). Where
// no interval is said either, releases before 0.10 evaluated after each epoch. Its batch is
// that of the steps (utils/config/__init__.py).
func (p *plan) axolotlEvaluates() bool {
	data, interval := p.share("validation") > 0, p.share("eval_every") > 0
	if !data || !interval && p.said("eval_strategy") && !p.strategy("eval_strategy") {
		return false
	}
	p.otherwise("eval_batch", p.number("micro_batch"), "default of axolotl: the micro-batch")
	return true
}

// evaluates is the evaluation beside the steps, of which no predictions are kept: a
// Trainer without metrics takes the loss alone (trainer.py, evaluate).
func (p *plan) evaluates(t *workload.Train, beside bool) {
	if !beside {
		return
	}
	p.otherwise("eval_batch", int64(8), "default of TrainingArguments")
	t.Evaluation = &workload.EvaluationLoop{Batch: p.number("eval_batch"), AccumulationSteps: p.number("eval_accumulation"), KeepLogits: false}
}

// generates is an evaluation or a prediction of LLaMA-Factory that generates in place of
// a pass with a loss (train/sft/trainer.py, prediction_step), with all of training still
// there: prompts are as long as the context at most. What it predicts without that
// switch it refuses (hparams/parser.py).
func (p *plan) generates(t *workload.Train) {
	switch {
	case p.yes("predict_with_generate") && (t.Evaluation != nil || p.yes("do_predict")):
		p.otherwise("generated", int64(1024), "default of LLaMA-Factory (max_new_tokens)")
		p.otherwise("eval_batch", int64(8), "default of TrainingArguments")
		p.inputs(workload.Generated, p.number("generated"))
		p.inputs(workload.Sequences, p.number("eval_batch"))
		p.workload.Phases = append(p.workload.Phases, account.PhaseGenerate)
		t.Evaluation = nil
	case p.yes("do_predict") && p.yes("do_train"):
		p.open(p.where("do_predict"), "predictions without predict_with_generate are not modelled")
	}
}

// strategy reports an interval of the Trainer that is another than none.
func (p *plan) strategy(f field) bool {
	switch strings.ToLower(p.text(f)) {
	case "", "no", "none", "false":
		return false
	}
	return true
}

// saves is the checkpoint that the Trainer writes: after 500 steps where no strategy is
// "no", with the optimizer's states unless save_only_model says otherwise, and in
// LLaMA-Factory and axolotl the model at the end in any case. What of it is put together
// depends on who divides the states (transformers 4.57.1 and 5.0.0, trainer.py,
// save_model and _save_optimizer_and_scheduler; accelerate at 16cb6eb80dd9,
// accelerator.py, get_state_dict, and utils/fsdp_utils.py).
func (p *plan) saves(t *workload.Train) {
	every := p.strategy("save_strategy") || !p.said("save_strategy") || p.share("save_every") > 0
	final := p.software != "transformers"
	switch {
	case !p.trainer && p.yes("gather_on_save"): // a loop of one's own, that saves the model
	case !p.trainer || !every && !final:
		return
	}
	t.Save = &workload.Save{}
	switch states := every && !p.yes("save_only_model"); p.shards() {
	case "deepspeed":
		p.zeroSaves(t)
	case "fsdp":
		p.fsdpSaves(t, states)
	}
	if t.Save.Copy != dtype.Unknown {
		where := "on every rank"
		if t.Save.On == workload.OnRankZero {
			where = "of rank 0"
		}
		text := fmt.Sprintf("a full copy in %s, in main memory %s", workload.FormatName(t.Save.Copy), where)
		if t.Save.States {
			text += ", then the optimizer's states"
		}
		p.derive("save", text, p.savedBy())
	}
}

// zeroSaves is what the Trainer asks DeepSpeed for: of the third stage the weights in 16
// bits on rank 0, where the configuration has them gathered, without those that are
// frozen beside an adapter; of the others a copy in main memory on every rank
// (clone_tensors_for_torch_save). Otherwise each rank writes its own parts.
func (p *plan) zeroSaves(t *workload.Train) {
	whole := workload.Save{Copy: p.workload.Precision.Parameters, On: workload.OnEveryRank, Offload: true}
	switch third := p.number("zero_stage") == 3; {
	case third && p.yes("gather_on_save") && t.Tuning == nil:
		whole.On = workload.OnRankZero
		*t.Save = whole
	case third:
		t.Save.On = workload.InParts
	case p.trainer:
		*t.Save = whole
	}
}

// fsdpSaves is a full state dict, which is the default of FSDP's first kind, or the parts
// of each rank. axolotl may change from one to the other for the model at the end.
func (p *plan) fsdpSaves(t *workload.Train, states bool) {
	full := func(f field) bool {
		kind := strings.ToUpper(p.text(f))
		return kind == "FULL_STATE_DICT" || kind == "1"
	}
	whole := full("state_dict") || !p.said("state_dict") && p.number("fsdp_version") != 2
	if !whole && !full("final_state_dict") {
		t.Save.On = workload.InParts
		return
	}
	*t.Save = workload.Save{Copy: p.workload.Precision.Parameters, On: workload.OnRankZero, Offload: true, States: whole && states && t.Tuning == nil}
	if o := t.Optimizer; t.Save.States && (o.Bits != 0 || o.Foreign != "" || o.Name == workload.Adafactor || o.Name == workload.Muon) {
		p.open("saving", "the states of "+p.text("optimizer")+" that are gathered for a full checkpoint are not modelled")
	}
}

// savedBy is what says that a checkpoint is put together as a whole.
func (p *plan) savedBy() string {
	for _, f := range []field{"gather_on_save", "state_dict", "final_state_dict"} {
		if p.said(f) {
			return p.where(f)
		}
	}
	if p.shards() == "fsdp" {
		return "default of accelerate: FULL_STATE_DICT"
	}
	return "clone_tensors_for_torch_save, of what ZeRO leaves whole"
}

// resumes is the process that goes on from a checkpoint: the optimizer's states are read
// into main memory by one process, and by several each onto its own device (trainer.py,
// _load_optimizer_and_scheduler).
func (p *plan) resumes(t *workload.Train) {
	switch {
	case !p.strategy("resume"):
	case p.shards() != "":
		t.Resume = workload.ResumeOnHost
		p.open(p.where("resume"), "what a checkpoint of parts takes while it is read is not modelled")
	case p.workload.Mesh.DataParallel > 1:
		t.Resume = workload.ResumeOnDevice
	default:
		t.Resume = workload.ResumeOnHost
	}
}

// validates is evaluation by a loop of the software's own: forward passes without
// gradients, between steps. Parameters and states are there as in a step, and a forward
// pass of no more positions holds what one of a step does at most, for nothing is kept
// for backward; so no phase of it can be the highest. Of more positions that is not so.
func (p *plan) validates(where, source string, batch, context int64) {
	micro, length := p.number("micro_batch"), p.number("context")
	if batch > micro || context > length && length > 0 {
		p.open(where, fmt.Sprintf("validation of %d sequences of %d positions, more than a step has, is not modelled", batch, context))
		return
	}
	p.derive("evaluation", "no more than a step", where+": forward passes of no more positions, of which nothing is kept ("+source+")")
}

// torchtuneValidates: batches are those of the steps where nobody says otherwise.
func (p *plan) torchtuneValidates() {
	if p.share("eval_every") > 0 {
		p.otherwise("eval_batch", p.number("micro_batch"), "default of torchtune: the batch of the steps")
		p.validates(p.where("eval_every"), "recipes/full_finetune_single_device.py, validate", p.number("eval_batch"), p.number("context"))
	}
	p.savesUnseen("torchtune", "each epoch ends with a checkpoint")
}

// titanValidates: validation has sizes of its own (config/job_config.py, Validation).
func (p *plan) titanValidates() {
	if p.yes("do_eval") {
		const by = "default of torchtitan's validation"
		p.otherwise("eval_batch", int64(8), by)
		p.otherwise("eval_context", int64(2048), by)
		p.validates(p.where("do_eval"), "components/validate.py", p.number("eval_batch"), p.number("eval_context"))
	}
	if p.yes("checkpoints") {
		p.savesUnseen("torchtitan", p.where("checkpoints"))
	}
}

// megatronValidates: it evaluates unless --eval-iters is 0, by the schedule of the steps
// with forward_only and their micro-batches (training/training.py, evaluate).
func (p *plan) megatronValidates() {
	if !p.said("eval_iterations") || p.share("eval_iterations") > 0 {
		where := "default of Megatron-LM: --eval-iters 100"
		if p.said("eval_iterations") {
			where = p.where("eval_iterations")
		}
		batch := p.number("micro_batch")
		if p.said("eval_batch") {
			batch = p.number("eval_batch")
		}
		p.validates(where, "training/training.py, evaluate", batch, p.number("context"))
	}
	if p.said("checkpoint_folder") {
		p.savesUnseen("Megatron-LM", p.where("checkpoint_folder"))
	}
}

// savesUnseen says that checkpoints are written of which no phase is estimated.
func (p *plan) savesUnseen(software, where string) {
	p.warn("saving_not_estimated", fmt.Sprintf("what %s takes while it writes a checkpoint (%s) is not estimated: the verdict is about the steps", software, where))
}
