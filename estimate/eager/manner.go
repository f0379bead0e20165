package eager

import (
	"strconv"
	"strings"

	"floodmark/estimate"
	"floodmark/model"
	"floodmark/workload"
)

// manner is what differs between ways of running the same model.
type manner struct {
	sharesPrefix   bool // a prefix that all sequences have is kept once
	perHead        bool // latent attention caches the keys and values of each head
	convWhole      bool // convolutions keep as many positions as they are wide
	stateInCompute bool // Mamba's states are kept in the model's format
	wholeWindows   bool // windows are cached whole

	concatenates bool    // each step of each layer copies the layer's cache
	twice        bool    // and the whole old cache outlives the step
	repeats      bool    // keys and values are repeated for each query head
	masks        bool    // a mask of all pairs of positions can exist
	scores       scoring // whether attention scores of a layer exist at once
	reference    bool    // recurrent layers can run in reference code
	maskBuffers  bool    // a mask of all pairs of positions can be a buffer of the model
	tables       bool    // sines and cosines of all positions can be a buffer of the model
	files        bool    // whole weight files can be on the device while they are read

	warm bool // libraries of matrices hold their workspaces already

	allLogits, lastLogits bool // logits of all positions, or of the last alone, can exist in prefill
}

// serving keeps what any engine must.
func serving() manner { return manner{lastLogits: true, tables: true, sharesPrefix: true} }

// plain is transformers' generate at a version; an empty one is the newest. Each
// rule names the change that it comes from.
func plain(in estimate.Input) manner {
	e := in.Workload.Engine
	m := manner{perHead: true, convWhole: true, stateInCompute: true, concatenates: true, repeats: true, masks: true}
	at := release(e.Version)
	m.scores = scores(in)
	m.reference = !declares(in.Workload, workload.RecurrentKernels)
	// DynamicCache keeps windows whole before it had sliding layers
	// (https://github.com/huggingface/transformers/pull/40039).
	m.wholeWindows = at.before(4, 56)
	// Tensors are moved one by one, but accelerate's loader, which these use, reads
	// whole files onto the device
	// (https://github.com/huggingface/accelerate/blob/v0.25.0/src/accelerate/utils/modeling.py).
	m.files = e.Name == "autoawq" || e.Name == "autogptq"
	// Tuples of the old and the new cache were alive together
	// (https://github.com/huggingface/transformers/pull/30536).
	m.twice = at.before(4, 41)
	// num_logits_to_keep came in 4.45 with Llama's form and had reached all classes
	// of that form by 4.48; older forms compute all logits in every release
	// (https://github.com/huggingface/transformers/pull/31292,
	// https://github.com/huggingface/transformers/blob/v4.52.4/src/transformers/models/gptj/modeling_gptj.py).
	m.allLogits = at.before(4, 48) || !gated(in.Model)
	m.lastLogits = !at.before(4, 45)
	// Masks were buffers of the model (of GPTBigCode and GPT-2 since the first, of
	// Llama's form from 4.38), and are made for each batch since 4.42
	// (https://github.com/huggingface/transformers/pull/27931).
	m.maskBuffers = at.before(4, 42) && !(gated(in.Model) && at.before(4, 38))
	return m
}

// gated reports Llama's form: a decoder whose feed-forward networks all have a
// gate.
func gated(m *model.Model) bool {
	for _, s := range m.Stacks {
		for _, l := range s.Layers {
			switch f := l.FeedForward.(type) {
			case model.Dense:
				if s.Kind == model.Decoder && !f.Gated {
					return false
				}
			case model.Experts:
				if s.Kind == model.Decoder && !f.Gated {
					return false
				}
			}
		}
	}
	return true
}

// version is a release; the zero one is the newest.
type version struct {
	major, minor int
	known        bool
}

// release reads the first two numbers of a version.
func release(text string) version {
	parts := strings.SplitN(strings.TrimSpace(text), ".", 3)
	if len(parts) < 2 {
		return version{}
	}
	major, err := strconv.Atoi(parts[0])
	if err != nil {
		return version{}
	}
	minor, err := strconv.Atoi(parts[1])
	if err != nil {
		return version{}
	}
	return version{major, minor, true}
}

func (v version) before(major, minor int) bool {
	return v.known && (v.major < major || v.major == major && v.minor < minor)
}
