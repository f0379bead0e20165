package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/workload"
)

// trainOptions are the flags that say how a model is trained.
type trainOptions struct {
	train                                             bool
	precision, optimizer, implementation              string
	microBatch, accumulation, checkpointing, autocast string
	adapterKind, rank, targets, saved, format, base   string
	prepared                                          bool
	evalBatch, evalBatches, evalSteps, logits, saveAs string
	phases                                            []string
	resume, zeroGrad, freeze                          string
	sharding                                          shardingOptions
}

func (o *trainOptions) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&o.train, "train", false, "the workload trains the model")
	textFlag(f, &o.precision, "precision", "the formats of training's tensors, as a `layout` named by them (bf16-params-bf16-grads-fp32-master-fp32-moments, fp32-params-autocast)")
	textFlag(f, &o.optimizer, "optimizer", "what updates the parameters: a `name` such as adamw, adamw_8bit, paged_adamw_8bit, adafactor, sgd, lion, muon")
	textFlag(f, &o.implementation, "optimizer-implementation", "foreach, fused or for_loop: `how` PyTorch loops over parameters")
	textFlag(f, &o.microBatch, "micro-batch", "`sequences` of one forward and backward pass")
	textFlag(f, &o.accumulation, "accumulation", "`micro-batches` of one step")
	textFlag(f, &o.checkpointing, "checkpointing", "activations that are computed again: none, full, selective or a `number` of layers")
	textFlag(f, &o.autocast, "autocast", "the `format` that torch.autocast computes in")
	textFlag(f, &o.zeroGrad, "zero-grad", "what is done with gradients after a step: `none` frees them, zero keeps them")
	textFlag(f, &o.rank, "lora-rank", "train an adapter of this `rank` on a frozen model")
	textFlag(f, &o.targets, "lora-targets", "the `modules` that it is on, with commas between, or all-linear")
	textFlag(f, &o.saved, "modules-to-save", "`modules` that are trained whole beside it, with commas between")
	textFlag(f, &o.format, "lora-format", "element `format` of the adapter (default: fp32, as PEFT makes it)")
	textFlag(f, &o.adapterKind, "lora-kind", "lora or dora: the `kind` of adapter")
	textFlag(f, &o.base, "base-format", "how the frozen weights are stored: a `format` such as nf4, nf4-double, int8")
	f.BoolVar(&o.prepared, "prepared", false, "prepare_model_for_kbit_training casts what is not packed to 32 bits")
	textFlag(f, &o.freeze, "freeze", "`components` of the model that are not trained, with commas between: vision_tower, projector, language_model")
	textFlag(f, &o.evalBatch, "eval-batch", "`sequences` of one batch of evaluation, whose predictions are kept")
	textFlag(f, &o.evalBatches, "eval-batches", "`batches` of evaluation")
	textFlag(f, &o.evalSteps, "eval-accumulation-steps", "`batches` after which predictions move to main memory")
	textFlag(f, &o.logits, "eval-logits", "element `format` of the predictions that are kept")
	textFlag(f, &o.saveAs, "save-copy", "`format` of a full copy of the parameters that a checkpoint gathers on the device")
	textFlag(f, &o.resume, "resume", "where a checkpoint's optimizer states are read to first: `host`, device, or whole for one whose weights are read there too")
	o.sharding.addFlags(f)
	textsFlag(f, &o.phases, "phase", "a `phase` that the job has beside its steps: evaluation, generate, save, merge, export, resume; may be given several times")
}

// given reports whether a flag of training was.
func (o *trainOptions) given(f *pflag.FlagSet) bool {
	return firstGiven(f) != "" || o.sharding.given(f)
}

