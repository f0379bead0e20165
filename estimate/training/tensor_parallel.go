package training

import (
	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/estimate/outside"
	"floodmark/internal/torch"
	"floodmark/model"
	"floodmark/workload"
)

// ownModel replaces the model by what the rank runs of it, where the software divides
// layers in a way that has a program.
func (j *job) ownModel() {
	if j.across()*j.stages() > 1 {
		j.in.Model, j.in.Plan = j.in.Plan.Local(j.in.Model)
	}
}

// dividesLayers reports software whose ranks divide layers and stages in a way that has a
// program.
func (j *job) dividesLayers() bool {
	mesh := j.in.Plan.Mesh
	own, _ := j.software()
	return own == modules.TorchTitan && j.train.Tuning == nil && j.trains() && mesh.ContextParallel < 2 && mesh.ExpertParallel < 2
}

// across is how many ranks divide each layer between them, and stages how many the
// layers, in a way that has a program; 1 where none does.
func (j *job) across() int64 {
	if !j.dividesLayers() {
		return 1
	}
	return int64(max(1, j.in.Plan.Mesh.TensorParallel))
}

func (j *job) stages() int64 {
	if !j.dividesLayers() {
		return 1
	}
	return int64(max(1, j.in.Plan.Mesh.PipelineParallel))
}

// talksAcross is the communicators of ranks in two dimensions: of those that divide
// layers, of neighbours in a pipeline, of those that divide states, and at most one more of the latter, through which
// torchtitan averages what it logs (its dist_mean over the flattened mesh).
func (j *job) talksAcross() account.Figure {
	mesh, arch := j.in.Plan.Mesh, j.in.Memory.Arch
	link := outside.LinkOf(arch, j.in.Memory.Name)
	states := outside.Replicas(arch, link)
	mesh.DataParallel = 1
	layers := outside.CommunicatorsOver(arch, link, mesh, false)
	if j.has(workload.AsyncTensorParallel) {
		layers = account.Sum(layers.Provenance, layers, j.symmetric(layers.Provenance))
	}
	if j.in.Plan.Mesh.DataParallel == 1 {
		return layers
	}
	if high, known := states.High(); known {
		return account.Sum(states.Provenance, layers, states, account.Between(0, high, states.Provenance))
	}
	return account.Sum(states.Provenance, layers, states)
}

// symmetric is the workspace through which ranks exchange beside their products, outside
// of the allocator: two parts of a rank's sums while they are scattered. One that was
// made for a smaller gathering before may still be there (get_symm_mem_workspace of
// https://github.com/pytorch/pytorch/blob/v2.6.0/torch/distributed/_symmetric_memory/__init__.py).
// Worked number: 4 sequences of 8,192 positions of width 16,384 over 8 ranks in bfloat16:
// 268,435,456 to 402,653,184 bytes.
func (j *job) symmetric(p account.Provenance) account.Figure {
	tokens, _ := j.tokens()
	part, _ := dtype.BF16.Size([]int64{tokens / j.across(), int64(j.in.Model.Stacks[0].Width)})
	return account.Between(2*part, 3*part, p)
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

// cutGradients is what an update makes of gradients that are whole where the parameter
// is a part, for as long as it runs: DTensor cuts each to the parameter's own rows. Data-
// parallel ranks have cut them before.
func (j *job) cutGradients() []torch.Tensor {
	if j.across() == 1 || j.division != nil {
		return nil
	}
	var cut []torch.Tensor
	for _, p := range j.tuned {
		if p.role == model.RoleTokenEmbedding && p.tensor.Defined() {
			cut = append(cut, j.machine.Bucket("clone", p.format, p.elements))
		}
	}
	return cut
}
