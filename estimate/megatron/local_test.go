package megatron_test

import (
	"errors"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/parallel"
)

const localText = "inputs: {only: {context: 1024, micro_batch: 4}}\ntraining: {optimizer: adamw, accumulation: 2, megatron: {implementation: local%s}}\n"

func local(more string) string { return strings.Replace(localText, "%s", more, 1) }

// Of mcore's own layers the buffer of scores stays beside cuBLAS' two workspaces: 4 × 8
// heads × 1,024² × 2 bytes. Nothing of TransformerEngine's does, and the parameters are
// the same.
func TestLocalLayersKeepTheirScores(t *testing.T) {
	tl := run(t, small(), local(", gradient_accumulation_fusion: false"))[0]
	if got := alive(tl, account.TermWorkspace); got != 4*8*1024*1024*2+2*32<<20 {
		t.Errorf("%d bytes stay", got)
	}
	te := run(t, small(), strings.Replace(local(", attention: unfused"), "local", "transformer_engine", 1))[0]
	if a, b := alive(tl, account.TermWeights), alive(te, account.TermWeights); a != b {
		t.Errorf("%d bytes of weights, %d with TransformerEngine", a, b)
	}
}

// A softmax in 32 bits keeps its result in them: of each of 12 layers 64 MiB more than
// Apex' kernel does.
func TestWideSoftmax(t *testing.T) {
	peak := func(more string) int64 {
		p, _ := run(t, small(), local(more))[0].PeakRequested()
		return p
	}
	if got := peak(", unfused: [masked_softmax], softmax_in_fp32: true") - peak(""); got != 12*64<<20 {
		t.Errorf("%d bytes more", got)
	}
}

// What mcore's own layers refuse is refused.
func TestLocalLayersRefuse(t *testing.T) {
	for _, c := range []struct {
		want, layout string
		more         []string
	}{
		{"context parallelism", "layout: {context_parallel: 2}\n", nil},
		{"RMSNorm", "layout: {tensor_parallel: 2}\n", []string{"normalization", "RMSNorm"}},
	} {
		_, err := laid(small(c.more...), strings.Replace(local(""), "training: {", c.layout+"training: {sequence_parallel: true, ", 1))
		var broken *parallel.NotSupportedError
		if !errors.As(err, &broken) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
