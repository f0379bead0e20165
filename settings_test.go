package floodmark

import (
	"maps"
	"testing"

	"floodmark/dtype"
	"floodmark/workload"
)

// Every thing that a workload declares is a setting, under the name by which it is
// asked for; what follows from others, and what is one of nothing, is none.
func TestSettings(t *testing.T) {
	w := &workload.Workload{
		Operation: workload.FineTuning,
		Inputs:    []workload.Input{{Name: "typical", Dimensions: map[workload.Dimension]int64{workload.Context: 512, workload.MicroBatch: 4}}},
		Mesh:      workload.Mesh{TensorParallel: 1, DataParallel: 8},
		Precision: workload.Precision{Layout: "named", Parameters: dtype.BF16, Cache: dtype.F16},
		Training: &workload.Train{
			Optimizer: workload.Optimizer{Name: workload.AdamW, Implementation: "fused"}, Autocast: dtype.BF16, Reset: workload.SetToZero,
			Checkpointing: workload.Checkpointing{Kind: workload.EveryCheckpointing, Every: 2},
			Tuning:        &workload.Tuning{Kind: "lora", Rank: 16, Targets: []string{"q_proj"}, Base: "nf4", Modules: []workload.TunedModule{{Module: "q_proj"}}},
			Sharding:      &workload.Sharding{Kind: "zero2"},
		},
		Serving: &workload.Serving{MaxLength: 8192, Budget: &workload.Budget{Utilization: 0.9}},
		Engine:  workload.Engine{Name: "vllm", Version: "0.19.0"},
	}
	want := map[string]string{
		"operation": "fine-tuning", "context": "512", "micro_batch": "4", "data_parallel": "8", "precision": "bf16, bf16", "cache_format": "fp16",
		"optimizer": "adamw", "optimizer_implementation": "fused", "zero_grad": "zero", "checkpointing": "every 2", "adapter": "lora, 16, q_proj",
		"base_format": "nf4", "sharding_kind": "zero2", "max_length": "8192", "utilization": "0.9", "engine": "vllm, 0.19.0",
	}
	got := map[string]string{}
	for _, s := range settingsOf(w) {
		got[s.Name] = s.Value
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v\nwant %v", got, want)
	}
}
