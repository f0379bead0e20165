package enginelog

import (
	"strings"
	"testing"
)

// What an engine's refusal advises is answered with its own numbers.
func TestRefusals(t *testing.T) {
	for _, c := range []struct{ name, text, code, says string }{
		{"others hold the card (club-3090 544)", "ValueError: Free memory on device cuda:1 (22.06/23.56 GiB) on startup is less than desired GPU memory utilization (0.95, 22.38 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
			"refused_at_start", "is 0.936"},
		{"a request too long (vllm 34076)", "To serve at least one request with the models's max seq len (262144), (24.0 GiB KV cache is needed, which is larger than the available KV cache memory (3.18 GiB). Try increasing `gpu_memory_utilization`",
			"cache_too_small", "lacks 20.8"},
		{"no room (vllm 13882)", "model weights take 5.20GiB; non_torch_memory takes 0.03GiB; PyTorch activation peak memory takes 1.42GiB; the rest of the memory reserved for KV Cache is -1.05GiB.",
			"no_cache_room", "goes up"},
		{"a start that went well", "Free memory on device (78.68/79.19 GiB) on startup. Desired GPU memory utilization is (0.95, 75.23 GiB). Actual usage is 44.76 GiB for weight", "", ""},
	} {
		list := read(t, c.text+"\n"+c.text).Warnings
		if c.code == "" {
			if len(list) > 0 {
				t.Errorf("%s: %v", c.name, list)
			}
			continue
		}
		if len(list) != 1 || list[0].Code != c.code || !strings.Contains(list[0].Text, c.says) {
			t.Errorf("%s: %v", c.name, list)
		}
	}
}
