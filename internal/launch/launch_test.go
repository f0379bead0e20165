package launch

import (
	"fmt"
	"strings"
	"testing"

	"floodmark/dtype"
	"floodmark/workload"
)

// Commands as people write them, and what they declare.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, command string
		want          func(*Command) bool
	}{
		{"the server", "vllm serve org/Model --max-model-len 8192 --gpu-memory-utilization 0.95 -tp 2", func(c *Command) bool {
			return c.Model == "org/Model" && c.Workload.Serving.MaxLength == 8192 && c.Workload.Serving.Budget.Utilization == 0.95 && c.Workload.Mesh.TensorParallel == 2
		}},
		{"the module", "python3 -m vllm.entrypoints.openai.api_server --model org/Model --dtype half --enforce-eager", func(c *Command) bool {
			return c.Model == "org/Model" && c.Workload.Precision.Compute == dtype.F16 && c.Workload.Serving.Budget.Eager
		}},
		{"a container, whose tag is the version", `docker run --runtime nvidia --gpus '"device=0,1"' -v ~/.cache:/root -e HF_TOKEN=x -p 8000:8000 --ipc=host vllm/vllm-openai:v0.11.0 --model org/Model`, func(c *Command) bool {
			return c.Workload.Engine.Version == "0.11.0" && c.Devices == 2
		}},
		{"a container with the model alone", "docker run --gpus all vllm/vllm-openai:latest org/Model", func(c *Command) bool {
			return c.Model == "org/Model" && c.Workload.Engine.Version == "" && c.Devices == 0
		}},
		{"devices that the command sees", "CUDA_VISIBLE_DEVICES=2,3 vllm serve m", func(c *Command) bool { return c.Devices == 2 }},
		{"underscores, an equals sign, and sizes for people", "vllm serve m --max_model_len=32k --max-num-batched-tokens 8K", func(c *Command) bool {
			return c.Workload.Serving.MaxLength == 32000 && c.Workload.Serving.Budget.BatchedTokens == 8192
		}},
		{"the longest length that fits", "vllm serve m --max-model-len auto", func(c *Command) bool {
			return c.Workload.Serving.MaxLength == 0 && len(c.Warnings) == 1
		}},
		{"a switch that is switched off", "vllm serve m --no-enable-prefix-caching", func(c *Command) bool {
			p := c.Workload.Serving.Budget.PrefixCaching
			return p != nil && !*p
		}},
		{"prediction layers that guess ahead", `vllm serve m --speculative-config {"method":"mtp","num_speculative_tokens":3}`, func(c *Command) bool {
			return c.Workload.Serving.Budget.Speculative == 3 && len(c.Workload.Open) == 0
		}},
		{"the same, member by member", "vllm serve m --speculative-config.method mtp --speculative-config.num_speculative_tokens 3", func(c *Command) bool {
			return c.Workload.Serving.Budget.Speculative == 3
		}},
		{"a model that guesses ahead is not counted", `vllm serve m --speculative-config {"model":"d","num_speculative_tokens":3}`, func(c *Command) bool {
			return len(c.Workload.Open) == 1 && strings.Contains(c.Workload.Open[0], "model d")
		}},
		{"a guess of a length that is none", `vllm serve m --speculative-config {"method":"mtp","num_speculative_tokens":1e308}`, func(c *Command) bool {
			return len(c.Workload.Open) == 1 && strings.Contains(c.Workload.Open[0], "num_speculative_tokens")
		}},
		{"slots for adapters", "vllm serve m --enable-lora --max-loras 4 --max-lora-rank 64 --lora-modules a=b c=d", func(c *Command) bool {
			b := c.Workload.Serving.Budget
			return b.AdapterSlots == 4 && b.AdapterRank == 64
		}},
		{"adapters are not enabled", "vllm serve m --max-loras 4", func(c *Command) bool { return c.Workload.Serving.Budget.AdapterSlots == 0 }},
		{"llama.cpp's server, whose slots share the context", "./build/bin/llama-server -m m.gguf -c 65536 -np 2 -ub 1024 -ctk q8_0 -ctv q8_0 -fa -ngl 99 -t -1", func(c *Command) bool {
			s := c.Workload.Serving
			return c.Workload.Engine.Name == "llama.cpp" && c.Model == "m.gguf" && s.MaxLength == 32768 && s.MaxRequests == 2 && s.Budget.BatchedTokens == 1024 &&
				c.Workload.Precision.Cache == dtype.Q8_0 && len(c.Workload.Open) == 0 && c.Workload.Features[0] == workload.FlashAttention
		}},
		{"its container, without flash attention", "docker run --gpus all ghcr.io/ggml-org/llama.cpp:server-cuda -m /models/m.gguf -c 8192 -np 1 --flash-attn off", func(c *Command) bool {
			return c.Workload.Engine.Name == "llama.cpp" && c.Workload.Features[0] == workload.NoFlashAttention && c.Workload.Serving.MaxLength == 8192
		}},
		{"what it leaves in main memory is not modelled", "llama-server -m m.gguf -ngl 20 -ot exps=CPU --mmproj p.gguf -md d.gguf -np 1", func(c *Command) bool { return len(c.Workload.Open) == 4 }},
		{"compressed vectors in 8 bits", "vllm serve m --kv-cache-dtype fp8_ds_mla", func(c *Command) bool {
			return c.Workload.Serving.Budget.PackedLatent && c.Workload.Precision.Cache == dtype.F8E4M3 && len(c.Workload.Open) == 0
		}},
		{"the same model twice", "vllm serve org/Model --model org/Model", func(c *Command) bool { return c.Model == "org/Model" }},
		{"no images", `vllm serve m --limit-mm-per-prompt {"image":0,"video":0}`, func(c *Command) bool {
			n := c.Workload.Serving.Budget.MediaItems
			return n != nil && *n == 0
		}},
		{"no video says nothing of images", "vllm serve m --limit-mm-per-prompt.video 0", func(c *Command) bool { return c.Workload.Serving.Budget.MediaItems == nil }},
		{"experts take the ranks of both", "vllm serve m -tp 2 -dp 4 --enable-expert-parallel", func(c *Command) bool { return c.Workload.Mesh.ExpertParallel == 8 }},
		{"a setting that is not modelled", "vllm serve m --cpu-offload-gb 10", func(c *Command) bool { return len(c.Workload.Open) == 1 }},
		{"and one that does nothing", "vllm serve m --cpu-offload-gb 0 --load-format auto", func(c *Command) bool { return len(c.Workload.Open) == 0 }},
		{"a flag that nobody knows", "vllm serve m --bogus 3 --port 80", func(c *Command) bool {
			return len(c.Workload.Open) == 1 && len(c.Warnings) == 1
		}},
		{"flags that bear on no size", "vllm serve m --port 80 --host 0.0.0.0 --served-model-name a b --trust-remote-code --api-key x", func(c *Command) bool {
			return len(c.Workload.Open)+len(c.Warnings) == 0
		}},
		{"graphs by size", "vllm serve m --cudagraph-capture-sizes 1 2 4 8 --port 1", func(c *Command) bool {
			b := c.Workload.Serving.Budget
			return b.CaptureSizes == 4 && b.LargestGraph == 8
		}},
		{"runners in front", "sudo env HF_HOME=/x uv run vllm serve m", func(c *Command) bool { return c.Model == "m" }},
		{"graphs are charged by the environment", "VLLM_MEMORY_PROFILER_ESTIMATE_CUDAGRAPHS=1 vllm serve m", func(c *Command) bool {
			return c.Workload.Serving.Budget.ChargeGraphs != nil && *c.Workload.Serving.Budget.ChargeGraphs
		}},
	} {
		got, err := Parse(Split(strings.ReplaceAll(c.command, `{"`, `'{"`+"") + ending(c.command)))
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if !c.want(got) {
			t.Errorf("%s: %+v %+v %+v", c.name, got, got.Workload.Serving, got.Workload.Serving.Budget)
		}
	}
}

