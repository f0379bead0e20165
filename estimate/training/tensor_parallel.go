package training

import (
	"floodmark/estimate/eager/modules"
	"floodmark/model"
	"floodmark/workload"
)

// ownModel replaces the model by what the rank runs of it, where the software divides
// layers in a way that has a program.
func (j *job) ownModel() {
	if j.across() > 1 {
		j.in.Model, j.in.Plan = j.in.Plan.Local(j.in.Model)
	}
}

// across is how many ranks divide each layer between them in a way that has a program;
// 1 where none does.
func (j *job) across() int64 {
	mesh := j.in.Plan.Mesh
	if own, _ := j.software(); own != modules.TorchTitan || j.train.Tuning != nil || !j.trains() || mesh.TensorParallel < 2 {
		return 1
	}
	if mesh.PipelineParallel > 1 || mesh.ContextParallel > 1 || mesh.ExpertParallel > 1 {
		return 1
	}
	return int64(mesh.TensorParallel)
}

// checkAcross refuses layers that PyTorch does not divide: DTensor cuts rows of keys and
// values, of which each rank must get whole heads, and positions evenly.
func (j *job) checkAcross() error {
	ranks := j.across()
	if positions, _ := j.in.Workload.Dimension(workload.Context); positions%ranks != 0 {
		return refuse("%d positions are not a multiple of %d tensor-parallel ranks, which divide them", positions, ranks)
	}
	for _, s := range j.in.Model.Stacks {
		for _, l := range s.Layers {
			for _, mixer := range l.Mixers {
				if a, attends := mixer.(model.Attention); attends && int64(a.KVHeads)%ranks != 0 {
					return refuse("%d KV heads are not a multiple of %d tensor-parallel ranks, over which PyTorch divides their rows", a.KVHeads, ranks)
				}
			}
		}
	}
	return nil
}

// ownRows keeps of gradients that tensor-parallel ranks made whole the rank's own part,
// which is what data-parallel ranks reduce.
func (s *fullySharded) ownRows(u *unit) {
	if s.across() == 1 {
		return
	}
	for _, g := range u.groups {
		for _, w := range g.weights {
			s.machine.OwnRows(w)
		}
	}
}
