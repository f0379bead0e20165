package recipe

import (
	"fmt"
	"strings"
	"testing"
)

// Graphs of TransformerEngine are read with what they capture, by the switches of each
// release; other graphs stay open by name, and none is none.
func TestMegatronGraphs(t *testing.T) {
	for arguments, want := range map[string]string{
		"": "[] 3",
		"--cuda-graph-impl none --cuda-graph-scope attn":                                                                  "[] 3",
		"--cuda-graph-impl transformer_engine":                                                                            "[attn mlp moe] 3",
		"--cuda-graph-impl transformer_engine --cuda-graph-scope mlp":                                                     "[mlp] 3",
		"--cuda-graph-impl transformer_engine --cuda-graph-modules attn mlp --cuda-graph-warmup-steps 0 --te-rng-tracker": "[attn mlp] 0",
		"--external-cuda-graph --cuda-graph-scope full":                                                                   "[attn mlp moe] 3",
		"--cuda-graph-impl local":                                                                                         "--cuda-graph-impl: captured graphs hold memory",
		"--cuda-graph-impl full_iteration":                                                                                "--cuda-graph-impl: captured graphs hold memory",
		"--enable-cuda-graph":                                                                                             "--enable-cuda-graph: captured graphs hold memory",
		"--cuda-graph-retain-backward-graph":                                                                              "--cuda-graph-retain-backward-graph: captured graphs keep what backward is through with",
	} {
		r, err := Parse(append(strings.Fields(megatron8B), strings.Fields(arguments)...), published(nil))
		if err != nil {
			t.Fatalf("%s: %v", arguments, err)
		}
		m, steps := r.Workload.Training.Megatron, int64(3)
		if m.GraphWarmup != nil {
			steps = *m.GraphWarmup
		}
		got := strings.Join(r.Workload.Open, " ")
		if got == "" {
			got = fmt.Sprint(m.Graphs, steps)
		}
		if got != want {
			t.Errorf("%s: %s, want %s", arguments, got, want)
		}
	}
}
