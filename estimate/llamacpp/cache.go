package llamacpp

import (
	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate/state"
)

// cache is what the slots reserve and what their positions take. Cells are
// reserved in multiples of 256, for windows the window and one micro-batch
// (src/llama-kv-cache-iswa.cpp); where slots share one stream they share the
// micro-batch too, so that a window takes between its own positions and that.
func (l *layout) cache() state.State {
	at := state.Lengths{Sequences: l.o.slots, Positions: l.o.length, Encoder: -1}
	o := state.Options{Compute: dtype.F16, Keys: l.in.Workload.Precision.Cache, Recurrent: dtype.F32, Conv: dtype.F32, WholeWindows: l.o.wholeWindows}
	if o.Keys == dtype.Unknown {
		o.Keys = dtype.F16
	}
	least := state.Of(l.in.Model, l.in.Plan, o, at)
	o.Ahead, o.Block = l.o.micro, padding
	if l.o.ollama && l.in.Model.Type == "gpt_oss" {
		o.Ahead += ollamaMemory
	}
	most := state.Of(l.in.Model, l.in.Plan, o, at)
	p := least.Reserved.Provenance
	p.Source = cacheSource
	high, known := most.Reserved.High()
	if !known {
		least.Reserved = account.AtLeast(least.Reserved.Low(), most.Reserved.Reason(), p)
		return least
	}
	least.Reserved = account.Between(least.Reserved.Low(), high, p)
	return least
}
