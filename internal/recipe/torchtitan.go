package recipe

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"floodmark/workload"
)

// torchtitan resolves a file of torchtitan: parameters in training.dtype that
// fully_shard divides, gathered in mixed_precision_param and reduced in
// mixed_precision_reduce (torchtitan/distributed and models/llama3/infra/parallelize.py).
// Source: torchtitan at 238fa9953e4a, the last with files.
func (p *plan) torchtitan() {
	const by = "default of torchtitan"
	p.otherwise("context", int64(2048), by)
	p.otherwise("micro_batch", int64(8), by)
	p.otherwise("weights_format", "float32", by)
	p.otherwise("compute_format", "bfloat16", by)
	p.otherwise("reduce_format", "float32", by)
	p.otherwise("activation_checkpointing", "selective", by)
	p.otherwise("optimizer", "AdamW", by)
	t := p.train()
	p.workload.Engine = workload.Engine{Name: "torchtitan"}
	p.titanModel()
	p.titanCheckpoints(t)
	implementation := p.text("granularity") // of the optimizer: fused, foreach, for-loop
	switch {
	case implementation != "":
	case p.said("fused") && !p.yes("fused"):
		implementation = "foreach" // optimizer.fused of 2024 (torchtitan/optimizer.py)
	default:
		implementation = "fused"
	}
	p.optimizes(t, strings.ToLower(p.text("optimizer")), implementation)
	if p.lays(); remains(p.number("context"), 2*p.atLeastOne("context_parallel")) && p.number("context_parallel") > 1 {
		p.refuses("context", fmt.Sprintf("a multiple of twice the context parallelism of %d", p.number("context_parallel")))
	}
	format := p.format("weights_format")
	p.plain(format, p.where("weights_format")+": all that torchtitan trains is in it")
	p.workload.Precision.Compute = p.format("compute_format")
	t.Sharding = &workload.Sharding{Kind: workload.FSDP2, ReduceFormat: p.format("reduce_format"), KeepsGathered: p.text("fsdp_strategy") == "never"}
	if p.yes("fsdp_offload") {
		t.Sharding.Offload = []workload.OffloadedState{workload.OffloadOptimizer, workload.OffloadParameters}
	}
	p.groups(t.Sharding)
	if p.yes("gathered_loss") && p.workload.Mesh.TensorParallel > 1 {
		t.Loss = workload.GatheredLoss
	}
	p.titanFeatures()
	p.titanPipeline(t)
	p.titanValidates()
}

// titanFeatures is products in 8 bits, of which the matrices are gathered in 8 bits too
// where ranks divide them, and exchanges of tensor-parallel ranks beside products, which
// torch.compile makes (torchtitan/float8.py and parallelize_llama.py at 9dec370).
func (p *plan) titanFeatures() {
	w := &p.workload
	if p.yes("float8_linear") {
		w.Features = append(w.Features, workload.FP8Compute)
		if p.yes("float8_gather") {
			w.Features = append(w.Features, workload.FP8Gather)
		}
	}
	if p.yes("async_tensor_parallel") && w.Mesh.TensorParallel > 1 {
		w.Features = append(w.Features, workload.AsyncTensorParallel)
	}
}

func (p *plan) titanModel() {
	if folder := strings.TrimSuffix(p.text("assets"), "/"); folder != "" {
		if _, err := p.files(path.Join(folder, "config.json")); err == nil {
			p.recipe.Models = append(p.recipe.Models, folder)
		}
	}
	own := p.text("model_builder") + "." + p.text("model_flavor")
	if name := named("torchtitan", own); name != "" {
		p.recipe.Models = append(p.recipe.Models, name)
		p.derive("model", name, p.where("model_flavor")+": what "+own+" is")
	}
}