// firstGiven is the first flag of training that was given; empty for none.
func firstGiven(f *pflag.FlagSet) string {
	for _, name := range []string{"train", "precision", "optimizer", "optimizer-implementation", "micro-batch", "accumulation", "checkpointing",
		"autocast", "zero-grad", "lora-rank", "lora-targets", "modules-to-save", "lora-format", "lora-kind", "base-format", "prepared", "freeze", "eval-batch", "eval-batches",
		"eval-accumulation-steps", "eval-logits", "save-copy", "resume", "phase"} {
		if f.Changed(name) {
			return name
		}
	}
	return ""
}

// beside refuses an operation that contradicts the flags of training beside it.
func (o *trainOptions) beside(f *pflag.FlagSet, op workload.Operation) error {
	switch op {
	case workload.Load, workload.Generation:
		if flag := firstGiven(f); flag != "" {
			return contradicting(flag, op, "trains nothing")
		}
	case workload.Evaluation, workload.Export:
		if o.train {
			return contradicting("train", op, "is no training by itself")
		}
	}
	return nil
}

func contradicting(flag string, op workload.Operation, what string) error {
	return &usageError{err: fmt.Errorf("--%s and --operation %s contradict each other: %s %s", flag, op, op, what),
		hint: "leave one of them out; --phase adds a phase such as evaluation, generate or export to a training"}
}

// apply puts the flags of training over a workload.
func (o *trainOptions) apply(f *pflag.FlagSet, w *workload.Workload) error {
	if !o.given(f) {
		return nil
	}
	if w.Operation == "" || w.Operation == workload.Generation {
		w.Operation = workload.Training
		if o.rank != "" || w.Training != nil && w.Training.Tuning != nil {
			w.Operation = workload.FineTuning
		}
	}
	t := workload.Train{}
	if w.Training != nil {
		t = *w.Training
	}
	w.Training = &t
	for _, apply := range []func(*workload.Workload, *workload.Train) error{o.formats, o.loop, o.adapter, o.around, o.sharding.apply} {
		if err := apply(w, &t); err != nil {
			return err
		}
	}
	return nil
}

// formats applies the layout and the formats that stand alone.
func (o *trainOptions) formats(w *workload.Workload, t *workload.Train) error {
	if o.precision != "" {
		p, autocast, err := workload.ParseLayout(o.precision)
		if err != nil {
			return &usageError{err: fmt.Errorf("--precision: %w", err)}
		}
		p.Compute, p.Cache = w.Precision.Compute, w.Precision.Cache
		w.Precision = p
		if autocast != dtype.Unknown {
			t.Autocast = autocast
		}
	}
	if err := element("--autocast", o.autocast, &t.Autocast); err != nil {
		return err
	}
	if o.autocast != "" && !workload.Autocasts(t.Autocast) {
		return &usageError{err: fmt.Errorf("--autocast is %s, expected bf16 or fp16: torch.autocast computes in no other format", o.autocast)}
	}
	return nil
}

// element reads the format of elements, where one was given.
func element(flag, text string, into *dtype.Format) error {
	if text == "" {
		return nil
	}
	f, ok := dtype.Parse(text)
	if !ok {
		return &usageError{err: fmt.Errorf("%s: %q is no element format such as bf16, fp16 or fp32", flag, text)}
	}
	*into = f
	return nil
}

// loop applies the optimizer and what surrounds it.
func (o *trainOptions) loop(w *workload.Workload, t *workload.Train) error {
	var err error
	if o.optimizer != "" {
		if t.Optimizer, err = workload.ParseOptimizer(o.optimizer, o.implementation); err != nil {
			return &usageError{err: fmt.Errorf("--optimizer %w", err)}
		}
		if o.precision == "" { // else both were said together
			w.Precision.KeptBy(t.Optimizer)
		}
	} else if o.implementation != "" {
		return &usageError{err: errors.New("--optimizer-implementation goes with --optimizer")}
	}
	if o.checkpointing != "" {
		if t.Checkpointing, err = workload.ParseCheckpointing(o.checkpointing); err != nil {
			return &usageError{err: fmt.Errorf("--checkpointing %w", err)}
		}
	}
	if o.freeze != "" {
		if t.Frozen, err = workload.ParseFrozen(o.freeze); err != nil {
			return &usageError{err: fmt.Errorf("--freeze %w", err)}
		}
	}
	switch reset := workload.GradientReset(o.zeroGrad); reset {
	case "":
	case workload.SetToNone, workload.SetToZero:
		t.Reset = reset
	default:
		return &usageError{err: fmt.Errorf("--zero-grad: %q is not none or zero", o.zeroGrad)}
	}
	if err := counted("--accumulation", o.accumulation, &t.Accumulation); err != nil {
		return err
	}
	if o.accumulation != "" && t.Accumulation < 1 {
		return &usageError{err: fmt.Errorf("--accumulation is %s, expected 1 micro-batch of a step or more", o.accumulation)}
	}
	return nil
}

