package training

import (
	"math"

	"floodmark/account"
	"floodmark/estimate/eager/modules"
	"floodmark/timeline"
	"floodmark/workload"
)

// programsOf is the major release of transformers whose modules have programs.
const programsOf = 5

// software is whose modules and loop the workload runs, at which release.
func (j *job) software() (modules.Software, modules.Release) {
	e := j.in.Workload.Engine
	for _, s := range modules.Own() {
		if e.Name == string(s) {
			release, _ := modules.ParseRelease(e.Version) // [job.whose] says so where it cannot be read
			return s, release
		}
	}
	if e.Name == "transformers" {
		if release, err := modules.ParseRelease(e.Version); err == nil && release.Major < programsOf {
			return modules.Transformers, release
		}
	}
	return modules.Transformers, modules.Release{}
}

// whose is the software whose modules are not those that have programs; empty
// where they are.
func (j *job) whose() string {
	e := j.in.Workload.Engine
	own, _ := j.software()
	switch e.Name {
	case "", "eager", "transformers", trlEngine, string(own): // TRL's trainers run the modules of transformers
	default:
		return e.Name
	}
	release, err := modules.ParseRelease(e.Version)
	switch {
	case e.Name == "" || e.Name == "eager":
	case err != nil:
		return e.Name + " " + e.Version + " (" + err.Error() + ")"
	case e.Name != trlEngine && own.Beyond(release):
		return e.Name + " " + e.Version + " (a release that nobody has read)"
	}
	if own != modules.Transformers {
		return ""
	}
	if _, release := j.software(); !modules.Recorded(j.in.Model, release) {
		return "transformers " + e.Version
	}
	if besideCheckpoint(j.in.Model.Type) {
		return "code beside the checkpoint"
	}
	return ""
}

// earlier reports a release of transformers before release 5.
func (j *job) earlier() bool {
	own, release := j.software()
	return own == modules.Transformers && release != (modules.Release{})
}

// trlEngine is the engine whose release is that of TRL.
const trlEngine = "trl"

// objective is the loss of a trainer of TRL, at the release of the engine; nil for the
// class's own.
func (j *job) objective() *modules.Objective {
	o := j.train.Objective
	if o == nil || !j.trains() {
		return nil
	}
	made := &modules.Objective{Method: modules.Method(o.Method), Autocast: j.train.Autocast}
	if e := j.in.Workload.Engine; e.Name == trlEngine {
		made.Release, _ = modules.ParseRelease(e.Version) // [job.whose] says so where it cannot be read
	}
	switch {
	case o.Reference == workload.ReferencePrecomputed:
		made.Reference = modules.Precomputed
	case o.Reference == workload.ReferenceAdapterOff, o.Reference == "" && j.train.Tuning != nil:
		made.Reference = modules.AdapterOff
	}
	return made
}

// besideCheckpoint reports a model_type whose class is no part of transformers:
// its code lies beside the checkpoint (trust_remote_code).
func besideCheckpoint(modelType string) bool {
	switch modelType {
	case "chatglm", "internlm", "internlm2", "baichuan", "xverse", "exaone", "minicpm":
		return true
	}
	return false
}

// hasOwn reports software with modules and a loop of its own.
func (j *job) hasOwn() bool {
	own, _ := j.software()
	return own != modules.Transformers
}

// choosesOperators reports checkpointing that keeps the results of operators that the
// software chooses.
func (j *job) choosesOperators() bool {
	own, _ := j.software()
	return own == modules.TorchTitan && j.train.Checkpointing.Kind == workload.SelectiveCheckpointing
}

// compilesLayers reports torch.compile of each layer by itself, which has a program.
func (j *job) compilesLayers() bool {
	own, _ := j.software()
	return own == modules.TorchTitan && j.has(workload.TorchCompile)
}

// hooksLayers reports hooks on each layer, at which torch.compile of a whole model ends
// a graph.
func (j *job) hooksLayers() bool {
	s := j.sharing()
	return s != nil && s.Kind == workload.FSDP2
}

// reordered is what a compiled backward leaves open. What is requested is open beside
// its blocks alone, which run from a moment on: what stood higher before them stays the
// peak until it is reached.
// What the allocator reserves is open by the whole of it, since another order of sizes
// finds other blocks in the cache.
func (j *job) reordered(index int32, from int) {
	tokens, _ := j.tokens()
	whole := j.ops.net.Reordered(tokens)
	open := max(0, whole-j.below(j.tl.Phases[index], from))
	p := requested(operatorFormula)
	if open > 0 {
		j.bound(j.term(account.TermTemporaries, account.CategoryTemporary, p), int(index), index, account.Between(0, open, p))
	}
	if whole > open {
		p.Scope = account.Reserved
		j.tl.Hold(account.TermAllocatorCache, account.CategoryAllocatorCache, int(index), index, account.Between(0, whole-open, p))
	}
}

// below is how far what is requested stays below a span's peak from a moment on.
func (j *job) below(s timeline.Span, from int) int64 {
	var level, peak int64
	later := int64(math.MinInt64)
	for moment := s.First; moment < s.Last; moment++ {
		level += j.tl.Delta(j.tl.Events[moment])
		peak = max(peak, level)
		if moment >= from {
			later = max(later, level)
		}
	}
	return peak - max(later, level)
}

// loss is how the loop computes the loss: what the workload says, else what the
// configurations of the release have.
func (j *job) loss() modules.Loss {
	switch j.train.Loss {
	case workload.PlainLoss:
		return modules.PlainLoss
	case workload.ChunkedLoss:
		return modules.ChunkedLoss
	case workload.GatheredLoss:
		return modules.GatheredLoss
	}
	own, release := j.software()
	return own.Loss(release)
}
