package llamacpp

import (
	"floodmark/account"
	"floodmark/estimate/outside"
	"floodmark/estimate/state"
)

// The ids of the rules that figures of this package name.
const (
	weightsFormula = "llamacpp.weights"
	computeFormula = "llamacpp.compute"

	cacheSource = "https://github.com/ggml-org/llama.cpp/blob/02c28f533ebba3e4ea944fc4a0719a012b3e7097/src/llama-kv-cache-iswa.cpp"
	modelSource = "https://github.com/ikawrakow/ik_llama.cpp/discussions/334"
	graphSource = "https://github.com/ikawrakow/ik_llama.cpp/pull/370"
)

func provenance(formula string, s account.Scope) account.Provenance {
	p := account.Provenance{Origin: account.Calculated, Scope: s, Counter: formula, Source: graphSource}
	if formula == weightsFormula {
		p.Source = modelSource
	}
	return p
}

// formulas lists the rules, and those of what stands around them.
func formulas() []account.Formula {
	list := []account.Formula{
		{ID: weightsFormula, Short: "stored tensors but the token embeddings", Source: modelSource,
			Rule:   "the stored bytes of every tensor of the device; the table of token embeddings stays in main memory, and is on the device once more where the head is tied to it",
			Worked: "GLM-Z1-32B: 16,775.23 MiB in the file, of which 471.75 of embeddings stay: 16,303.48"},
		{ID: computeFormula, Short: "largest graph: logits, or scores of a micro-batch", Source: graphSource,
			Rule:   "micro-batch × (vocabulary + width) × 4 on the last device; without flash attention cells × micro-batch × heads × 4, with mask and rows beside it; the larger",
			Worked: "512 × (151,552 + 6,144) × 4 are 308 MiB; 131,072 × 512 × 64 × 4 are 16 GiB"},
	}
	return append(append(list, outside.Formulas()...), state.Formulas()...)
}
