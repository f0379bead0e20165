package training

import (
	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/workload"
)

// parameter is one tensor of the model or of its adapter, and what training
// holds for it. Numbers of allocations are none where there is none.
type parameter struct {
	name     string
	role     model.Role
	shape    []int64
	elements int64
	format   dtype.Format
	term     uint32
	packed   bool
	trained  bool
	part     int          // the layer that it is in, or modules.Outside
	tensor   torch.Tensor // on the machine; None where it is bytes alone

	weight, gradient, master uint32
	states                   []uint32
}

func newParameter(name string, role model.Role, shape []int64, f dtype.Format, term uint32) *parameter {
	n, fits := bytesize.Mul(shape...)
	if !fits {
		n = 0
	}
	return &parameter{name: name, role: role, shape: shape, elements: n, format: f, term: term, weight: none, gradient: none, master: none}
}

// in is the bytes of the parameter's elements in a format.
func (p *parameter) in(f dtype.Format) int64 {
	n, fits := f.Size([]int64{p.elements})
	if !fits {
		return 0
	}
	return n
}

// matrix reports what Muon updates: matrices of hidden layers.
func (p *parameter) matrix() bool {
	switch p.role.Module() {
	case model.EmbeddingModule, model.HeadModule:
		return false
	}
	return len(p.shape) == 2
}

// formats are the formats in which training holds what belongs to a parameter.
type formats struct {
	gradient, master, updated, first, second workload.StateFormat
}

// formatsOf is the declared formats; of an adapter whose formats nobody declared
// those that PyTorch gives it: its own.
func (j *job) formatsOf(p *parameter) formats {
	declared := j.in.Workload.Precision
	if j.train.Tuning == nil {
		declared = declared.Completed()
	}
	f := formats{gradient: declared.Gradients, master: declared.MasterCopy, first: declared.FirstMoment, second: declared.SecondMoment}
	own := workload.In(p.format)
	if !f.gradient.Declared {
		f.gradient = own
	}
	f.updated = own
	if j.deepSpeed() {
		f.updated = workload.In(dtype.F32) // whatever the parameters are kept in
	}
	if f.master.Declared && !f.master.None() {
		f.updated = f.master
	}
	if !f.first.Declared {
		f.first = f.updated
	}
	if !f.second.Declared {
		f.second = f.first
	}
	return f
}

// trained lists what is trained: everything, or the tensors of an adapter.
func (j *job) trained() []*parameter {
	if !j.trains() {
		return nil
	}
	if j.train.Tuning == nil || j.ops != nil {
		var list []*parameter
		for _, p := range j.held {
			if p.role.Category() == account.CategoryParameter && p.trained {
				list = append(list, p)
			}
		}
		return list
	}
	return j.adapter()
}

// adapter is the tensors of an adapter, in the order of the modules. PEFT makes
// its matrices in 32 bits where the base is in 16 (autocast_adapter_dtype); a
// module that is saved whole is a copy in the module's own format.
func (j *job) adapter() []*parameter {
	term := j.term(account.TermAdapters, account.CategoryParameter, requested(adapterFormula))
	format := j.train.Tuning.Format
	if format == dtype.Unknown {
		format = dtype.F32
	}
	stored := map[int]dtype.Format{}
	for i, local := range j.in.Plan.Tensors {
		stored[local.Tensor] = j.held[i].format
	}
	var list []*parameter
	for _, m := range j.train.Tuning.Modules {
		f := format
		if own, has := stored[m.Tensor]; m.Saved && has && own.Bits() >= 16 {
			f = own
		}
		for _, held := range m.Frozen {
			p := newParameter(m.Module, model.RoleBuffer, held.Shape, held.Format, term)
			j.born(term, p.in(p.format))
		}
		for _, shape := range m.Shapes {
			p := newParameter(m.Module, j.in.Model.Tensors[m.Tensor].Role, shape, f, term)
			p.trained, p.part = true, j.partOf(m.Tensor)
			if j.gathers() {
				p.tensor = j.machine.Absent(j.gatheredFormat(p.role, f), true, shape...)
			} else {
				p.tensor = j.machine.Adapter(f, shape...)
			}
			list = append(list, p)
		}
	}
	return list
}
