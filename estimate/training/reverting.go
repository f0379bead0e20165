package training

import (
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate/eager/modules"
	"floodmark/model"
	"floodmark/timeline"
	"floodmark/workload"
)

// joining are the types whose class holds gate and up of all routed experts in one
// tensor, and whose files hold each by itself (conversion_mapping.py: Concatenate(dim=1)
// behind MergeModulelist).
const joining = ` mixtral minimax minimax_m2 phimoe qwen2_moe qwen3_moe qwen3_next olmoe flex_olmo deepseek_v2 deepseek_v3 deepseek_v32
	dots1 ernie4_5_moe glm4_moe glm4_moe_lite glm_moe_dsa glm4v_moe longcat_flash hunyuan_v1_moe jamba lfm2_moe afmoe solar_open exaone_moe cohere2_moe `

// reverted is the parameters that transformers from release 5 on copies before it writes
// them, for the class holds them in another form than the files: gate and up of routed
// experts, which are cut apart (their down matrices are cut into views of what is there),
// and those of a DINOv2, which are joined. known says that the class is known to.
func (j *job) reverted() (list []*parameter, known bool) {
	roles := []model.Role{model.RoleExpertGate, model.RoleExpertUp}
	known = strings.Contains(joining, " "+j.in.Model.Type+" ")
	if j.in.Model.Type == "dinov2" {
		roles, known = []model.Role{model.RoleGateUp, model.RoleGateUpBias}, true
	}
	for _, p := range j.held {
		if slices.Contains(roles, p.role) {
			list = append(list, p)
		}
	}
	apart := func(p *parameter) bool { return p.role != model.RoleExpertUp }
	if !slices.ContainsFunc(list, apart) { // experts without a gate have nothing to join
		return nil, false
	}
	return list, known
}

// revert is what save_pretrained makes of the whole state dict before the first file is
// written: tensors in the form of the files, all alive at once (modeling_utils.py,
// save_pretrained; core_model_loading.py, revert_weight_conversion and Chunk.convert). It
// is where the state dict is: of one process on the device, of a full copy where that is.
// Worked number: 32 layers of 8 experts with gate and up of 14,336 × 4,096 in 16 bits
// are 60,129,542,144 bytes.
func (j *job) revert() {
	s := workload.Save{}
	if j.train.Save != nil {
		s = *j.train.Save
	}
	if !j.reverts() || s.On == workload.InParts || !j.first() { // parts are written as they are, and by others nothing
		return
	}
	list, known := j.reverted()
	space, p := timeline.Caching, requested(revertFormula)
	if s.Offload {
		space, p.Scope = timeline.Pinned, account.Host
	}
	term := j.term(account.TermSavedCopy, account.CategoryParameter, p)
	var copies []uint32
	var all int64
	for _, t := range list {
		f := t.format
		if s.Copy != dtype.Unknown {
			f = t.savedIn(s.Copy)
		}
		all += t.in(f)
		if known && j.revertsAtOnce() {
			copies = append(copies, j.bornIn(space, term, t.in(f)))
		}
	}
	if len(copies) == 0 {
		j.here(term, account.Between(0, all, p))
	}
	j.free(copies...)
}

// reverts reports a loop that may save by save_pretrained of transformers from release 5
// on: a full fine-tune of a class that is its own.
func (j *job) reverts() bool {
	own, _ := j.software()
	return own == modules.Transformers && !j.earlier() && j.trains() && j.train.Tuning == nil && !besideCheckpoint(j.in.Model.Type)
}

// revertsAtOnce reports the releases that were read and recorded. What another loop than
// the Trainer's writes, and releases from 5.0 on that were not, is no more than that.
func (j *job) revertsAtOnce() bool {
	e := j.in.Workload.Engine
	release, err := modules.ParseRelease(e.Version)
	return e.Name == "transformers" && err == nil && (release == (modules.Release{}) || release.Major == 5 && release.Minor >= 24)
}
