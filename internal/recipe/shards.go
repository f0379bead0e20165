package recipe

import (
	"errors"
	"fmt"
	"strings"

	"floodmark/dtype"
	"floodmark/workload"
)

// world is how many processes train; 0 where nobody says it.
func (p *plan) world() int64 {
	if n := p.number("processes"); n > 0 {
		return n
	}
	if n := p.number("processes_per_node"); n > 0 {
		return n * max(1, p.number("nodes"))
	}
	return 0
}

// alone is files without the command that starts them: the programs of some softwares
// start a process for each device by themselves, so that a file of theirs that says no
// number means as many as there are (LLaMA-Factory's launcher with torchrun; axolotl and
// TRL with accelerate launch). A script with a Trainer is started by one of the launchers
// too where there are several devices, and its file does not say which.
func (p *plan) alone() {
	if p.text("sharding") == "no" { // of accelerate: one process
		return
	}
	switch p.methodByKeys(); {
	case p.exports(): // one process
	case p.software == "llamafactory":
		p.every = "llamafactory-cli train"
	case p.software == "axolotl":
		p.every = "axolotl train"
	case p.software == "transformers" && p.method != "":
		p.every = "trl " + p.method
	case p.software == "transformers" && p.trainer:
		p.every = "accelerate launch"
	}
}

// lays divides the processes over the kinds of parallelism: what tensor, pipeline
// and context parallelism leave is data-parallel.
func (p *plan) lays() {
	m := &p.workload.Mesh
	degree := func(f field) int {
		n := p.number(f)
		if n > workload.MaxDegree {
			p.open(p.where(f), "no machine has so many ranks")
		}
		return int(min(max(1, n), workload.MaxDegree))
	}
	m.TensorParallel, m.PipelineParallel = degree("tensor_parallel"), degree("pipeline_parallel")
	m.ContextParallel, m.ExpertParallel = degree("context_parallel"), degree("expert_parallel")
	within := int64(m.TensorParallel) * int64(m.PipelineParallel) * int64(m.ContextParallel)
	world := p.world()
	switch {
	case world == 0:
		m.DataParallel = int(min(int64(degree("replicas"))*int64(degree("shards")), workload.MaxDegree))
		for m.TensorParallel*m.DataParallel%m.ExpertParallel != 0 && m.DataParallel < workload.MaxDegree { // experts are divided over those ranks
			m.DataParallel++
		}
		p.derive("processes", m.DataParallel*int(within), "nobody says how many: the fewest")
		if p.shards() != "" || within > 1 || p.every != "" {
			said := "is not said"
			if p.every != "" {
				said += ", and " + p.every + " starts one for each device"
			}
			fewest := "one data-parallel rank is counted"
			if ranks := m.DataParallel * int(within); ranks > 1 {
				fewest = fmt.Sprintf("the fewest are counted: %d, with data-parallel %d", ranks, m.DataParallel)
			}
			p.assume("data-parallel", "how many processes train together "+said+": "+fewest+" (give --data-parallel, or the command with torchrun --nproc_per_node)")
		}
		return
	case world%within != 0:
		p.refuses(p.processes(), ranksOf(int64(m.TensorParallel), int64(m.PipelineParallel), int64(m.ContextParallel)))
		m.DataParallel = 1
	default:
		m.DataParallel = int(min(world/within, workload.MaxDegree))
	}
	p.recipe.Devices = int(min(world, workload.MaxDegree))
	p.batches(int64(m.DataParallel))
}

// processes is the field that says how many processes train.
func (p *plan) processes() field {
	if p.said("processes") {
		return "processes"
	}
	return "processes_per_node"
}

// ranksOf is what the number of processes is a multiple of.
func ranksOf(tensor, stages, context int64) string {
	return fmt.Sprintf("a multiple of the %d × %d × %d ranks of tensor, pipeline and context parallelism", tensor, stages, context)
}

