package floodmark

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/estimate/megatron"
	"floodmark/model"
	"floodmark/model/load"
	"floodmark/workload"
)

// trains reports work that is a loop of training, or a part of one.
func trains(o workload.Operation) bool {
	switch o {
	case workload.Training, workload.FineTuning, workload.Evaluation, workload.Export:
		return true
	}
	return false
}

// trained is the request with the model in the formats that the work declares,
// and with the adapter that it trains counted on the model.
func (r Request) trained() (Request, error) {
	if !trains(r.Workload.Operation) {
		return r, nil
	}
	if r.litgpt() {
		r.Model = r.Model.Untied().ApartQKV()
	}
	if f := r.Workload.Precision.Parameters; f != dtype.Unknown && !storedAs(r.Model, f) {
		m, err := r.Model.WithFormat(strings.ToLower(f.String()))
		if err != nil {
			return r, &SettingsError{err}
		}
		r.Model = m
	}
	t := r.Workload.Training
	if t != nil && t.Frozen != nil {
		m, err := froze(r.Model, *t.Frozen, t.Tuning)
		if err != nil {
			return r, err
		}
		r.Model = m
	}
	if t == nil || t.Tuning == nil {
		return r, nil
	}
	if err := t.Tuning.Check(); err != nil {
		return r, &SettingsError{fmt.Errorf("the adapter %w", err)}
	}
	if t.Tuning.Base != "" {
		pack := r.Model.WithFormat
		if r.litgpt() {
			pack = r.Model.WithEveryLinear
		}
		m, err := pack(t.Tuning.Base)
		if err != nil {
			return r, &SettingsError{err}
		}
		r.Model = m
	}
	return r, r.tune(*t)
}

// froze is the model with the parameters of frozen components in their format. It
// refuses components that the model does not have, and work that trains nothing.
func froze(m *model.Model, f workload.Frozen, tuning *workload.Tuning) (*model.Model, error) {
	held := *m
	held.Tensors = slices.Clone(m.Tensors)
	of, trains := m.Components(), tuning != nil && len(tuning.Saved) > 0
	for i, t := range held.Tensors {
		switch frozen := f.Has(string(of[i])); {
		case t.Role.Category() != account.CategoryParameter:
		case !frozen:
			trains = true
		case f.Format != dtype.Unknown && t.Packed == nil && t.Stored.Bits() >= 16:
			held.Tensors[i].Stored = f.Format
		}
	}
	for _, c := range f.Components {
		if !slices.Contains(of, model.Component(c)) {
			return nil, contradicts("leave it out, or name the model that has it", "the %s is to be frozen, and %s has none", c, cmp.Or(m.Name, "the model"))
		}
	}
	if !trains {
		return nil, contradicts("leave one out that is trained", "%s are to be frozen, and nothing is left to train", strings.Join(f.Components, " and "))
	}
	return &held, nil
}

// litgpt reports work of litgpt, whose model has a head of its own, and a name for
// each part of the projection to query, key and value (lora_query, lora_key and
// lora_value of litgpt/finetune/lora.py), whatever the checkpoint joins or ties.
func (r Request) litgpt() bool { return r.Workload.Engine.Name == string(modules.LitGPT) }

// storedAs reports a model whose parameters are all stored in a format.
func storedAs(m *model.Model, f dtype.Format) bool {
	for _, t := range m.Tensors {
		if t.Role.Category() == account.CategoryParameter && (t.Stored != f || t.Packed != nil) {
			return false
		}
	}
	return true
}

// Tune makes the workload train an adapter that a file describes.
func (r *Request) Tune(c *load.AdapterConfig) error {
	if r.Workload.Training == nil {
		return &SettingsError{errors.New("the workload does not say how the adapter is trained (training)")}
	}
	t := *r.Workload.Training
	if t.Tuning != nil {
		return &SettingsError{errors.New("the workload describes the adapter that it trains, and a file describes another")}
	}
	t.Tuning = &workload.Tuning{
		Kind: c.KindName(), Rank: c.Rank, Targets: c.TargetNames(), Saved: c.Saved,
		Dropout: c.Dropout, Options: c.Options, Feedforward: c.Feedforward,
	}
	if t.Tuning.Kind == workload.AdaptionPrompt {
		t.Tuning.Rank = int(c.Options["adapter_len"])
	}
	r.Workload.Training, r.Adapter = &t, c
	return nil
}

// tune counts the adapter on the model.
func (r *Request) tune(t workload.Train) error {
	tuning := *t.Tuning
	if tuning.Kind == workload.AdaptionPrompt && r.Adapter == nil {
		if !r.litgpt() {
			return &SettingsError{errPromptsElsewhere}
		}
		tuning.Modules = prompted(r.Model, int64(tuning.Rank))
		t.Tuning = &tuning
		r.Workload.Training = &t
		return nil
	}
	if r.Workload.Engine.Name == (megatron.Engine{}).Name() {
		made, err := megatron.Tune(r.Model, tuning, r.Workload.Mesh)
		if err != nil {
			return &SettingsError{err}
		}
		if made.Format == dtype.Unknown {
			made.Format = r.Workload.Precision.Parameters
		}
		t.Tuning = &made
		r.Workload.Training = &t
		return nil
	}
	config := load.NewAdapter(tuning.Kind, tuning.Rank, tuning.Targets, tuning.Saved)
	config.Options, config.Feedforward = tuning.Options, tuning.Feedforward
	if r.Adapter != nil && r.Adapter.KindName() == cmp.Or(tuning.Kind, workload.LoRA) {
		read := *r.Adapter
		read.Rank, config = tuning.Rank, &read
	}
	a, err := config.On(r.Model)
	if err != nil {
		return &SettingsError{err}
	}
	tuning.Modules = nil
	of := r.Model.Components()
	for _, m := range a.Tuned {
		if !m.Saved && t.Frozen.Has(string(of[m.Tensor])) {
			continue
		}
		var frozen []workload.FrozenTensor
		for _, f := range m.Frozen {
			frozen = append(frozen, workload.FrozenTensor(f))
		}
		tuning.Modules = append(tuning.Modules, workload.TunedModule{Module: m.Module, Tensor: m.Tensor, Saved: m.Saved, Shapes: m.Shapes, Once: m.Once, Frozen: frozen})
	}
	t.Tuning = &tuning
	r.Workload.Training = &t
	r.Warnings = append(r.Warnings, a.Warnings...)
	r.Workload.Open = append(slices.Clone(r.Workload.Open), a.Open...)
	return nil
}

// HeldModel is the model as the work holds it: in the formats that it declares,
// and what preparation casts in 32 bits.
func (p *Prediction) HeldModel() *model.Model {
	m := p.Request.Model
	if t := p.Request.Workload.Training; t == nil || t.Tuning == nil || !t.Tuning.Prepared {
		return m
	}
	cast := *m
	cast.Tensors = slices.Clone(m.Tensors)
	for i, t := range cast.Tensors {
		if t.Packed == nil && (t.Stored == dtype.F16 || t.Stored == dtype.BF16) && t.Role.Category() == account.CategoryParameter {
			cast.Tensors[i].Stored = dtype.F32
		}
	}
	return &cast
}
