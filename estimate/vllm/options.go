package vllm

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/model"
	"floodmark/workload"
)

// options are the engine's settings, those that nobody gave by its version,
// card and use.
type options struct {
	rules
	workload.Budget
	assumed string // what was assumed of the version; empty where it was read
	// extrapolated: what was measured on 0.19 stands for another version.
	extrapolated bool
	maxLength    int64
	maxSeqs      int64
	compute      dtype.Format
	width        int64   // bytes of one element of the computation
	streams      float64 // see fittedStreams
	others       charge
	notes        []account.Warning
}

// measuredVersion is the one whose start-ups were measured.
const measuredVersion = "0.19"

// resolve fills in the defaults.
func resolve(in estimate.Input) options {
	w := in.Workload
	o := options{compute: w.Precision.Compute, streams: fittedStreams}
	o.rules, o.assumed = of(w.Engine.Version)
	o.others = others(w.Engine.Version)
	o.extrapolated = o.assumed != "" || o.rules.name() != measuredVersion
	if o.compute == dtype.Unknown {
		o.compute = in.Model.Compute
	}
	o.width, _ = o.compute.Size([]int64{1})
	o.width = max(o.width, 2)
	serving := w.Serving
	if serving == nil {
		serving = &workload.Serving{}
	}
	if serving.Budget != nil {
		o.Budget = *serving.Budget
	}
	if o.Utilization == 0 {
		o.Utilization = o.rules.utilization
	}
	if o.ChargeGraphs != nil {
		o.chargesGraphs = *o.ChargeGraphs
	}
	o.groups.together = o.groups.together || o.OneKind
	o.maxLength = serving.MaxLength
	if o.maxLength == 0 {
		o.maxLength = int64(in.Model.MaxPosition)
		o.note("length_from_model", fmt.Sprintf("no longest length was given (--max-model-len): the %s positions that the model declares are assumed", bytesize.Group(o.maxLength)))
	}
	o.maxSeqs = serving.MaxRequests
	o.defaults(in.Memory)
	if o.Block == 0 {
		o.Block = 16
	}
	o.maxSeqs = min(o.maxSeqs, o.BatchedTokens)
	return o
}

func (o *options) note(code, text string) {
	o.notes = append(o.notes, account.Warning{Code: code, Text: text})
}

// defaults are how many positions a step works on and how many requests it
// takes, by card and use (get_batch_defaults of vllm/engine/arg_utils.py): more
// on cards of 70 GiB, A100 excepted. Where no card is named it is taken for a
// smaller one.
func (o *options) defaults(m estimate.Memory) {
	large := m.Total.Low() >= 70<<30 && !strings.Contains(strings.ToLower(m.Name), "a100")
	tokens, seqs := int64(2048), int64(256)
	switch {
	case o.wholeCard && o.maxLength <= 32768:
		tokens = max(2048, o.maxLength) // the first generation cuts prompts that are longer alone
	case o.wholeCard:
	case large && o.InProcess:
		tokens, seqs = 16384, 1024
	case large:
		tokens, seqs = 8192, 1024
	case o.InProcess:
		tokens = 8192
	}
	if o.BatchedTokens == 0 {
		o.BatchedTokens = tokens
	}
	if o.maxSeqs == 0 {
		o.maxSeqs = seqs
	}
}

// graphSizes is how many sizes of batch are captured and the largest of them:
// 1, 2, 4, then steps of 8 below 256 and of 16 up to the largest, which is twice
// the requests and 512 at most, and 1024 for gpt-oss
// (vllm/config/vllm.py, vllm/model_executor/models/config.py). Worked number: up
// to 512 they are 51, up to 1024 they are 83.
func (o *options) graphSizes(m *model.Model) (sizes, largest int64) {
	if o.Eager {
		return 0, 0
	}
	largest = o.LargestGraph
	if largest == 0 {
		most := int64(512)
		if m.Type == "gpt_oss" && !o.wholeCard {
			most = 1024
		}
		largest = min(2*o.maxSeqs, most, o.BatchedTokens)
	}
	if o.CaptureSizes > 0 {
		return o.CaptureSizes, largest
	}
	for _, s := range []int64{1, 2, 4} {
		if s <= largest {
			sizes++
		}
	}
	for s := int64(8); s <= largest; {
		sizes++
		if s < 256 {
			s += 8
		} else {
			s += 16
		}
		if sizes > 1<<16 {
			break
		}
	}
	return sizes, largest
}

// requested is what the engine asks for: its share of the whole card, rounded up
// (request_memory of vllm/v1/worker/utils.py).
func (o *options) requested(total account.Figure) account.Figure {
	p := provenance(budgetFormula, o.link("vllm/v1/worker/gpu_worker.py"), account.Process)
	high, known := total.High()
	if !known {
		return account.Unknown("the share of a card that nobody named is not known: name one (--gpu)", p)
	}
	share := func(bytes int64) int64 { return int64(math.Ceil(float64(bytes) * o.Utilization)) }
	return account.Between(share(total.Low()), share(high), p)
}

// hasExperts reports a mixture of experts among the layers of the text.
func hasExperts(m *model.Model) bool {
	return slices.ContainsFunc(m.Stacks, func(s model.Stack) bool {
		return s.Kind != model.Predictor && slices.ContainsFunc(s.Layers, func(l model.Layer) bool {
			_, is := l.FeedForward.(model.Experts)
			return is
		})
	})
}

// seesImages reports a tower beside the text.
func seesImages(m *model.Model) bool {
	return slices.ContainsFunc(m.Stacks, func(s model.Stack) bool { return s.Kind == model.Vision || s.Kind == model.Audio })
}
