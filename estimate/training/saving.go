package training

import (
	"maps"
	"slices"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/timeline"
	"floodmark/workload"
)

// save is a checkpoint: tensors go to main memory one by one (safetensors'
// save_file, torch.save), each rank's parts by itself, unless a full copy is
// gathered first.
func (j *job) save() {
	j.span(account.PhaseSave, 0, func() {
		p := requested(copyFormula)
		term := j.term(account.TermGathered, account.CategoryTemporary, p)
		s := j.train.Save
		switch {
		case s == nil || s.Copy == dtype.Unknown || s.On == workload.InParts:
			j.here(term, account.Zero("tensors go to main memory one by one", p))
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
		n := j.born(term, p.in(s.Copy))
		if s.Offload {
			copies = append(copies, j.saved(p.in(s.Copy)))
			j.free(n)
			continue
		}
		copies = append(copies, n)
	}
	j.free(copies...)
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
			unit = append(unit, j.born(term, p.in(s.Copy)))
			if keeps && onHost {
				copies = append(copies, j.saved(p.in(s.Copy)))
			}
		}
		if keeps && !onHost {
			copies = append(copies, unit...)
			continue
		}
		slices.Reverse(unit)
		j.free(unit...)
	}
	j.free(copies...)
}

// first reports the class of ranks that rank 0 is in.
func (j *job) first() bool { return slices.Contains(j.in.Plan.Ranks, 0) }

// saved makes bytes of a copy in main memory.
func (j *job) saved(bytes int64) uint32 {
	p := account.Provenance{Origin: account.Calculated, Scope: account.Host, Counter: copyFormula, Source: sourceOf(copyFormula)}
	return j.bornIn(timeline.Pinned, j.term(account.TermSavedCopy, account.CategoryParameter, p), bytes)
}
