package training

import (
	"floodmark/account"
	"floodmark/dtype"
	"floodmark/workload"
)

// load is the phase in which everything is born that is there before the first
// step: the model's tensors, an adapter's, and the master copies that an
// optimizer makes when it is made.
func (j *job) load() {
	j.span(account.PhaseModelLoad, 0, func() {
		j.weights()
		j.prepare()
		j.tuned = j.trained()
		for _, p := range j.tuned {
			if p.weight == none {
				p.weight = j.born(p.term, p.in(p.format))
			}
		}
		j.masters()
	})
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
		p.packed = t.Packed != nil || t.Stored.Blocked() || t.Stored.Bits() < 16
		figure := local.Bytes(t)
		switch bytes, exact := figure.IsExact(); {
		case j.has(workload.WeightOffload):
			j.bound(term, 0, last, account.Unknown("how many of the weights are offloaded is not modelled", j.tl.Terms[term].Provenance))
		case exact:
			p.weight = j.born(term, bytes)
			most = max(most, bytes)
		default:
			j.bound(term, 0, last, figure)
		}
		j.held = append(j.held, p)
	}
	if len(j.in.Model.Unknown) > 0 && !j.in.Model.Listed {
		u := j.in.Model.Unknown[0]
		term := j.weightsTerm(account.CategoryParameter)
		j.bound(term, 0, last, account.Unknown("the model's configuration is not understood: "+u.Field+": "+u.Why, j.tl.Terms[term].Provenance))
	}
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

// prepare casts what is not packed from 16 to 32 bits, one tensor at a time
// (prepare_model_for_kbit_training of PEFT).
func (j *job) prepare() {
	if j.train.Tuning == nil || !j.train.Tuning.Prepared {
		return
	}
	for _, p := range j.held {
		if p.weight == none || p.packed || p.format != dtype.F16 && p.format != dtype.BF16 || p.role.Category() != account.CategoryParameter {
			continue
		}
		cast := j.born(p.term, p.in(dtype.F32))
		j.rebind(&p.weight, cast)
		p.format = dtype.F32
	}
}

// masters is the copies that a mixed-precision optimizer updates in place of the
// parameters.
func (j *job) masters() {
	for _, p := range j.tuned {
		f := j.formatsOf(p)
		if !f.master.Declared || f.master.None() || j.train.Tuning != nil {
			continue
		}
		term := j.term(account.TermMasterCopy, account.CategoryMasterCopy, requested(masterFormula))
		p.master = j.born(term, p.in(f.master.Format))
	}
}
