package floodmark

import (
	"errors"
	"fmt"

	"floodmark/workload"
)

// The keys of settings of training that [WhatIf] takes.
const (
	checkpointingSetting  = "checkpointing"
	optimizerSetting      = "optimizer"
	implementationSetting = "optimizer_implementation"
	precisionSetting      = "precision"
	accumulationSetting   = "accumulation"
)

// trainingSettings are the settings of training that can be changed.
func trainingSettings() []string {
	return []string{checkpointingSetting, optimizerSetting, implementationSetting, precisionSetting, accumulationSetting}
}

// errNotTraining is a setting of training for work that trains nothing.
var errNotTraining = errors.New("the workload does not train")

// setTraining is the request with one setting of its training changed.
func (r Request) setTraining(field, value string) (Request, error) {
	if r.Workload.Training == nil {
		return r, errNotTraining
	}
	t := *r.Workload.Training
	r.Workload.Training = &t
	var err error
	switch field {
	case checkpointingSetting:
		t.Checkpointing, err = workload.ParseCheckpointing(value)
	case optimizerSetting:
		t.Optimizer, err = workload.ParseOptimizer(value, "")
		if p := &r.Workload.Precision; err == nil && t.Optimizer.Bits == 8 {
			p.FirstMoment, p.SecondMoment = workload.EightBit(), workload.EightBit()
		}
	case implementationSetting:
		t.Optimizer, err = workload.ParseOptimizer(string(t.Optimizer.Name), value)
	case precisionSetting:
		before := r.Workload.Precision
		r.Workload.Precision, t.Autocast, err = workload.ParseLayout(value)
		r.Workload.Precision.Compute, r.Workload.Precision.Cache = before.Compute, before.Cache
	case accumulationSetting:
		if _, e := fmt.Sscanf(value, "%d", &t.Accumulation); e != nil || t.Accumulation < 1 {
			err = fmt.Errorf("%q is no number of micro-batches", value)
		}
	}
	return r, err
}

// trainingValues is what a setting of training may be changed to, to lower what
// it reaches.
func (p *Prediction) trainingValues(field string) []string {
	t := p.Request.Workload.Training
	if t == nil || p.Request.Workload.Operation == workload.Evaluation || p.Request.Workload.Operation == workload.Export {
		return nil
	}
	o := t.Optimizer
	switch {
	case field == checkpointingSetting && (t.Checkpointing.Kind == "" || t.Checkpointing.Kind == workload.NoCheckpointing):
		return []string{string(workload.FullCheckpointing)}
	case field == optimizerSetting && o.Name == workload.AdamW && o.Bits == 0 && !p.Request.Workload.Precision.FirstMoment.Blockwise:
		return []string{"adamw_8bit"}
	case field == implementationSetting && o.Name == workload.AdamW && o.Bits == 0 && o.Implementation != workload.Fused:
		return []string{string(workload.Fused)}
	}
	return nil
}