// batches settles micro-batch, accumulation and the batch of all ranks, of which
// each follows from the other two (DeepSpeed, Megatron: global = micro ×
// accumulation × data-parallel ranks).
func (p *plan) batches(ranks int64) {
	global, micro := p.number("global_batch"), p.number("micro_batch")
	t := p.workload.Training
	switch {
	case global <= 0 || t == nil || p.grows():
	case micro > 0 && t.Accumulation == 0 && global%(micro*ranks) == 0:
		t.Accumulation = global / (micro * ranks)
		p.derive("accumulation", t.Accumulation, fmt.Sprintf("%d ÷ (%d × %d ranks), of %s", global, micro, ranks, p.where("global_batch")))
	case micro <= 0 && global%(max(1, t.Accumulation)*ranks) == 0:
		micro = global / (max(1, t.Accumulation) * ranks)
		p.otherwise("micro_batch", micro, fmt.Sprintf("%d ÷ (%d × %d ranks), of %s", global, max(1, t.Accumulation), ranks, p.where("global_batch")))
		p.inputs(workload.MicroBatch, micro)
	case micro <= 0:
		p.refuses("global_batch", fmt.Sprintf("a multiple of %d × %d ranks, of the accumulation", max(1, t.Accumulation), ranks))
	case t.Accumulation == 0:
		p.refuses("global_batch", fmt.Sprintf("a multiple of %d × %d ranks, of the micro-batch", micro, ranks))
	case global != micro*t.Accumulation*ranks:
		p.refuses("global_batch", fmt.Sprintf("%d: a micro-batch of %d × accumulation of %d × %d ranks", micro*t.Accumulation*ranks, micro, t.Accumulation, ranks))
	}
}

// ranked settles what follows from a number of data-parallel ranks that is said beside
// the files: batches, and the groups that divide one copy.
func (p *plan) ranked(w *workload.Workload) error {
	within := max(1, w.Mesh.TensorParallel) * max(1, w.Mesh.PipelineParallel) * max(1, w.Mesh.ContextParallel)
	p.otherwise("processes", int64(within)*int64(w.Mesh.DataParallel), "--data-parallel")
	micro, _ := w.Dimension(workload.MicroBatch)
	known := len(p.derived)
	p.workload = *w
	cut := p.software == "torchtitan" && w.Mesh.PipelineParallel > 1 // into the micro-batches of its pipeline
	if micro == p.number("micro_batch") && !cut {                    // else a flag or a rule says another
		p.batches(int64(w.Mesh.DataParallel))
	}
	p.replicates()
	*w = p.workload
	p.recipe.Declared = append(p.recipe.Declared, p.derived[known:]...)
	return p.err
}

// replicates checks the replicas and parts that are said, and divides the states by them.
func (p *plan) replicates() {
	if t := p.workload.Training; t != nil && (p.said("replicas") || p.said("shards")) {
		s := &workload.Sharding{}
		if t.Sharding != nil && (t.Sharding.Kind == workload.FSDP1 || t.Sharding.Kind == workload.FSDP2) {
			s = t.Sharding
		}
		p.groups(s)
	}
}

// grows reports a batch that grows while it trains, of which the last is said.
func (p *plan) grows() bool { return p.given("rampup_batch_size") }

// given reports a key that says something.
func (p *plan) given(key string) bool {
	s, said := p.keys[key]
	return said && !empty(s.value)
}

// inputs sets one dimension of the inputs.
func (p *plan) inputs(d workload.Dimension, n int64) {
	if len(p.workload.Inputs) == 0 {
		p.workload.Inputs = []workload.Input{{Name: "recipe", Dimensions: map[workload.Dimension]int64{}}}
	}
	p.workload.Inputs[0].Dimensions[d] = n
}

// shards is how states are divided: "deepspeed", "fsdp", or empty.
func (p *plan) shards() string {
	switch kind := p.text("sharding"); {
	case p.said("zero_stage"), kind == "deepspeed":
		return "deepspeed"
	case kind == "fsdp", p.said("fsdp_strategy"), p.said("fsdp_version"):
		return "fsdp"
	}
	return ""
}

