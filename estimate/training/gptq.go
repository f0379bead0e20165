package training

import (
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/estimate/eager/modules"
	"floodmark/model"
)

// gptqMethod is how configurations call it.
const gptqMethod = "gptq"

// gptqOf is how a weight of the checkpoint is packed, where that is as GPTQ packs and
// everything beside the words is there: the shapes are the checkpoint's.
func (h *holding) gptqOf(t model.Tensor) *modules.GPTQ {
	base, named := strings.CutSuffix(t.Name, ".qweight")
	q := h.j.in.Model.Quantised
	if q == nil || q.Method != gptqMethod || !named || len(t.Shape) != 2 {
		return nil
	}
	part := func(name string) model.Tensor { return h.stored[base+"."+name] }
	g := modules.GPTQ{Bits: int64(q.Bits), Ordered: q.Ordered, Zeros: part("qzeros").Shape, Scales: part("scales").Shape, Index: part("g_idx").Shape}
	if len(g.Zeros) != 2 || len(g.Scales) != 2 || len(g.Index) != 1 || g.Bits == 0 {
		return nil
	}
	if slices.Min(slices.Concat(g.Zeros, g.Scales, g.Index)) < 1 { // a file may say so
		return nil
	}
	g.Words = []int64{g.Index[0] * g.Bits / 32, g.Scales[1]}
	bias, has := h.stored[base+".bias"]
	g.Biased = has && bias.Role.Category() == account.CategoryParameter
	return &g
}

// gptqLacks is why weights that GPTQ packed have no program; empty where they have, or
// the model has none.
func (j *job) gptqLacks() string {
	q := j.in.Model.Quantised
	if q == nil || q.Method != gptqMethod {
		return ""
	}
	own, release := j.software()
	if e := j.in.Workload.Engine.Name; e != "transformers" || own != modules.Transformers || !j.trains() {
		return "the operators of GPTQ's weights are modelled where transformers trains adapters beside them (engine: transformers, with its version), and not here"
	}
	h := j.holding()
	for _, t := range j.in.Model.Tensors {
		if !j.packed(t) || t.Role.Category() != account.CategoryParameter {
			continue
		}
		g := h.gptqOf(t)
		if g == nil || g.Words[0]*32 != g.Index[0]*g.Bits || g.Zeros[1]*32 != g.Words[1]*g.Bits || !g.Ordered && g.Index[0]%g.Zeros[0] != 0 {
			return "how " + t.Name + " is packed is not that of a linear layer of GPTQ in whole words and groups, which alone has a program"
		}
		if why := modules.GPTQUnknown(release, *g); why != "" {
			return why
		}
	}
	if j.gathers() {
		return "GPTQ's weights that ranks divide are not modelled"
	}
	return ""
}
