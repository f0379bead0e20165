package floodmark

import (
	"errors"
	"fmt"
	"strconv"

	"floodmark/dtype"
	"floodmark/workload"
)

// The keys of settings of training, spelled as the flags.
const (
	optimizerSetting      = "optimizer"
	implementationSetting = "optimizer_implementation"
	precisionSetting      = "precision"
	checkpointingSetting  = "checkpointing"
	loraRankSetting       = "lora_rank"
	baseFormatSetting     = "base_format"
	zeroGradSetting       = "zero_grad"
	accumulationSetting   = "accumulation"
	logitsChunkSetting    = "logits_chunk"
	shardingSetting       = "sharding"
	offloadSetting        = "offload"
	saveOnSetting         = "save_on"
)

// trainingSettings lists them.
func trainingSettings() []string {
	return []string{optimizerSetting, implementationSetting, precisionSetting, checkpointingSetting, loraRankSetting, baseFormatSetting, zeroGradSetting, accumulationSetting, logitsChunkSetting, shardingSetting, offloadSetting, saveOnSetting}
}

// errNotTraining is a setting of training for work that trains nothing.
var errNotTraining = errors.New("the workload does not train")

// setTraining is the request with one setting of its training changed.
func (r Request) setTraining(field, value string) (Request, error) {
	w := &r.Workload
	if field == logitsChunkSetting {
		return r.chunked(value)
	}
	if w.Training == nil || w.Operation != workload.Training && w.Operation != workload.FineTuning {
		return r, errNotTraining
	}
	t := *w.Training
	w.Training = &t
	var err error
	switch field {
	case optimizerSetting:
		return r.optimizedBy(value)
	case implementationSetting:
		t.Optimizer, err = workload.ParseOptimizer(optimizerName(t.Optimizer), value)
	case precisionSetting:
		was := w.Precision
		w.Precision, t.Autocast, err = workload.ParseLayout(value)
		w.Precision.Compute, w.Precision.Cache = was.Compute, was.Cache
	case checkpointingSetting:
		t.Checkpointing, err = workload.ParseCheckpointing(value)
	case loraRankSetting:
		t.Tuning, err = adapted(t.Tuning, value)
	case baseFormatSetting:
		if t.Tuning == nil {
			return r, errors.New("without an adapter every weight is trained, and none is frozen")
		}
		tuning := *t.Tuning
		tuning.Base = value
		t.Tuning = &tuning
	case accumulationSetting:
		if t.Accumulation, err = strconv.ParseInt(value, 10, 64); err != nil || t.Accumulation < 1 {
			return r, fmt.Errorf("%q is no number of micro-batches", value)
		}
	case shardingSetting:
		return r.dividedBy(value)
	case offloadSetting:
		return r.offloading(value)
	case saveOnSetting:
		return r.savingOn(value)
	case zeroGradSetting:
		if t.Reset = workload.GradientReset(value); t.Reset != workload.SetToNone && t.Reset != workload.SetToZero {
			return r, fmt.Errorf("%q is not none or zero", value)
		}
	}
	return r, err
}

// chunked is the request whose evaluation makes the logits of so many positions at
// once.
func (r Request) chunked(value string) (Request, error) {
	t := r.Workload.Training
	if t == nil || t.Evaluation == nil {
		return r, errors.New("the workload does not say how it evaluates (training.evaluation)")
	}
	train, loop := *t, *t.Evaluation
	var err error
	if loop.Chunk, err = strconv.ParseInt(value, 10, 64); err != nil || loop.Chunk < 1 {
		return r, fmt.Errorf("%q is no number of positions", value)
	}
	train.Evaluation = &loop
	r.Workload.Training = &train
	return r, nil
}

// optimizedBy is the request with another optimizer: it loops over parameters as
// the one before it, where both are PyTorch's, and keeps moments of its own
// where it does not take the declared ones.
func (r Request) optimizedBy(name string) (Request, error) {
	t, p := r.Workload.Training, &r.Workload.Precision
	was := t.Optimizer
	o, err := workload.ParseOptimizer(name, "")
	if err != nil {
		return r, err
	}
	if o.Lists() && was.Lists() && o.Implementation == "" {
		o.Implementation = was.Implementation
	}
	t.Optimizer = o
	p.KeptBy(o)
	return r, nil
}

// adapted is an adapter of a rank: the declared one, or one on every linear layer.
func adapted(was *workload.Tuning, rank string) (*workload.Tuning, error) {
	n, err := strconv.Atoi(rank)
	if err != nil {
		return nil, fmt.Errorf("%q is no whole number", rank)
	}
	t := workload.Tuning{Kind: "lora", Targets: []string{"all-linear"}}
	if was != nil {
		t = *was
	}
	t.Rank = n
	return &t, t.Check()
}

// trainingValues is what a setting of the training may be changed to.
func (p *Prediction) trainingValues(field string) []string {
	w := p.Request.Workload
	t := w.Training
	if field == logitsChunkSetting && t != nil && t.Evaluation != nil && t.Evaluation.Chunk == 0 {
		return []string{"1024"}
	}
	if t == nil || w.Operation != workload.Training && w.Operation != workload.FineTuning {
		return nil
	}
	var list []string
	switch {
	case field == optimizerSetting:
		list = []string{"adamw_8bit", "paged_adamw_8bit", "adafactor", "sgd"}
	case field == implementationSetting && t.Optimizer.Fuses():
		list = []string{string(workload.Fused), string(workload.ForLoop)}
	case field == implementationSetting && t.Optimizer.Lists():
		list = []string{string(workload.ForLoop)}
	case field == precisionSetting && t.Tuning == nil:
		list = []string{"bf16-params-bf16-grads-fp32-master-fp32-moments", "bf16-params", "fp32-params-autocast"}
	case field == checkpointingSetting && t.Checkpointing.Kind != workload.FullCheckpointing:
		list = []string{string(workload.FullCheckpointing), string(workload.SelectiveCheckpointing)}
	case field == loraRankSetting && t.Tuning == nil:
		list = []string{"16"}
	case field == loraRankSetting && t.Tuning.Rank > 1:
		list = []string{strconv.Itoa(t.Tuning.Rank / 2)}
	case field == baseFormatSetting && t.Tuning != nil && t.Tuning.Base == "":
		list = []string{"int8", "nf4-double"}
	case field == shardingSetting:
		list = p.shardings()
	case field == offloadSetting:
		list = p.offloads()
	case field == saveOnSetting && t.Save != nil && t.Save.Copy != dtype.Unknown && w.Mesh.DataParallel > 1:
		list = []string{"rank0:host", string(workload.InParts)}
	case field == zeroGradSetting && t.Reset == workload.SetToZero:
		list = []string{string(workload.SetToNone)}
	}
	return list
}