// ending closes the quote that holds a JSON value together; it stands last.
func ending(command string) string {
	if strings.Contains(command, `{"`) {
		return "'"
	}
	return ""
}

// What cannot be read says so.
func TestRefused(t *testing.T) {
	for command, want := range map[string]string{
		"":                                  "no command",
		"ls -l":                             "starts no engine",
		"vllm bench":                        "serve is read",
		"vllm serve":                        "names no model",
		"vllm serve m n":                    "behind the model",
		"vllm serve m --max-model-len x":    "whole number",
		"vllm serve m --max-model-len":      "lacks its value",
		"vllm serve m -tp 0":                "expected 1 to",
		"vllm serve m --max-num-seqs 0":     "above 0",
		"vllm serve m --block-size=0":       "above 0",
		"vllm serve m --kv-cache-memory -1": "above 0",
		"vllm serve m --num-gpu-blocks-override 0": "above 0",
		"vllm serve m --gpu-memory-utilization 95": "a share above 0",
		"docker run nginx":                         "none of an engine",
		"docker ps":                                "run is read",
		"docker compose up -d":                     "stands in its file",
		"docker-compose -f x.yml up":               "stands in its file",
		"vllm serve A --model B":                   "names two models",
		"vllm serve --model B A":                   "names two models",
		"python train.py":                          "no module of an engine",
	} {
		if _, err := Parse(strings.Fields(command)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", command, err, want)
		}
	}
}

