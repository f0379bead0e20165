package eager

import (
	"fmt"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/estimate/state"
	"floodmark/model"
	"floodmark/workload"
)

// plainNotes tells what plain generation does otherwise than a workload may
// expect.
func plainNotes(in estimate.Input) []account.Warning {
	if in.Workload.Operation != workload.Generation {
		return nil
	}
	var notes []account.Warning
	note := func(code, text string) { notes = append(notes, account.Warning{Code: code, Text: text}) }
	if n, _ := in.Workload.Dimension(workload.SharedPrefix); n > 0 {
		note("prefix_not_shared", "plain generation keeps a prefix that sequences share once for each of them; the serving engine counts it once")
	}
	compute := in.Workload.Precision.Compute
	if compute == dtype.Unknown {
		compute = in.Model.Compute
	}
	if f := in.Workload.Precision.Cache; f != dtype.Unknown && f != compute {
		note("cache_format_declared", "transformers keeps the cache in the format of the computation unless a quantised cache is asked for; the declared "+f.String()+" is taken to be one")
	}
	switch scores(in) {
	case certainScores:
		note("eager_attention", "this class has no fused attention in transformers, so the scores of all heads and pairs of positions are made; a workload that runs flash kernels says so (features: [flash_attention])")
	case maybeScores:
		note("attention_not_known", "it is not known whether this class runs fused attention, so up to the scores of all heads and pairs of positions are counted; a workload that runs flash kernels says so (features: [flash_attention])")
	}
	if recurs(in) && !declares(in.Workload, workload.RecurrentKernels) {
		note("recurrent_kernels_not_declared", "recurrent layers run in kernels where those are installed, and else in reference code that makes far more: both are in the interval; a workload that has the kernels says so (features: [recurrent_kernels])")
	}
	return append(notes, latentNote(in, true)...)
}

// recurs reports layers of which reference code and kernels differ.
func recurs(in estimate.Input) bool {
	for _, ref := range in.Plan.Layers {
		for _, m := range in.Model.Stacks[ref.Stack].Layers[ref.Layer].Mixers {
			switch m.(type) {
			case model.Mamba, model.GatedDelta:
				return true
			}
		}
	}
	return false
}

// servingNotes tells what the general view of serving assumes.
func servingNotes(in estimate.Input) []account.Warning {
	var notes []account.Warning
	if name := in.Workload.Engine.Name; name != "" && name != (Serving{}).Name() {
		notes = append(notes, account.Warning{Code: "engine_in_general", Text: "this version does not apply the rules of " + name + " itself: its workload is taken for serving in general, whatever its version"})
	}
	if in.Workload.Operation != workload.Generation {
		return notes
	}
	notes = append(notes, account.Warning{Code: "fused_attention_assumed", Text: "attention is assumed to run in kernels over pages of the cache, which make no scores"})
	return append(notes, latentNote(in, false)...)
}

// latentNote gives the figure of the other form in which latent attention can be
// cached.
func latentNote(in estimate.Input, perHead bool) []account.Warning {
	if in.Workload.Operation != workload.Generation || !latent(in) {
		return nil
	}
	o := state.Options{Compute: in.Workload.Precision.Compute, Keys: in.Workload.Precision.Cache, PerHead: !perHead}
	if o.Compute == dtype.Unknown {
		o.Compute = in.Model.Compute
	}
	other, exact := state.PerPosition(in.Model, in.Plan, o).IsExact()
	o.PerHead = perHead
	this, also := state.PerPosition(in.Model, in.Plan, o).IsExact()
	if !exact || !also {
		return nil
	}
	text := "serving engines cache the latent vector, which tensor parallelism does not divide: %s bytes a position on this rank, where the keys and values that transformers expands take %s"
	if perHead {
		text = "transformers caches keys and values expanded for each head: %[2]s bytes a position on this rank, where the latent vector that serving engines cache takes %[1]s"
		this, other = other, this
	}
	return []account.Warning{{Code: "latent_cache_form", Text: fmt.Sprintf(text, bytesize.Group(this), bytesize.Group(other))}}
}

func latent(in estimate.Input) bool {
	for _, ref := range in.Plan.Layers {
		for _, m := range in.Model.Stacks[ref.Stack].Layers[ref.Layer].Mixers {
			if a, ok := m.(model.LatentAttention); ok && a.CompressedEvery <= 1 {
				return true
			}
		}
	}
	return false
}
