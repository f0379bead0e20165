package training

import (
	"slices"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/internal/torch"
	"floodmark/timeline"
	"floodmark/workload"
)

// after lays out what the job does beside its steps, with all of training still
// resident: evaluation and generation between steps, then saving, merging and
// export; and the process that resumes it.
func (j *job) after() {
	if j.train.Evaluation != nil || j.declared(account.PhaseEvaluation) {
		j.evaluation()
	}
	j.rollout()
	if j.declared(account.PhaseGenerate) {
		j.generate()
	}
	if j.train.Save != nil || j.declared(account.PhaseSave) {
		j.save()
	}
	if j.declared(account.PhaseMerge) {
		j.merge()
	}
	if j.train.Export != nil || j.declared(account.PhaseExport) {
		j.export()
	}
	if j.train.Resume != "" || j.declared(account.PhaseResume) {
		j.resume()
	}
}

// rollout is the time in which an engine that sleeps while the model trains is awake,
// with all that training keeps still there. Before the first step less is, so that
// the states that the first step makes are those that an engine did not see when it
// took its share.
func (j *job) rollout() {
	for _, r := range j.in.Workload.Resident {
		if r.Awake == (account.Figure{}) {
			continue
		}
		j.tl.Events = append(j.tl.Events, timeline.Event{Kind: timeline.EmptyCache})
		j.span(account.PhaseGenerate, 0, func() {
			id, category, _ := estimate.Resident(r)
			j.here(j.term(id, category, r.Awake.Provenance), r.Awake)
		})
	}
}

// merge adds the adapter to the weights that it is on, one module at a time: the
// product of its matrices, then the product times its scale; beside them, where
// the weight is packed, the unpacked weight and the sum (merge of
// peft/tuners/lora/layer.py and bnb.py).
func (j *job) merge() {
	j.span(account.PhaseMerge, 0, func() {
		term := j.temporaries()
		if j.train.Tuning == nil {
			j.here(term, account.Zero("there is no adapter to merge", requested(mergeFormula)))
			return
		}
		if k := j.train.Tuning.Kind; k != "" && k != workload.LoRA && k != workload.DoRA && k != workload.LNTuning {
			j.here(term, account.Unknown("merging adapters of the kind "+k+" is not modelled", requested(mergeFormula)))
			return
		}
		for _, m := range j.train.Tuning.Modules {
			if !m.Saved && len(m.Shapes) >= 2 {
				j.mergeModule(term, m)
			}
		}
	})
}

// mergeModule is the merge of one module. What it adds has the elements of the
// product of its two matrices, however the base is stored.
func (j *job) mergeModule(term uint32, m workload.TunedModule) {
	t := j.in.Model.Tensors[m.Tensor]
	base := newParameter(t.Name, t.Role, productOf(m.Shapes[0], m.Shapes[1]), t.Stored, term)
	delta := base.in(j.adapterFormat())
	product := j.born(term, delta)
	scaled := j.born(term, delta)
	j.free(product)
	if j.packed(t) {
		unpacked := j.born(term, base.in(dtype.BF16))
		sum := j.born(term, max(delta, base.in(dtype.BF16)))
		j.free(unpacked, sum)
	}
	j.free(scaled)
}

// productOf is the shape of B times A: [out, rank] and [rank, in], of each expert
// where there are several.
func productOf(a, b []int64) []int64 {
	shape := slices.Clone(b)
	shape[len(shape)-1] = a[len(a)-1]
	return shape
}

func (j *job) adapterFormat() dtype.Format {
	if f := j.train.Tuning.Format; f != dtype.Unknown {
		return f
	}
	if j.hasOwn() {
		return j.compute() // it makes adapters as it makes the model
	}
	return dtype.F32
}

// export brings the weights into another format on the device, one tensor at a
// time; without a format the weights are written as they are.
func (j *job) export() {
	j.span(account.PhaseExport, 0, func() {
		p := requested(copyFormula)
		if j.train.Export == nil || j.train.Export.Format == dtype.Unknown {
			j.here(j.term(account.TermGathered, account.CategoryTemporary, p), account.Zero("the weights are written as they are stored, one by one", p))
			return
		}
		for _, t := range j.held {
			if t.role.Category() != account.CategoryParameter || t.format == j.train.Export.Format {
				continue
			}
			cast := j.born(t.term, t.in(j.train.Export.Format))
			if t.tensor.Defined() {
				j.machine.Drop(t.tensor)
			}
			j.free(t.weight)
			t.tensor, t.weight = torch.Tensor{}, cast
		}
	})
}

