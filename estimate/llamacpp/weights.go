package llamacpp

import (
	"floodmark/account"
	"floodmark/model"
)

// weights is the tensors of the device as they are stored. The table of token
// embeddings is read on the CPU and stays in main memory; a head that is tied to
// it has a copy on the device (llm_load_tensors: the input layer is never
// offloaded). Worked number: Gemma-3-27B holds 15,773.97 MiB on the card and
// 1,102.77 MiB of embeddings beside it, which are the head's once more
// (https://github.com/ikawrakow/ik_llama.cpp/discussions/334).
func (l *layout) weights() account.Figure {
	p := provenance(weightsFormula, account.Requested)
	if len(l.in.Model.Sources) > 0 {
		p.Source = l.in.Model.Sources[0].Name
	}
	all := account.Exact(0, p)
	tied := l.tied()
	for _, local := range l.in.Plan.Tensors {
		t := l.in.Model.Tensors[local.Tensor]
		if t.Role == model.RoleTokenEmbedding && !(tied && l.in.Plan.Last) {
			continue
		}
		all = account.Sum(p, all, local.Bytes(t))
	}
	if u := l.in.Model.Unknown; len(u) > 0 && !l.in.Model.Listed {
		return account.AtLeast(all.Low(), "the model is not understood: "+u[0].Field+": "+u[0].Why, p)
	}
	return all
}

// tied reports a model whose head is its table of token embeddings.
func (l *layout) tied() bool {
	for _, t := range l.in.Model.Tensors {
		if t.Role == model.RoleHead && t.TiedTo == model.NotTied {
			return false
		}
	}
	return true
}
