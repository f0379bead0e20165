package parallel

import "floodmark/workload"

// Pipeline is a schedule over the stages of a pipeline: how many micro-batches go
// through how many pieces of each stage, and how many of them one after another before
// the next piece has its turn.
type Pipeline struct {
	Kind                         workload.ScheduleKind
	Stages, Micro, Chunks, Group int64
}

// Pass is one micro-batch through one piece of a stage: forward, or backward.
type Pass struct {
	Backward bool
	Chunk    int
}

// Order is the passes of one step on one stage, as Megatron-LM and PyTorch order them
// (megatron/core/pipeline_parallel/schedules.py; torch/distributed/pipelining/schedules.py,
// whose 1F1B begins with one forward more and a backward, which is the same). Worked
// number: stage 0 of 4 with 8 micro-batches runs 3 forwards, 5 times a forward and a
// backward, and 3 backwards.
func (p Pipeline) Order(stage int64) []Pass {
	chunks := max(1, p.Chunks)
	warmup := min(p.Stages-stage-1, p.Micro)
	switch {
	case p.Kind == workload.GPipe:
		warmup = p.Micro
	case chunks > 1:
		warmup = min(2*(p.Stages-stage-1)+(chunks-1)*p.Group, p.Micro*chunks)
	}
	total := p.Micro * chunks
	var list []Pass
	for k := range warmup {
		list = append(list, Pass{Chunk: p.chunkOf(k)})
	}
	for k := warmup; k < total; k++ {
		list = append(list, Pass{Chunk: p.chunkOf(k)}, Pass{Backward: true, Chunk: int(chunks) - 1 - p.chunkOf(k-warmup)})
	}
	for k := total - warmup; k < total; k++ {
		list = append(list, Pass{Backward: true, Chunk: int(chunks) - 1 - p.chunkOf(k)})
	}
	return list
}

// chunkOf is the piece that the k-th pass of a stage runs: a group of micro-batches
// through each piece in turn, and what is left of them last.
func (p Pipeline) chunkOf(k int64) int {
	if p.Chunks <= 1 {
		return 0
	}
	first := k / (p.Group * p.Chunks) * p.Group
	return int((k - first*p.Chunks) / min(p.Group, p.Micro-first))
}