// resume is a new process that loads a checkpoint: the weights, and the optimizer's
// states. What is read onto the device first stands there beside the model: its
// weights, which are copied into the model's and go when the checkpoint does, and the
// states, which the optimizer takes over as they are. PyTorch before 2.1 copied them
// deeply, and a change of format copies them now (torch/optim/optimizer.py,
// load_state_dict). Worked number: a Llama of 37,317,120 bytes in 32 bits with AdamW is
// four times that at once, 149,268,480, and three times when the checkpoint is gone.
func (j *job) resume() {
	lived := j.endProcess()
	j.span(account.PhaseResume, 0, func() {
		states := j.bearAgain(lived, account.TermWeights, account.TermBuffers, account.TermQuantisationMetadata, account.TermAdapters, account.TermMasterCopy)
		p := requested(resumeFormula)
		term := j.term(account.TermLoadedState, account.CategoryOptimizerState, p)
		var read []uint32
		if j.train.Resume == workload.ResumeWhole {
			for _, a := range lived {
				switch j.tl.Terms[j.tl.Allocs[a].Term].ID {
				case account.TermWeights, account.TermQuantisationMetadata, account.TermAdapters:
					read = append(read, j.born(term, j.tl.Allocs[a].Requested))
				}
			}
		}
		j.takenOver(term, states)
		for _, a := range lived {
			if j.tl.Terms[j.tl.Allocs[a].Term].ID == account.TermOptimizerState {
				j.born(j.tl.Allocs[a].Term, j.tl.Allocs[a].Requested)
			}
		}
		j.free(read...)
	})
}

// bearAgain makes what lived of some terms, and counts the optimizer's states.
func (j *job) bearAgain(lived []uint32, terms ...account.TermID) (states int64) {
	for _, a := range lived {
		own := j.tl.Allocs[a]
		switch id := j.tl.Terms[own.Term].ID; {
		case id == account.TermOptimizerState:
			states += own.Requested
		case slices.Contains(terms, id):
			j.born(own.Term, own.Requested)
		}
	}
	return states
}

// takenOver is what stands beside the optimizer's states while it takes them over.
func (j *job) takenOver(term uint32, states int64) {
	p := requested(resumeFormula)
	switch {
	case j.train.Resume != workload.ResumeOnDevice && j.train.Resume != workload.ResumeWhole:
		j.here(term, account.Zero("the states are read into main memory, and each goes to the device from there", p))
	case j.machine.CopiesLoadedState():
		j.here(term, account.Exact(states, p))
	case j.convertsLoaded():
		j.here(term, account.Between(0, states, p))
	case j.train.Resume == workload.ResumeOnDevice:
		j.here(term, account.Zero("the states are read onto the device, and the optimizer keeps them as they are", p))
	}
}

// convertsLoaded reports moments that are kept in another format than what they
// update, to which load_state_dict casts them; of optimizers that are not
// PyTorch's nobody knows it here.
func (j *job) convertsLoaded() bool {
	if o := j.train.Optimizer; o.Bits != 0 || o.Name == workload.Adafactor || j.division != nil && j.deepSpeed() {
		return true
	}
	return slices.ContainsFunc(j.tuned, func(p *parameter) bool {
		f := j.formatsOf(p)
		return f.first.Declared && !f.first.None() && f.first.Format != f.updated.Format
	})
}

// endProcess frees all that lives, and what the allocator caches: the process
// ends. It lists what lived.
func (j *job) endProcess() (lived []uint32) {
	ofSteps := []account.TermID{account.TermAllocatorCache, account.TermWorkspace, account.TermInput}
	alive := make([]bool, len(j.tl.Allocs))
	for _, e := range j.tl.Events {
		switch e.Kind {
		case timeline.Born:
			alive[e.Alloc] = true
		case timeline.FreeCompleted:
			alive[e.Alloc] = false
		}
	}
	for a, lives := range alive {
		if lives {
			j.free(uint32(a))
			lived = append(lived, uint32(a))
		}
	}
	j.tl.Events = append(j.tl.Events, timeline.Event{Kind: timeline.EmptyCache})
	for i, b := range j.tl.Bounds {
		if b.To == last && slices.Contains(ofSteps, j.tl.Terms[b.Term].ID) {
			j.tl.Bounds[i].To = int32(len(j.tl.Phases) - 1)
		}
	}
	return lived
}