// divides says how data-parallel ranks divide the states, of software that runs on
// accelerate.
func (p *plan) divides(t *workload.Train) {
	switch p.shards() {
	case "deepspeed":
		t.Sharding = p.zero()
	case "fsdp":
		t.Sharding = p.fsdp()
	default:
		p.replicates()
		if p.workload.Mesh.DataParallel > 1 {
			t.Sharding = &workload.Sharding{Kind: workload.DDP, BucketBytes: max(-1, p.elements("bucket_mb")<<20)}
			p.derive("sharding", workload.DDP, "several processes, and nothing that divides states")
		}
	}
}

// groups is how many ranks share one copy where groups of them replicate each other:
// those that are said (shards), or what the replicas leave; ranks of context
// parallelism divide the states too (torchtitan, distributed/parallel_dims.py). Worked
// number: 16 ranks in 2 replicas share one copy in groups of 8.
func (p *plan) groups(s *workload.Sharding) {
	ranks, replicas, shards := int64(p.workload.Mesh.DataParallel), p.number("replicas"), p.number("shards")
	by := field("replicas")
	if !p.said(by) || replicas < 1 {
		by, replicas = "shards", 1
		if shards > 0 && p.software == "axolotl" { // others have one replica unless they are told
			replicas = ranks / shards
		}
	}
	switch {
	case p.world() == 0 && shards < 1:
		return // nobody said how many ranks there are
	case replicas > 0 && (shards < 1 || shards*replicas == ranks) && ranks%replicas == 0:
	case p.world() == 0 || p.software == "axolotl" && p.workload.Mesh.ExpertParallel > 1:
		// the ranks were counted, and nobody said them; or axolotl takes those of experts off
		p.open(p.where(by), fmt.Sprintf("%d data-parallel ranks are not %d replicas of %d parts", ranks, replicas, max(1, shards)))
		return
	case by == "shards" || replicas == 1:
		p.refuses("shards", fmt.Sprintf("replicas of parts that make up the %d data-parallel ranks", ranks))
		return
	default:
		p.refuses(by, fmt.Sprintf("replicas × parts that are the %d data-parallel ranks, not %d × %d", ranks, replicas, max(1, shards)))
		return
	}
	switch group := ranks / replicas; {
	case replicas == 1:
	case group == 1:
		p.open(p.where(by), "every rank has all parts: what replicas exchange then, and in which format, is not modelled")
	default:
		s.Group = group * int64(max(1, p.workload.Mesh.ContextParallel))
		p.derive("shard-group", s.Group, p.where(by))
	}
}

// elements is a count of a sharding: -1 where 0 is said, which is no default.
func (p *plan) elements(f field) int64 {
	if n := p.number(f); n != 0 || !p.said(f) {
		return n
	}
	return -1
}

// zero is DeepSpeed's ZeRO by its stage and its buffers.
func (p *plan) zero() *workload.Sharding {
	s := &workload.Sharding{
		Group: max(0, p.number("shard_group")), ReduceBucket: p.elements("reduce_bucket"), GatherBucket: p.elements("gather_bucket"),
		Prefetch: p.elements("prefetch"), Persistence: p.elements("persistence"), MostLive: p.elements("most_live"), ReduceFormat: p.format("reduce_format"),
	}
	stage := p.number("zero_stage")
	switch {
	case !p.said("zero_stage") || stage == 0:
		s.Kind = workload.DDP
	default:
		s.Kind = []workload.ShardingKind{workload.ZeRO1, workload.ZeRO2, workload.ZeRO3}[min(stage, 3)-1]
	}
	if p.said("overlap") {
		on := p.yes("overlap")
		s.Overlap = &on
	}
	for _, o := range []struct {
		field field
		state workload.OffloadedState
	}{{"offload_optimizer", workload.OffloadOptimizer}, {"offload_parameters", workload.OffloadParameters}} {
		switch where := p.text(o.field); where {
		case "", "none", "false":
		case "cpu", "true":
			s.Offload = append(s.Offload, o.state)
		default:
			p.open(p.where(o.field), "states on "+where+" are not modelled: in main memory they are counted")
			s.Offload = append(s.Offload, o.state)
		}
	}
	if s.Kind != workload.ZeRO3 {
		s.Group = 0 // MiCS and hpZ are of the third stage
		return s
	}
	p.second(s)
	return s
}