// counted reads a count, where one was given.
func counted(flag, text string, into *int64) error {
	if text == "" {
		return nil
	}
	n, err := count(flag, text)
	*into = n
	return err
}

// adapter applies what is trained beside a frozen model.
func (o *trainOptions) adapter(_ *workload.Workload, t *workload.Train) error {
	if o.rank+o.targets+o.saved+o.format+o.adapterKind+o.base == "" && !o.prepared {
		return nil
	}
	a := workload.Tuning{}
	if t.Tuning != nil {
		a = *t.Tuning
	}
	t.Tuning = &a
	rank := int64(a.Rank)
	if err := counted("--lora-rank", o.rank, &rank); err != nil {
		return err
	}
	a.Rank = int(min(rank, workload.MaxRank+1))
	if o.targets != "" {
		a.Targets = strings.Split(o.targets, ",")
	}
	if o.saved != "" {
		a.Saved = strings.Split(o.saved, ",")
	}
	if o.adapterKind != "" {
		a.Kind = o.adapterKind
	}
	if o.base != "" {
		a.Base = o.base
	}
	a.Prepared = a.Prepared || o.prepared
	if err := a.Check(); err != nil {
		return &usageError{err: fmt.Errorf("the adapter %w", err), hint: "--lora-rank 16 --lora-targets q_proj,v_proj"}
	}
	return element("--lora-format", o.format, &a.Format)
}

// around applies the phases beside the steps.
func (o *trainOptions) around(w *workload.Workload, t *workload.Train) error {
	if o.evalBatch+o.evalBatches+o.evalSteps+o.logits != "" {
		e := workload.EvaluationLoop{KeepLogits: true}
		if t.Evaluation != nil {
			e = *t.Evaluation
			e.KeepLogits = true
		}
		t.Evaluation = &e
		for _, c := range []struct {
			flag, text string
			into       *int64
		}{{"--eval-batch", o.evalBatch, &e.Batch}, {"--eval-batches", o.evalBatches, &e.Batches}, {"--eval-accumulation-steps", o.evalSteps, &e.AccumulationSteps}} {
			if err := counted(c.flag, c.text, c.into); err != nil {
				return err
			}
		}
		if err := element("--eval-logits", o.logits, &e.Logits); err != nil {
			return err
		}
	}
	if o.saveAs != "" {
		t.Save = &workload.Save{}
		if err := element("--save-copy", o.saveAs, &t.Save.Copy); err != nil {
			return err
		}
	}
	switch r := workload.ResumeFrom(o.resume); r {
	case "":
	case workload.ResumeOnHost, workload.ResumeOnDevice, workload.ResumeWhole:
		t.Resume = r
	default:
		return &usageError{err: fmt.Errorf("--resume: %q is not host, device or whole", o.resume)}
	}
	for _, name := range o.phases {
		switch p := account.PhaseID(name); p {
		case account.PhaseEvaluation, account.PhaseGenerate, account.PhaseSave, account.PhaseMerge, account.PhaseExport, account.PhaseResume:
			w.Phases = append(w.Phases, p)
		default:
			return &usageError{err: fmt.Errorf("--phase: %q is not evaluation, generate, save, merge, export or resume", name)}
		}
	}
	return nil
}
