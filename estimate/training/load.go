package training

import (
	"floodmark/account"
	"floodmark/dtype"
	"floodmark/model"
	"floodmark/workload"
)

// load is the phase in which everything is born that is there before the first
// step: the model's tensors, an adapter's, and the master copies that an
// optimizer makes when it is made.
func (j *job) load() (fault error) {
	j.span(account.PhaseModelLoad, 0, func() {
		if fault = j.program(); j.ops == nil {
			j.weights()
			j.prepare()
		} else {
			j.loading()
		}
		if j.division != nil {
			j.tuned = j.division.hold()
		} else {
			j.tuned = j.trained()
		}
		j.masters()
		j.hostCopies()
	})
	return fault
}

// loading is what stands beside the tensors while they are read, and while those
// that are cast have both formats.
func (j *job) loading() {
	var most int64
	for _, p := range j.held {
		most = max(most, p.in(p.format))
	}
	if j.ops.net.LoadsItself() && !j.gathers() {
		most = 0
	}
	j.here(j.temporaries(), account.Between(0, most, requested(loadFormula)))
	j.notUnderstood()
}

// notUnderstood makes the weights a lower bound where the reader of the model met
// something that it does not know.
func (j *job) notUnderstood() {
	if len(j.in.Model.Unknown) == 0 || j.in.Model.Listed {
		return
	}
	u := j.in.Model.Unknown[0]
	term := j.weightsTerm(account.CategoryParameter)
	j.bound(term, 0, last, account.Unknown("the model's configuration is not understood: "+u.Field+": "+u.Why, j.tl.Terms[term].Provenance))
}

// weights is the model's tensors as they are stored. Beside them stands what is
// read: nothing when each is copied into its place, up to the largest when it is
// moved and then cast.
func (j *job) weights() {
	var most int64
	for _, local := range j.in.Plan.Tensors {
		t := j.in.Model.Tensors[local.Tensor]
		term := j.weightsTerm(t.Role.Category())
		p := newParameter(t.Name, t.Role, local.Shape, t.Stored, term)
		p.packed, p.part = j.packed(t), j.partOf(local.Tensor)
		p.trained = j.trains() && j.train.Tuning == nil && p.role.Category() == account.CategoryParameter && !j.isFrozen(local.Tensor)
		figure := local.Bytes(t)
		switch bytes, exact := figure.IsExact(); {
		case j.has(workload.WeightOffload):
			j.bound(term, 0, last, account.Unknown("how many of the weights are offloaded is not modelled", j.tl.Terms[term].Provenance))
		case exact && j.gathers() && p.role.Category() == account.CategoryParameter:
			j.absent(p, bytes, j.casts(t))
			most = max(most, bytes)
		case exact && j.isTensor(p):
			p.tensor = j.machine.Parameter(p.format, p.trained, p.shape...)
			most = max(most, bytes)
		case exact:
			p.weight = j.born(term, bytes)
			most = max(most, bytes)
		default:
			j.bound(term, 0, last, figure)
		}
		j.held = append(j.held, p)
	}
	j.notUnderstood()
	j.here(j.temporaries(), account.Between(0, most, requested(loadFormula)))
}

func (j *job) weightsTerm(c account.Category) uint32 {
	p := requested(weightsFormula)
	if len(j.in.Model.Sources) > 0 {
		p.Source = j.in.Model.Sources[0].Name
	}
	switch c {
	case account.CategoryBuffer:
		return j.term(account.TermBuffers, c, p)
	case account.CategoryQuantisationMetadata:
		return j.term(account.TermQuantisationMetadata, c, p)
	}
	return j.term(account.TermWeights, account.CategoryParameter, p)
}

func (j *job) temporaries() uint32 {
	return j.term(account.TermTemporaries, account.CategoryTemporary, requested(temporaryFormula))
}

// mostDimensions is how many a tensor of the machine can have.
const mostDimensions = 8

// isTensor reports a parameter that the machine can hold as it is.
func (j *job) isTensor(p *parameter) bool {
	return !p.packed && len(p.shape) <= mostDimensions && p.role.Category() == account.CategoryParameter && p.format.Bits() >= 16
}

// prepare casts what is not packed from 16 to 32 bits, one tensor at a time
// (prepare_model_for_kbit_training of PEFT).
func (j *job) prepare() {
	if j.train.Tuning == nil || !j.train.Tuning.Prepared || j.gathers() {
		return
	}
	for _, p := range j.held {
		if !p.tensor.Defined() || p.format != dtype.F16 && p.format != dtype.BF16 {
			continue
		}
		cast := j.machine.Parameter(dtype.F32, false, p.shape...)
		j.machine.Drop(p.tensor)
		p.tensor, p.format = cast, dtype.F32
	}
}

// casts reports a tensor of the model that preparation casts to 32 bits.
func (j *job) casts(t model.Tensor) bool {
	return j.train.Tuning != nil && j.train.Tuning.Prepared && !j.packed(t) && (t.Stored == dtype.F16 || t.Stored == dtype.BF16) && t.Role.Category() == account.CategoryParameter
}

// masters is the copies that a mixed-precision optimizer updates in place of the
// parameters.
func (j *job) masters() {
	if s := j.sharing(); j.deepSpeed() || s != nil && s.offloads(workload.OffloadParameters) {
		return // its parts are copied when they are made, or where they are offloaded to
	}
	for _, p := range j.tuned {
		f := j.formatsOf(p)
		if !f.master.Declared || f.master.None() || j.train.Tuning != nil {
			continue
		}
		p.master = j.born(j.masterTerm(), p.in(f.master.Format))
	}
}