// second is the copy that ZeRO++ keeps for backward, over no more ranks than there are
// (utils/groups.py, _create_zero_param_parallel_group).
func (p *plan) second(s *workload.Sharding) {
	n, ranks := p.number("secondary_group"), p.world()
	switch {
	case n < 2:
	case s.Group > 0:
		p.open(p.where("secondary_group"), "a second copy beside groups that replicate each other (mics_shard_size) is not modelled")
	case ranks > n && ranks%n != 0:
		p.refuses("secondary_group", fmt.Sprintf("a divisor of the %d ranks", ranks))
	default:
		s.Secondary = n
	}
}

// fsdp is PyTorch's FSDP, first or second kind, as accelerate asks for it.
func (p *plan) fsdp() *workload.Sharding {
	s := &workload.Sharding{Kind: workload.FSDP1}
	if p.number("fsdp_version") == 2 {
		s.Kind = workload.FSDP2
	}
	switch way := strings.ToLower(p.text("fsdp_strategy")); way {
	case "", "full_shard", "true", "1", "always", "default":
	case "shard_grad_op", "false", "2", "never":
		s.KeepsGathered = true
	case "no_shard", "3":
		s.Kind = workload.DDP
		p.open(p.where("fsdp_strategy"), "FSDP without shards keeps flat copies that are not modelled")
	case "hybrid_shard", "4", "hybrid_shard_zero2", "5":
		s.KeepsGathered = way == "hybrid_shard_zero2" || way == "5"
		if s.Group = p.number("processes_per_node"); s.Group == 0 {
			p.open(p.where("fsdp_strategy"), "states are divided within a machine, and how many ranks one has is not said")
		}
	default:
		p.open(p.where("fsdp_strategy"), "the strategy "+way+" is not known here")
	}
	if s.Group == 0 && s.Kind != workload.DDP {
		p.groups(s)
	}
	if p.yes("fsdp_offload") {
		s.Offload = []workload.OffloadedState{workload.OffloadOptimizer, workload.OffloadParameters}
	}
	return s
}

// format is a format by any of its names; one that is none leaves it open.
func (p *plan) format(f field) dtype.Format {
	text := strings.ToLower(strings.TrimPrefix(p.text(f), "torch."))
	switch text {
	case "":
		if said := p.facts[f]; p.said(f) && p.err == nil {
			p.err = wrongValue(setting{file: said.file, key: said.key, written: said.key}, errors.New("is empty, expected a format such as bf16 or fp32"), "")
		}
		return dtype.Unknown
	case "auto":
		return dtype.Unknown
	case "half":
		return dtype.F16
	case "float":
		return dtype.F32
	}
	parsed, known := dtype.Parse(text)
	if !known {
		p.lowers(p.where(f), "the format "+text+" is not known here")
	}
	return parsed
}

// ofWidth is what the Trainer puts in place of "auto" in a DeepSpeed file: the buckets
// follow the model's width (transformers/integrations/deepspeed.py,
// trainer_config_finalize). Worked number: of width 4,096, a bucket of 16,777,216
// elements, 15,099,494 ahead, and parameters below 40,960 left whole.
func ofWidth(auto []string) func(*workload.Workload, int64) {
	return func(w *workload.Workload, hidden int64) {
		if w.Training == nil || w.Training.Sharding == nil || hidden <= 0 || hidden > 1<<24 {
			return
		}
		t, s := *w.Training, *w.Training.Sharding
		for _, key := range auto {
			switch key {
			case "reduce_bucket_size":
				s.ReduceBucket = hidden * hidden
			case "stage3_prefetch_bucket_size":
				s.Prefetch = hidden * hidden * 9 / 10
			case "stage3_param_persistence_threshold":
				s.Persistence = 10 * hidden
			}
		}
		t.Sharding, w.Training = &s, &t
	}
}
