package workload_test

import (
	"strings"
	"testing"

	"floodmark/workload"
)

// The examples are those of parse_str_to_list of
// megatron/core/transformer/pipeline_parallel_layer_layout.py, with their ends.
func TestPipelinePieces(t *testing.T) {
	for layout, want := range map[string]string{
		"Et*3|(tt|)*6L":          "Ettt tt tt tt tt tt tt L",
		"Ettt|(tt|)*3,m|L":       "Ettt tt tt tt m L",
		"E(|tt)*2,tL":            "E tt tttL",
		"E|t||L":                 "E t  L",
		"EL":                     "EL",
		"Ett":                    "!is not an E",
		"":                       "!is not an E",
		"L":                      "!is not an E",
		"EtEL":                   "!is not an E",
		"Et*99999999999999999tL": "!letters",
		"E" + strings.Repeat("(t*9999)*9999", 9) + "L": "!letters",
		"E(((t*9999)*9999)*9999)*9999L":                "!letters",
	} {
		pieces, err := workload.PipelinePieces(layout)
		switch text, refused := strings.CutPrefix(want, "!"); {
		case refused && (err == nil || !strings.Contains(err.Error(), text)):
			t.Errorf("%.40s: %v, want %q", layout, err, text)
		case !refused && (err != nil || strings.Join(pieces, " ") != want):
			t.Errorf("%.40s: %q (%v), want %q", layout, pieces, err, want)
		}
	}
}