// A compose file's service is its command, its environment and its devices.
func TestCompose(t *testing.T) {
	text := `
services:
  web: {image: nginx}
  llm:
    image: vllm/vllm-openai:v0.19.0
    environment: [CUDA_VISIBLE_DEVICES=0]
    command: >
      --model org/Model --max-model-len 8192
      --served-model-name "my model"
    deploy: {resources: {reservations: {devices: [{driver: nvidia, device_ids: ["0"], capabilities: [gpu]}]}}}
`
	if !IsCompose([]byte(text)) {
		t.Error("it is a compose file")
	}
	c, err := Compose([]byte(text), "")
	if err != nil || c.Model != "org/Model" || c.Workload.Engine != (workload.Engine{Name: "vllm", Version: "0.19.0"}) || c.Devices != 1 {
		t.Errorf("%+v, %v", c, err)
	}
	if _, err := Compose([]byte("services:\n  web: {image: nginx}\n"), ""); err == nil {
		t.Error("no service runs an engine")
	}
	if _, err := Compose([]byte("model: x\n"), ""); err != ErrNotCompose {
		t.Error("a workload file is none")
	}
}

// No text makes the reader fail otherwise than by an error.
func FuzzParse(f *testing.F) {
	f.Add("vllm serve m --max-model-len 8k")
	f.Add(`docker run --gpus '"device=0"' vllm/vllm-openai:v0.19 --model m --limit-mm-per-prompt '{"image":1}'`)
	f.Add("A=b python -m vllm.entrypoints.openai.api_server --model=m --speculative-config.x 3")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse(Split(text))
		if (c == nil) == (err == nil) {
			t.Errorf("%q: %v, %v", text, c, err)
		}
		_, _ = Compose([]byte(text), "")
	})
}

// Aliases of aliases stand for more words than memory holds, and a word of a command
// is no list.
func TestComposeNested(t *testing.T) {
	var text strings.Builder
	text.WriteString("a: &a [x, x, x, x, x, x, x, x, x]\n")
	for at := 'b'; at <= 'k'; at++ {
		fmt.Fprintf(&text, "%c: &%c [%s*%c]\n", at, at, strings.Repeat(fmt.Sprintf("*%c, ", at-1), 8), at-1)
	}
	for text, want := range map[string]string{
		text.String() + "services: {v: {image: vllm/vllm-openai, command: *k}}\n": "aliases stand for more",
		"services: {v: {image: vllm/vllm-openai, command: [--model, [x, y]]}}\n":  "word 2 of a service's command",
		"services: {v: {image: vllm/vllm-openai, entrypoint: [{a: b}]}}\n":        "word 1 of a service's command",
	} {
		if _, err := Compose([]byte(text), ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", want, err)
		}
	}
}

// A word that is quoted in a message is not quoted at any length.
func TestLongWords(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	for _, words := range [][]string{{long}, {"vllm", "serve", "m", long}, {"vllm", "serve", "m", "--dtype", long}, {"vllm", "serve", "m", "--max-model-len", long}, {"docker", "run", long}} {
		if _, err := Parse(words); err == nil || len(err.Error()) > 1000 {
			t.Errorf("%.40s: a message of %d bytes", words, len(fmt.Sprint(err)))
		}
	}
}
