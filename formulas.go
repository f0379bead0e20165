package floodmark

import (
	"floodmark/account"
	"floodmark/estimate"
	"floodmark/estimate/eager"
	"floodmark/estimate/llamacpp"
	"floodmark/estimate/megatron"
	"floodmark/estimate/training"
	"floodmark/estimate/vllm"
)

// EngineFormulas are the rules by which an estimator calculates.
type EngineFormulas struct {
	Engine   string
	What     string // a sentence on what it predicts
	Formulas []account.Formula
}

// Formulas lists the rules of every estimator, each with its source and a worked
// number. A figure of an estimate names its rule by id.
func Formulas() []EngineFormulas {
	list := []EngineFormulas{}
	for _, e := range []struct {
		engine estimate.Engine
		what   string
	}{
		{eager.Engine{}, "Generation and evaluation in plain PyTorch, and serving engines in general."},
		{training.Engine{}, "Training in plain PyTorch, on one rank and over data-parallel ranks."},
		{vllm.Engine{}, "vLLM, by the rules of its version."},
		{llamacpp.Engine{}, "llama.cpp and Ollama, by the rules of their build."},
		{megatron.Engine{}, "Training in Megatron-LM, stage by stage."},
	} {
		list = append(list, EngineFormulas{e.engine.Name(), e.what, e.engine.Formulas()})
	}
	return list
}
