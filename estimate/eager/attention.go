package eager

import (
	_ "embed"
	"strings"

	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/internal/packed"
	"floodmark/model"
	"floodmark/workload"
)

//go:embed sdpa.tsv.gz
var sdpa []byte

// scoring is whether attention makes scores of all pairs of positions.
type scoring int

const (
	noScores      scoring = iota
	maybeScores           // nobody can say: the high holds them
	certainScores         // the class has no other way, and no kernel was declared
)

// scores is how plain generation attends. Scaled dot-product attention became
// the default in 4.36 (https://github.com/huggingface/transformers/pull/26572),
// for the classes that set _supports_sdpa; others run eager attention. It takes
// neither sinks nor a cap of the scores
// (https://github.com/huggingface/transformers/blob/v4.57.3/src/transformers/models/gpt_oss/modeling_gpt_oss.py).
func scores(in estimate.Input) scoring {
	plain := in.Workload.Engine.Name == "" || in.Workload.Engine.Name == "eager" || in.Workload.Engine.Name == "transformers"
	sinks, softCap := special(in.Model)
	since, known := supports(in.Model.Type)
	at := release(in.Workload.Engine.Version)
	switch {
	case declares(in.Workload, workload.FlashAttention):
		return noScores
	case declares(in.Workload, workload.NoFlashAttention), (sinks || since == "never") && plain:
		return certainScores
	case sinks || softCap || !known || since == "never":
		return maybeScores
	}
	if r := release(since); at.before(r.major, r.minor) {
		return maybeScores
	}
	return noScores
}

// special reports attention that fused kernels of PyTorch do not compute.
func special(m *model.Model) (sinks, softCap bool) {
	return m.Attends(func(a model.Attention) bool { return a.Sinks }), m.Attends(func(a model.Attention) bool { return a.SoftCap > 0 })
}

// supports is the release since which a type's classes run fused attention, or
// "never"; false where it is not known.
func supports(modelType string) (since string, known bool) {
	text, err := packed.Text(sdpa)
	if err != nil {
		return "", false
	}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "\t")
		if name == modelType && value != "" {
			return value, true
		}
	}
	return "", false
}

func declares(w *workload.Workload, f workload.Feature) bool {
	for _, named := range w.Features {
		if named == f {
			return true
		}
	}
	return false
}

// scoreBytes is what the scores of one pair and head take at most: masked scores
// beside those before and their softmax in 32 bits, with a copy in 32 bits before
// it unless they are FP16
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/native/SoftMax.cpp);
// with sinks, four copies in the model's format, which are no more.
func (w *work) scoreBytes(f dtype.Format) int64 {
	if f == dtype.F16 {
		return 4 + 2*w.width
	}
	return 8 + 2*w.width
}
