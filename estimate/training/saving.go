package training

import (
	"maps"
	"slices"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/timeline"
	"floodmark/workload"
)

// save is a checkpoint: tensors go to main memory one by one (safetensors'
// save_file, torch.save), each rank's parts by itself, unless a full copy is
// gathered first, or what is held in another form than the files is made anew ([job.revert]).
func (j *job) save() {
	j.span(account.PhaseSave, 0, func() {
		p := requested(copyFormula)
		term := j.term(account.TermGathered, account.CategoryTemporary, p)
		s := j.train.Save
		switch {
		case s == nil || s.Copy == dtype.Unknown || s.On == workload.InParts:
			j.here(term, account.Zero("tensors go to main memory one by one", p))
			j.revert()
		case !j.gathers():
			j.copied(term, s)
		default:
			j.gathered(term, s)
		}
	})
}

// copied is a full copy of parameters that the rank holds whole.
func (j *job) copied(term uint32, s *workload.Save) {
	if j.division != nil && s.On == workload.OnRankZero && !j.first() {
		j.here(term, account.Zero("rank 0 alone makes the copy", requested(copyFormula)))
		return
	}
	var copies []uint32
	for _, p := range j.held {
		if p.role.Category() != account.CategoryParameter {
			continue
		}
		if s.Offload && p.savedIn(s.Copy) == p.format { // it is copied as it is
			copies = append(copies, j.saved(account.TermSavedCopy, p.in(p.format)))
			continue
		}
		n := j.born(term, p.in(p.savedIn(s.Copy)))
		if s.Offload {
			copies = append(copies, j.saved(account.TermSavedCopy, p.in(p.savedIn(s.Copy))))
			j.free(n)
			continue
		}
		copies = append(copies, n)
	}
	j.revert()
	j.free(copies...)
}

// savedIn is the format of a parameter in a full copy: packed ones are copied as they
// are held.
func (p *parameter) savedIn(f dtype.Format) dtype.Format {
	if p.packed {
		return p.format
	}
	return f
}

// gathered is a full copy of parameters that ranks divide: FSDP's
// FULL_STATE_DICT, or stage3_gather_16bit_weights_on_model_save. Every rank takes
// part in each gathering, and the parameters of a unit are whole on all of them
// for a while; then they go, or stay on the ranks that hold the copy
// (torch/distributed/fsdp/_state_dict_utils.py, rank0_only and offload_to_cpu;
// deepspeed/runtime/engine.py, _zero3_consolidated_16bit_state_dict). Worked
// number: 6,738,415,616 parameters in 32 bits are 26,953,662,464 bytes.
func (j *job) gathered(term uint32, s *workload.Save) {
	keeps := s.On != workload.OnRankZero || j.first()
	onHost := s.Offload || j.sharing().Kind == workload.ZeRO3
	if z, is := j.division.(*partitionedParameters); is {
		z.cut(z.all...) // each is divided again when it was gathered
		defer z.dropSecond()
	}
	byUnit := map[int][]*parameter{}
	for _, p := range j.held {
		if p.role.Category() == account.CategoryParameter {
			byUnit[p.part] = append(byUnit[p.part], p)
		}
	}
	var copies []uint32
	for _, part := range slices.Sorted(maps.Keys(byUnit)) {
		var unit []uint32
		for _, p := range byUnit[part] {
			unit = append(unit, j.born(term, p.in(p.savedIn(s.Copy))))
			if keeps && onHost {
				copies = append(copies, j.saved(account.TermSavedCopy, p.in(p.savedIn(s.Copy))))
			}
		}
		if keeps && !onHost {
			copies = append(copies, unit...)
			continue
		}
		slices.Reverse(unit)
		j.free(unit...)
	}
	j.revert()
	j.free(copies...)
	if s.States && j.train.Tuning == nil {
		j.statesGathered(term, byUnit, keeps && onHost)
	}
}

// statesGathered is the optimizer's states as a whole, put together in main memory
// when the copy of the parameters has gone: FSDP's optim_state_dict with
// offload_to_cpu and rank0_only, which accelerate's save_fsdp_optimizer asks for beside
// a full state dict. One moment of a unit is whole on every rank at a time, beside the
// rank's own part, which is joined for it (torch/distributed/fsdp/_optim_utils.py,
// _allgather_orig_param_states). Worked number: two moments of 6,738,415,616 parameters
// in 32 bits are 53,907,324,928 bytes.
func (j *job) statesGathered(term uint32, byUnit map[int][]*parameter, keeps bool) {
	var copies []uint32
	for _, part := range slices.Sorted(maps.Keys(byUnit)) {
		for _, unit := range j.momentsOf(byUnit[part]) {
			whole := j.born(term, unit)
			j.free(j.born(term, bytesize.CeilDiv(unit, j.sharing().ranks)))
			if keeps {
				copies = append(copies, j.saved(account.TermSavedStates, unit))
			}
			j.free(whole)
		}
	}
	j.free(copies...)
}

// momentsOf is the bytes of each moment of some parameters, undivided.
func (j *job) momentsOf(list []*parameter) []int64 {
	bytes := make([]int64, j.train.Optimizer.Moments())
	for _, p := range list {
		f := j.formatsOf(p)
		for i := range bytes {
			if m := []workload.StateFormat{f.first, f.second}[i]; !m.None() {
				bytes[i] += p.in(m.Format)
			}
		}
	}
	return bytes
}

// first reports the class of ranks that rank 0 is in.
func (j *job) first() bool { return slices.Contains(j.in.Plan.Ranks, 0) }

// saved makes bytes of a copy in main memory.
func (j *job) saved(id account.TermID, bytes int64) uint32 {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Host, Counter: copyFormula, Source: sourceOf(copyFormula)}
	category := account.CategoryParameter
	if id == account.TermSavedStates {
		category = account.CategoryOptimizerState
	}
	return j.bornIn(timeline.Pinned, j.term(id, category, p), bytes)
}
