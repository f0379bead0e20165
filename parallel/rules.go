package parallel

import (
	"fmt"

	"floodmark/model"
	"floodmark/workload"
)

// Rules are what differs between engines when they divide a model. Everything
// else is common to them: columns of q, k, v, gate and up, rows of o and down,
// rows of the vocabulary; norms, routers and the down-projections of latent
// attention on every rank (Megatron-LM, arXiv:1909.08053).
type Rules struct {
	Name   string
	Source string
	// VocabularyMultiple is the multiple to which the vocabulary is padded; 0 or 1
	// for none. With PerRank it is a multiple for each tensor-parallel rank.
	VocabularyMultiple int64
	PerRank            bool
	// Chunks is how many pieces of the layers each stage runs, in turn with the other
	// stages (virtual stages); 0 and 1 are one.
	Chunks int
	// Layers is how many of a model's layers each piece has, in the order of the
	// model; nil divides them evenly.
	Layers func(layers int) ([]int, error)
	// EvenStages refuses layers that the pipeline does not divide evenly.
	EvenStages bool
	// ExpertTensor divides each routed expert by tensor parallelism as well when
	// experts are divided; else an expert is whole then.
	ExpertTensor bool
	// PipelineOutermost numbers ranks so that stages are furthest apart; else data
	// replicas are.
	PipelineOutermost bool
	// Predictors keeps the layers of multi-token prediction, which engines load
	// only for speculation or training.
	Predictors bool
	// WholeProjectors lists the types of models whose projector each rank holds whole.
	WholeProjectors []string
}

// Plain is a division that pads nothing, with vLLM's rule for layers that the
// pipeline does not divide evenly.
func Plain() Rules {
	return Rules{Name: "plain", Source: "https://github.com/vllm-project/vllm/blob/v0.11.0/vllm/distributed/utils.py"}
}

// VLLM pads the vocabulary to 64 rows and divides experts whole.
func VLLM() Rules {
	// https://github.com/vllm-project/vllm/blob/v0.19.0/vllm/model_executor/models/kimi_vl.py
	return Rules{Name: "vllm", VocabularyMultiple: 64, WholeProjectors: []string{"kimi_vl"},
		Source: "https://github.com/vllm-project/vllm/blob/v0.11.0/vllm/model_executor/layers/vocab_parallel_embedding.py"}
}

// Megatron pads the vocabulary to 128 rows a tensor-parallel rank and divides
// each expert by tensor parallelism too.
func Megatron() Rules {
	return Rules{Name: "megatron", VocabularyMultiple: 128, PerRank: true, EvenStages: true, ExpertTensor: true, PipelineOutermost: true, Predictors: true,
		Source: "https://github.com/NVIDIA/Megatron-LM/blob/core_v0.14.0/megatron/training/tokenizer/tokenizer.py"}
}

// NotModelled is a [*NotSupportedError] of what may run.
func NotModelled(format string, a ...any) error {
	return &NotSupportedError{Rule: fmt.Sprintf(format, a...), Unmodelled: true}
}

func notSupported(format string, a ...any) error {
	return &NotSupportedError{Rule: fmt.Sprintf(format, a...)}
}

// check refuses meshes that no model could have.
func (r Rules) check(m *model.Model, mesh workload.Mesh) error {
	if _, fits := count(mesh); !fits {
		return NotModelled("a mesh of more than %d ranks is not supported", mostRanks)
	}
	group, of := mesh.TensorParallel*mesh.DataParallel, "tensor × data parallelism"
	if r.ExpertTensor {
		group, of = mesh.DataParallel*mesh.ContextParallel, "data × context parallelism"
	}
	if group%mesh.ExpertParallel != 0 {
		return notSupported("expert parallelism of %d must divide %s of %d, whose ranks it reuses", mesh.ExpertParallel, of, group)
	}
	if mesh.PipelineParallel == 1 {
		return nil
	}
	main := mainStack(m)
	if main < 0 {
		return notSupported("a model without layers cannot be divided into %d pipeline stages", mesh.PipelineParallel)
	}
	for i, s := range m.Stacks {
		if int32(i) != main && (s.Kind == model.Encoder || s.Kind == model.Decoder) {
			return NotModelled("pipeline stages over more than one stack of text (%s and %s) are not modelled", m.Stacks[main].Name, s.Name)
		}
	}
	return nil
}

// stages is how many layers each pipeline stage runs. What does not divide
// evenly goes one each to the last stages before the last, which has the head
// (get_pp_indices of vllm/distributed/utils.py). Worked number: 61 layers over
// 4 stages are 15, 15, 16, 15.
func (r Rules) stages(layers, stages int) ([]int, error) {
	if r.Layers != nil {
		return r.declared(layers, stages)
	}
	if layers < stages {
		return nil, notSupported("%d layers cannot be divided into %d pipeline stages: each stage runs one at least", layers, stages)
	}
	rest := layers % stages
	if rest != 0 && r.EvenStages {
		return nil, notSupported("%d layers are not a multiple of %d pipeline stages", layers, stages)
	}
	counts := make([]int, stages)
	for i := range counts {
		counts[i] = layers / stages
	}
	for i := range rest {
		counts[stages-2-i]++
	}
	return counts, nil
}

// declared is the layers of each piece as they were declared.
func (r Rules) declared(layers, pieces int) ([]int, error) {
	counts, err := r.Layers(layers)
	if err != nil {
		return nil, err
	}
	sum, least := 0, 0
	for _, n := range counts {
		sum += n
		least = min(least, n)
	}
	if len(counts) != pieces || sum != layers || least < 0 {
		return nil, notSupported("%d layers over %d pieces are declared as %v", layers, pieces, counts)
	}
	return counts, nil
}

// vocabulary is the rows of the vocabulary with padding. Worked numbers: vLLM
// pads 32,001 to 32,064; Megatron pads 50,257 over 8 ranks to 51,200.
func (r Rules) vocabulary(rows int64, tensor int) int64 {
	multiple := max(1, r.VocabularyMultiple)
	if r.PerRank {
		multiple *= int64(tensor)
	}
	return (rows + multiple - 1) / multiple * multiple
}

// ranks lists the ranks of one stage, in order.
func (r Rules) ranks(mesh workload.Mesh, stage int) []int {
	inner, outer := mesh.TensorParallel*mesh.ContextParallel, mesh.DataParallel
	if r.PipelineOutermost {
		inner, outer = inner*mesh.DataParallel, 1
	}
	ranks := make([]int, 0, inner*outer)
	for o := range outer {
		for i := range inner {
			ranks = append(ranks, (o*mesh.PipelineParallel+stage)*inner+i)
		}
	}
	return ranks
}
