package recipe

import (
	"strings"

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

// strategy reports an interval of the Trainer that is another than none.
func (p *plan) strategy(f field) bool {
	switch strings.ToLower(p.text(f)) {
	case "", "no", "none", "false":
		return false
	}
	return true
}
