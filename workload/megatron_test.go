package workload

import (
	"strings"
	"testing"
)

// CUBLAS_WORKSPACE_CONFIG is pairs of KiB and a count.
func TestCublasWorkspace(t *testing.T) {
	for text, want := range map[string]int64{"": 0, ":4096:8": 33_554_432, ":16:8": 131_072, ":4096:2:16:8": 8_519_680} {
		if got, err := ParseCublasWorkspace(text); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"4096", ":4096", ":a:8", ":-1:8", ":4096:99999999999999999999", ":1048576:2"} {
		if _, err := ParseCublasWorkspace(text); err == nil {
			t.Errorf("%q is read", text)
		}
	}
}

// What only Megatron-LM is told is read, and a wrong word is named.
func TestMegatronSettings(t *testing.T) {
	f, err := read("training:\n  optimizer: adamw\n  megatron: {attention: flash, hidden_dropout: false, cross_entropy: te, cublas_workspace_config: \":4096:8\", router_format: fp32, capacity_factor: 1.5, pad_to_capacity: true}\n")
	if err != nil {
		t.Fatal(err)
	}
	m := f.Workload.Training.Megatron
	if m.Attention != FlashKernels || *m.HiddenDropout || m.AttentionDropout != nil || m.CrossEntropy != TEFusedLoss || m.CublasWorkspace != 33_554_432 || m.Capacity != 1.5 || !m.Padded {
		t.Errorf("%+v", m)
	}
	for text, want := range map[string]string{"attention: quick": "flash", "imbalance: 0.5": "1 or more", "capacity_factor: -1": "0 or more", "cublas_workspace_config: big": ":4096:8"} {
		if _, err := read("training: {optimizer: adamw, megatron: {" + text + "}}\n"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