// titanCheckpoints reads the mode, and of the selective one which layers: every n-th,
// which is every second where nobody says it (selective_ac_option of config_manager.py
// since March 2024), or all by operators. The releases since February 2026, which have no
// files, choose by operators alone.
func (p *plan) titanCheckpoints(t *workload.Train) {
	switch mode := p.text("activation_checkpointing"); {
	case mode == "none":
	case mode != "selective":
		p.checkpoints(t)
	case p.text("titan_layers") == "op":
		t.Checkpointing = workload.Checkpointing{Kind: workload.SelectiveCheckpointing}
	default:
		p.otherwise("titan_layers", "2", "default of torchtitan")
		n, err := strconv.Atoi(p.text("titan_layers"))
		if err != nil || n < 0 {
			p.refuses("titan_layers", "op, or every how many layers")
		}
		t.Checkpointing = workload.Checkpointing{Kind: workload.EveryCheckpointing, Every: max(1, n)}
	}
}

func (p *plan) titanPipeline(t *workload.Train) {
	if p.workload.Mesh.PipelineParallel == 1 {
		return
	}
	defer p.titanCuts(t)
	switch name := strings.ToLower(p.text("pipeline_schedule")); name {
	case "", "1f1b":
		t.Schedule.Kind = workload.OneFOneB
	case "gpipe":
		t.Schedule.Kind = workload.GPipe
	case "interleaved1f1b", "interleaved_1f1b":
		t.Schedule = workload.Schedule{Kind: workload.Interleaved1F1B, Chunks: 2}
		if p.titanParallelism() { // before, there were two (generate_split_points of pipelining_utils.py at 9dec370)
			p.open(p.where("pipeline_schedule"), "how many pieces a stage has follows from the layers: two are counted")
		}
	default:
		p.lowersPasses(p.where("pipeline_schedule"), "the schedule "+name+" is not modelled: 1f1b is counted")
		t.Schedule.Kind = workload.OneFOneB
	}
}

// titanParallelism reports a file with a section for parallelism, as since March 2025.
func (p *plan) titanParallelism() bool {
	return strings.HasPrefix(strings.TrimLeft(p.facts["pipeline_parallel"].key, "-"), "parallelism.")
}

// titanCuts cuts the batch of a rank into the micro-batches of its pipeline: of
// pipeline_parallel_microbatch_size sequences, which is 1 where nobody says it, and
// until April 2025 into as many as pipeline_parallel_microbatches says, or as there are
// stages (build_pipeline_schedule of torchtitan/distributed/pipeline.py at d0ed9b4239e7,
// torchtitan/parallelisms/pipeline.py at 57387af0e0e6); of an interleaved schedule as
// there are ranks until 2025-01-06, and since then as there are pieces (commit
// 90567fc98). Worked number: a batch of 8 is 8 micro-batches of 1, and over 4 stages of
// 2024 4 of 2.
func (p *plan) titanCuts(t *workload.Train) {
	batch, pieces := p.number("micro_batch"), p.number("pipeline_microbatches")
	by := field("pipeline_microbatches")
	switch {
	case t.Accumulation > 1:
		p.open(p.where("global_batch"), "batches that add up before a step, each through the whole pipeline, are not modelled")
		return
	case pieces > 0:
	case !p.titanParallelism():
		by, pieces = "pipeline_parallel", int64(p.workload.Mesh.PipelineParallel)
		if t.Schedule.Chunks > 1 {
			p.open(p.where("pipeline_schedule"), "as many micro-batches as ranks of the pipeline are counted, as until 2025-01-06; since then there are as many as pieces")
		}
	default:
		by, pieces = "micro_batch", batch/max(1, p.number("pipeline_microbatch_size"))
		if p.said("pipeline_microbatch_size") {
			by = "pipeline_microbatch_size"
		}
	}
	if pieces < 1 || batch%pieces != 0 {
		if by == "pipeline_parallel" { // nobody said into how many
			p.open(p.where(by), fmt.Sprintf("a batch of %d is not cut into %d equal micro-batches", batch, pieces))
			return
		}
		p.refuses(by, fmt.Sprintf("a batch of %d that is cut into equal micro-batches, not into %d", batch, pieces))
		return
	}
	t.Accumulation = pieces
	p.inputs(workload.MicroBatch, batch/pieces)
	p.derive("accumulation", pieces, fmt.Sprintf("%s: the micro-batches of %d that the pipeline cuts a batch of %d into", p.where(by), batch/pieces, batch))
}
