package floodmark

import (
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/model"
	"floodmark/record"
	"floodmark/workload"
)

// training is what the prediction trains; nil where it trains nothing.
func (p *Prediction) training() *record.Training {
	w := p.Request.Workload
	if w.Training == nil || w.Operation != workload.Training && w.Operation != workload.FineTuning {
		return nil
	}
	t := *w.Training
	r := &record.Training{
		Optimizer: optimizerName(t.Optimizer), Implementation: record.Text(string(t.Optimizer.Implementation)),
		Checkpointing: t.Checkpointing.String(), Accumulation: max(1, t.Accumulation), Formats: trainingFormats(w),
	}
	if t.Optimizer.Foreign != "" {
		r.Implementation = nil
	}
	if t.Autocast != dtype.Unknown {
		r.Autocast = record.Text(workload.FormatName(t.Autocast))
	}
	r.Modules = p.trainedModules(t)
	if t.Frozen != nil {
		r.FrozenComponents = t.Frozen.Components
	}
	sum := int64(0)
	for _, m := range r.Modules {
		if m.Parameters == nil {
			return r
		}
		var fits bool
		if sum, fits = bytesize.Add(sum, *m.Parameters); !fits {
			return r
		}
	}
	r.TrainableParameters = &sum
	if all, exact := p.Request.Model.Parameters().IsExact(); exact {
		if t.Tuning == nil {
			all -= sum
		}
		r.FrozenParameters = &all
	}
	return r
}

// optimizerName is the name by which the optimizer is asked for.
func optimizerName(o workload.Optimizer) string {
	if o.Foreign != "" {
		return o.Foreign
	}
	for _, name := range workload.Optimizers() {
		known, err := workload.ParseOptimizer(name, "")
		plain := o
		if known.Implementation == "" {
			plain.Implementation = ""
		}
		if err == nil && known == plain {
			return name
		}
	}
	return string(o.Name)
}

// trainingFormats is the formats of each kind of tensor, as they were declared.
func trainingFormats(w workload.Workload) []record.TrainingFormat {
	var list []record.TrainingFormat
	declared := w.Precision
	if w.Training.Tuning == nil {
		declared = declared.Completed()
	}
	add := func(tensor, format string) {
		list = append(list, record.TrainingFormat{Tensor: tensor, Format: format})
	}
	if w.Precision.Parameters != dtype.Unknown {
		add("parameters", workload.FormatName(w.Precision.Parameters))
	}
	if f := w.Training.Frozen; f != nil && f.Format != dtype.Unknown {
		add("frozen_parameters", workload.FormatName(f.Format))
	}
	if t := w.Training.Tuning; t != nil {
		if t.Base != "" {
			add("frozen_parameters", t.Base)
		}
		format := t.Format
		if format == dtype.Unknown {
			format = dtype.F32
		}
		add("adapter", workload.FormatName(format))
	}
	for _, s := range []struct {
		tensor string
		format workload.StateFormat
	}{
		{"gradients", declared.Gradients}, {"master_copy", declared.MasterCopy},
		{"first_moment", momentFormat(w.Training.Optimizer, 1, declared.FirstMoment)},
		{"second_moment", momentFormat(w.Training.Optimizer, 2, declared.SecondMoment)},
	} {
		if s.format.Declared {
			add(s.tensor, s.format.String())
		}
	}
	return list
}

// momentFormat is the format of a moment that the optimizer keeps: its own where
// it chooses one, whatever a layout says of others; undeclared where it has none.
func momentFormat(o workload.Optimizer, which int, declared workload.StateFormat) workload.StateFormat {
	switch {
	case o.Bits != 0 && which == 2 && o.Name != workload.AdamW:
		return workload.StateFormat{}
	case o.Bits == 8:
		return workload.EightBit()
	case o.Bits != 0:
		return workload.In(dtype.F32)
	case which > o.Moments():
		return workload.StateFormat{}
	}
	return declared
}

// trainedModules counts what is trained by kind of module.
func (p *Prediction) trainedModules(train workload.Train) []record.TrainedModule {
	type kind struct {
		module model.Module
		whole  bool
	}
	var order []kind
	trained, base := map[kind]account.Figure{}, map[kind]account.Figure{}
	add := func(tensor model.Tensor, whole bool, shapes ...[]int64) {
		k := kind{tensor.Role.Module(), whole}
		if !slices.Contains(order, k) {
			order = append(order, k)
		}
		var parts []account.Figure
		for _, shape := range shapes {
			n, fits := bytesize.Mul(shape...)
			parts = append(parts, account.Checked(n, fits, account.Provenance{}))
		}
		n, fits := tensor.Parameters()
		trained[k] = account.Sum(account.Provenance{}, append(parts, known0(trained[k]))...)
		base[k] = account.Sum(account.Provenance{}, account.Checked(n, fits, account.Provenance{}), known0(base[k]))
	}
	t := train.Tuning
	if t == nil {
		of := p.Request.Model.Components()
		for i, tensor := range p.Request.Model.Tensors {
			if tensor.Role.Category() == account.CategoryParameter && tensor.TiedTo == model.NotTied && !train.Frozen.Has(string(of[i])) {
				add(tensor, true, tensor.Shape)
			}
		}
	} else {
		for _, m := range t.Modules {
			add(p.Request.Model.Tensors[m.Tensor], m.Saved, m.Shapes...)
		}
	}
	var list []record.TrainedModule
	for _, k := range order {
		row := record.TrainedModule{Module: string(k.module), Whole: k.whole}
		row.Parameters, _, _ = record.Interval(trained[k])
		row.Base, _, _ = record.Interval(base[k])
		list = append(list, row)
	}
	return list
}

// known0 is a figure, or nothing where none was made yet.
func known0(f account.Figure) account.Figure {
	if f == (account.Figure{}) {
		return account.Exact(0, account.Provenance{})
	}
	return f
}
