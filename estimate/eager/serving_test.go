package eager_test

import (
	"context"
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"floodmark/account"
	"floodmark/estimate/eager"
	"floodmark/internal/oracle"
	"floodmark/model"
	"floodmark/model/load"
)

// start is what the profile run of one start of vLLM 0.19 on an H100 took
// beside the weights, with 8,192 positions and 1,024 sequences. The readings are
// from the logs behind llm-d-planner pull request 205 (Apache-2.0). The quantised
// checkpoints of a model compute as the model does.
type start struct {
	model   string // as the logs name it
	config  string // a name of the catalogue, or a configuration
	tensor  int
	reading float64 // GiB
}

const codeLlama = `{"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":4096,"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":32,"vocab_size":32016,"intermediate_size":11008,"max_position_embeddings":16384,"torch_dtype":"bfloat16","tie_word_embeddings":false,"hidden_act":"silu"}`

func starts() []start {
	return []start{
		{"codellama/CodeLlama-7b-hf", codeLlama, 1, 0.77},
		{"deepseek-ai/DeepSeek-V2-Lite-Chat", "deepseek-ai/DeepSeek-V2-Lite", 1, 1.93},
		{"RedHatAI/Llama-3.3-70B-Instruct-fp8-dynamic", "meta-llama/Llama-3.3-70B-Instruct", 2, 1.96},
		{"RedHatAI/Llama-3.3-70B-Instruct-fp8-dynamic", "meta-llama/Llama-3.3-70B-Instruct", 4, 1.97},
		{"google/gemma-2-27b-it", "google/gemma-2-27b-it", 1, 3.66},
		{"google/gemma-2-9b-it", "google/gemma-2-9b-it", 1, 3.65},
		{"meta-llama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B-Instruct", 1, 1.89},
		{"openai/gpt-oss-20b", "openai/gpt-oss-20b", 2, 2.87},
		{"Qwen/Qwen1.5-MoE-A2.7B", "Qwen/Qwen1.5-MoE-A2.7B", 1, 2.47},
		{"Qwen/Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B-Instruct", 1, 2.21},
		{"Qwen/Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B-FP8", 1, 2.68},
		{"Qwen/Qwen3-8B", qwen3Eight, 1, 2.21},
	}
}

func (s start) read(t testing.TB) *model.Model {
	t.Helper()
	if s.config[0] == '{' {
		return read(t, s.config)
	}
	m, err := load.Model(context.Background(), s.config, load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The serving view bounds what an engine took for the same positions, from
// above and below. Nothing of it was fitted to these readings.
func TestServingBoundsProfileRuns(t *testing.T) {
	for _, s := range starts() {
		w := generation(8, 0, 1024)
		w.Mesh.TensorParallel = s.tensor
		a := accounts(t, eager.Serving{}, s.read(t), w, "Hopper")[0]
		var low, high int64
		for _, id := range []account.TermID{account.TermActivations, account.TermLogits, account.TermTemporaries} {
			f := in(t, a, account.PhasePrefill, id)
			h, known := f.High()
			if !known {
				t.Errorf("%s: %s is open: %s", s.model, id, f.Reason())
			}
			low, high = low+f.Low(), high+h
		}
		t.Logf("%-45s TP%d measured %.2f, predicted %.2f to %.2f GiB", s.model, s.tensor, s.reading, float64(low)/float64(gib), float64(high)/float64(gib))
		if got := int64(s.reading * float64(gib)); got < low || got > high {
			t.Errorf("%s over %d: %.2f GiB is outside %.2f to %.2f", s.model, s.tensor, s.reading, float64(low)/float64(gib), float64(high)/float64(gib))
		}
	}
}

// TestOracleProfileRuns holds the readings above against the published table.
func TestOracleProfileRuns(t *testing.T) {
	file, err := os.Open(filepath.Join(oracle.Dir(t), "groundtruth", "vllm_0.19_h100_startups.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rows, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for i, name := range rows[0] {
		column[name] = i
	}
	for _, s := range starts() {
		found := false
		for _, r := range rows[1:] {
			reading, err := strconv.ParseFloat(r[column["activation_memory_gib"]], 64)
			found = found || err == nil && r[column["model"]] == s.model && r[column["tp"]] == strconv.Itoa(s.tensor) && reading == s.reading
		}
		if !found {
			t.Errorf("%s over %d with %v GiB is not in the table", s.model, s.tensor, s.reading)
		}
	}
}
