package launch

import (
	"fmt"
	"strconv"
	"strings"

	"floodmark/dtype"
	"floodmark/workload"
)

// takes is how many values a flag has.
type takes int

const (
	one takes = iota
	alone
	several
)

// flag is one flag of the engine. One that does nothing here bears on no size.
type flag struct {
	names  []string
	kind   takes
	number func(*arguments, int64) error
	toggle func(*arguments, bool)
	text   func(a *arguments, member, value string) error
	open   string // why nobody can say what it changes of sizes
}

// flags lists what is read, from the parsers of 0.8.5, 0.11.0, 0.16.0, 0.19.0, 0.22.1
// and 0.27.1 (vllm/engine/arg_utils.py, vllm/entrypoints/openai/cli_args.py).
func flags() []flag {
	list := append(sizes(), choices()...)
	for _, f := range strings.Split(unmodelled, "\n") {
		if name, why, found := strings.Cut(strings.TrimSpace(f), ": "); found {
			list = append(list, flag{names: strings.Fields(name), open: why})
		}
	}
	for _, name := range strings.Fields(unmodelledSwitches) {
		list = append(list, flag{names: []string{name}, kind: alone, open: "what it changes of sizes is not modelled"})
	}
	for _, name := range strings.Fields(harmless) {
		list = append(list, flag{names: strings.Split(name, "|")})
	}
	for _, name := range strings.Fields(harmlessSwitches) {
		list = append(list, flag{names: []string{name}, kind: alone})
	}
	return append(list, flag{names: []string{"--allowed-origins"}}, flag{names: []string{"--lora-modules"}, kind: several}, flag{names: []string{"--served-model-name"}, kind: several})
}

func number(names string, set func(*arguments, int64)) flag {
	return flag{names: strings.Fields(names), number: func(a *arguments, n int64) error { set(a, n); return nil }}
}

// positive is a number of which the engine takes no 0 (Field(ge=1) and the checks of
// vllm/config): 0 here would be the default in silence.
func positive(names string, set func(*arguments, int64)) flag {
	return flag{names: strings.Fields(names), number: func(a *arguments, n int64) error {
		if n < 1 {
			return &Error{Msg: fmt.Sprintf("%s is %d, expected a whole number above 0", strings.Fields(names)[0], n)}
		}
		set(a, n)
		return nil
	}}
}

func degree(names string, set func(*arguments, int)) flag {
	return flag{names: strings.Fields(names), number: func(a *arguments, n int64) error {
		if n < 1 || n > workload.MaxDegree {
			return &Error{Msg: fmt.Sprintf("%s is %d, expected 1 to %d", strings.Fields(names)[0], n, workload.MaxDegree)}
		}
		set(a, int(n))
		return nil
	}}
}

// sizes is the flags that are numbers.
func sizes() []flag {
	return []flag{
		degree("--tensor-parallel-size -tp", func(a *arguments, n int) { a.tensor = n }),
		degree("--pipeline-parallel-size -pp", func(a *arguments, n int) { a.pipeline = n }),
		degree("--data-parallel-size -dp", func(a *arguments, n int) { a.data = n }),
		degree("--decode-context-parallel-size -dcp", func(a *arguments, n int) { a.budget.DecodeContext = n }),
		{names: []string{"--max-model-len"}, number: func(a *arguments, n int64) error {
			if n < 0 {
				a.warn("length_fitted", "the engine is told to take the longest length that fits (--max-model-len auto); the length that the model declares is assumed")
				n = 0
			}
			a.serving.MaxLength = n
			return nil
		}},
		positive("--max-num-seqs", func(a *arguments, n int64) { a.serving.MaxRequests = n }),
		positive("--max-num-batched-tokens", func(a *arguments, n int64) { a.budget.BatchedTokens = n }),
		positive("--block-size", func(a *arguments, n int64) { a.budget.Block = n }),
		positive("--kv-cache-memory-bytes --kv-cache-memory", func(a *arguments, n int64) { a.budget.CacheBytes = n }),
		positive("--num-gpu-blocks-override", func(a *arguments, n int64) { a.budget.Blocks = n }),
		number("--max-cudagraph-capture-size", func(a *arguments, n int64) { a.budget.LargestGraph = n }),
		positive("--max-loras", func(a *arguments, n int64) { a.budget.AdapterSlots = n }),
		positive("--max-lora-rank", func(a *arguments, n int64) { a.budget.AdapterRank = n }),
		{names: []string{"--gpu-memory-utilization"}, text: func(a *arguments, _, value string) error {
			share, err := strconv.ParseFloat(value, 64)
			if err != nil || !(share > 0 && share <= 1) {
				return &Error{Msg: fmt.Sprintf("--gpu-memory-utilization is %.80q, expected a share above 0 and up to 1", value)}
			}
			a.budget.Utilization = share
			return nil
		}},
		{names: []string{"--cudagraph-capture-sizes", "--cuda-graph-sizes"}, kind: several, text: func(a *arguments, _, value string) error {
			for _, word := range strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune("[], ", r) }) {
				n, err := whole(word)
				if err != nil {
					return &Error{Msg: fmt.Sprintf("--cudagraph-capture-sizes holds %.80q, expected whole numbers", word)}
				}
				a.budget.CaptureSizes++
				a.budget.LargestGraph = max(a.budget.LargestGraph, n)
			}
			return nil
		}},
	}
}

func toggle(names string, set func(*arguments, bool)) flag {
	return flag{names: strings.Fields(names), kind: alone, toggle: set}
}

// choices is the flags that are words or switches.
func choices() []flag {
	return []flag{
		{names: []string{"--model"}, text: func(a *arguments, _, value string) error {
			if word := a.model; a.named == "" && word != "" && word != value {
				a.named = value
				return a.twoModels(word)
			}
			a.model, a.named = value, value
			return nil
		}},
		{names: []string{"--dtype"}, text: func(a *arguments, _, value string) error {
			f, ok := format(value)
			if !ok && value != "auto" {
				return &Error{Msg: fmt.Sprintf("--dtype is %.80q, expected auto, bfloat16, float16 or float32", value)}
			}
			a.precision.Compute = f
			return nil
		}},
		{names: []string{"--kv-cache-dtype"}, text: func(a *arguments, _, value string) error {
			switch {
			case value == "auto":
			case value == "fp8_ds_mla":
				a.precision.Cache, a.budget.PackedLatent = dtype.F8E4M3, true
			case strings.HasPrefix(value, "fp8"), value == "int8":
				a.precision.Cache = dtype.F8E4M3
			default:
				f, ok := format(value)
				if !ok {
					a.unmodelled("--kv-cache-dtype", "the format "+value+" is not known here")
				}
				a.precision.Cache = f
			}
			return nil
		}},
		{names: []string{"--quantization", "-q"}, text: func(a *arguments, _, value string) error { a.budget.Quantise = value; return nil }},
		{names: []string{"--speculative-config", "-sc"}, text: func(a *arguments, member, value string) (err error) {
			a.speculative, err = members(a.speculative, member, value)
			return err
		}},
		{names: []string{"--spec-tokens"}, number: func(a *arguments, n int64) error {
			var err error
			a.speculative, err = members(a.speculative, "num_speculative_tokens", strconv.FormatInt(n, 10))
			return err
		}},
		{names: []string{"--spec-model"}, text: func(a *arguments, _, value string) (err error) {
			a.speculative, err = members(a.speculative, "model", value)
			return err
		}},
		{names: []string{"--spec-method"}, text: func(a *arguments, _, value string) (err error) {
			a.speculative, err = members(a.speculative, "method", value)
			return err
		}},
		{names: []string{"--limit-mm-per-prompt"}, text: func(a *arguments, member, value string) error { return a.limits(member, value) }},
		toggle("--enable-expert-parallel -ep", func(a *arguments, on bool) { a.experts = on }),
		toggle("--enforce-eager", func(a *arguments, on bool) { a.budget.Eager = on }),
		toggle("--enable-prefix-caching", func(a *arguments, on bool) { a.budget.PrefixCaching = &on }),
		toggle("--disable-hybrid-kv-cache-manager", func(a *arguments, on bool) { a.budget.OneKind = on }),
		toggle("--enable-lora", func(a *arguments, on bool) { a.lora = on }),
		toggle("--language-model-only", func(a *arguments, on bool) {
			if on {
				none := int64(0)
				a.budget.MediaItems = &none
			}
		}),
	}
}

// limits reads how many images a prompt may have: {"image": 2}, image=2,video=0.
func (a *arguments) limits(member, value string) error {
	counts := map[string]any{}
	switch {
	case member != "" || strings.HasPrefix(strings.TrimSpace(value), "{"):
		var err error
		if counts, err = members(counts, member, value); err != nil {
			return err
		}
	default:
		for _, part := range strings.Split(value, ",") {
			name, n, _ := strings.Cut(part, "=")
			if f, err := strconv.ParseFloat(n, 64); err == nil {
				counts[strings.TrimSpace(name)] = f
			}
		}
	}
	all, some := int64(0), false
	for name, n := range counts {
		f, is := n.(float64)
		if !is || f < 0 || f > 1<<20 {
			return &Error{Msg: fmt.Sprintf("--limit-mm-per-prompt %s is %v, expected a count", name, n)}
		}
		all, some = all+int64(f), true
	}
	if some && (all > 0 || len(counts) >= 1 && counts["image"] != nil) {
		a.budget.MediaItems = &all
	}
	return nil
}

// unmodelled is flags that bear on sizes in a way that is not modelled, each with
// what it does.
const unmodelled = `
	--cpu-offload-gb: weights are kept in main memory and brought to the device
	--offload-backend --cpu-offload-params --offload-group-size --offload-num-in-group --offload-params --offload-prefetch-step: weights are kept in main memory and brought to the device
	--prefill-context-parallel-size -pcp: positions of prompts are divided over ranks
	--mamba-cache-mode --mamba-block-size: the states of recurrent layers are kept otherwise
	--mamba-cache-dtype --mamba-ssm-cache-dtype: the states of recurrent layers are kept in another format
	--kv-cache-dtype-skip-layers: some layers keep their cache in another format
	--kv-transfer-config --ec-transfer-config: a connector may hold memory of its own and change how the cache is cut
	--hf-overrides: it replaces keys of the model's configuration
	--hf-config-path: the model's configuration is read elsewhere
	--compilation-config -cc -O: it can change what is captured and compiled
	--optimization-level: it can change what is captured and compiled
	--performance-mode: it can change what is captured and compiled
	--additional-config --attention-config --kernel-config --quantization-config: what it changes is not modelled
	--model-impl: another implementation of the model makes other tensors
	--load-format: weights in that form are loaded otherwise
	--model-loader-extra-config: weights are loaded otherwise
	--runner --task --convert --pooler-config --override-pooler-config: a model that pools samples nothing
	--mm-processor-kwargs: images are made larger or smaller
	--mm-encoder-tp-mode: the tower may be whole on each rank
	--logprobs-mode: other copies of the logits are kept
	--config: the file with more arguments is not read
	--num-scheduler-steps --num-lookahead-slots: slots ahead are reserved
	--ubatch-size: steps are cut in two
	--mm-ipc-gpu-memory-gb: memory is set apart for images
	--replayssm-buffer-len: states are kept for later
	--speculative-model: a model beside that guesses ahead is not counted
	--num-speculative-tokens: a model beside that guesses ahead is not counted
	--model-class-overrides --worker-cls --scheduler-cls --worker-extension-cls: another class can do anything
	--pt-load-map-location: where files are read to first
	--lora-dtype: adapters are kept in another format
	--max-num-scheduled-tokens: another bound on the positions of a step
	--diffusion-config: a model of another kind`

const unmodelledSwitches = `--enable-dbo --enable-eplb --disable-sliding-window --use-v2-block-manager --fully-sharded-loras --enable-return-routed-experts
	--enable-prompt-embeds --enable-mm-embeds --mm-encoder-only --enable-tower-connector-lora --kv-sharing-fast-prefill --skip-mm-profiling
	--enable-elastic-ep --use-replayssm --calculate-kv-scales --enable-sleep-mode --enable-cumem-allocator`

// harmless is flags with a value that bears on no size on a device.
const harmless = `--host --port --uds --api-key --uvicorn-log-level --root-path --ssl-keyfile --ssl-certfile --ssl-ca-certs --ssl-cert-reqs --ssl-ciphers
	--middleware --allowed-methods --allowed-headers --chat-template --chat-template-content-format --default-chat-template-kwargs --response-role
	--tool-call-parser --tool-parser-plugin --tool-server --reasoning-parser --reasoning-parser-plugin --reasoning-config --log-config-file --max-log-len
	--download-dir --revision --code-revision --tokenizer --tokenizer-revision --tokenizer-mode --config-format --hf-token --seed --ignore-patterns
	--distributed-executor-backend --distributed-timeout-seconds --cpu-distributed-timeout-seconds --max-parallel-loading-workers --safetensors-load-strategy
	--safetensors-prefetch-block-size --safetensors-prefetch-num-threads --generation-config --override-generation-config --logits-processor-pattern
	--logits-processors --scheduling-policy --stream-interval --prefix-caching-hash-algo --max-logprobs --max-cpu-loras --long-prefill-token-threshold
	--max-num-partial-prefills --max-long-partial-prefills --attention-backend --mm-encoder-attn-backend --structured-outputs-config --guided-decoding-backend
	--otlp-traces-endpoint --collect-detailed-traces --kv-events-config --profiler-config --data-parallel-rank|-dpn --data-parallel-start-rank|-dpr
	--data-parallel-size-local|-dpl --data-parallel-address|-dpa --data-parallel-rpc-port|-dpp --data-parallel-backend|-dpb --nnodes --node-rank
	--master-addr --master-port --all2all-backend --moe-backend --linear-backend --gdn-prefill-backend --kda-prefill-backend --mamba-backend
	--expert-placement-strategy --eplb-config --mm-processor-cache-gb --mm-processor-cache-type --mm-shm-cache-max-object-size-mb --mm-tensor-ipc
	--media-io-kwargs --allowed-local-media-path --allowed-media-domains --video-pruning-rate --io-processor-plugin --renderer-num-workers
	--shutdown-timeout --show-hidden-metrics-for-version --kv-cache-metrics-sample --kv-offloading-backend --kv-offloading-size --cp-kv-cache-interleave-size
	--dcp-kv-cache-interleave-size --dcp-comm-backend --device --device-ids --default-mm-loras --lora-target-modules --weight-transfer-config
	--dbo-decode-token-threshold --dbo-prefill-token-threshold --api-server-count|-asc --disable-access-log-for-endpoints --override-attention-dtype
	--scheduler-delay-factor --numa-bind-cpus --numa-bind-nodes --jit-monitor-mode --ir-op-priority --watermark --swap-space
	--fault-tolerance-config --mamba-cache-philox-rounds --mamba-ssu-algorithm --mm-encoder-attn-dtype --mm-encoder-fp8-scale-path
	--mm-encoder-fp8-scale-save-margin --mm-encoder-fp8-scale-save-path --mm-hasher-algorithm --prefill-schedule-interval --prefix-match-unit
	--video-pruning-method`

// harmlessSwitches is switches that bear on no size on a device.
const harmlessSwitches = `--trust-remote-code --enable-auto-tool-choice --enable-reasoning --disable-log-stats --disable-log-requests --enable-log-requests
	--disable-uvicorn-access-log --allow-credentials --return-tokens-as-token-ids --enable-request-id-headers --disable-fastapi-docs --enable-offline-docs
	--enable-prompt-tokens-details --enable-server-load-tracking --enable-force-include-usage --enable-tokenizer-info-endpoint --enable-log-outputs
	--enable-log-deltas --log-error-stack --enable-ssl-refresh --trust-request-chat-template --exclude-tools-when-tool-choice-none --enable-chunked-prefill
	--disable-custom-all-reduce --disable-cascade-attn --async-scheduling --skip-tokenizer-init --aggregate-engine-logging --ray-workers-use-nsight
	--disable-chunked-mm-input --interleave-mm-strings --use-tqdm-on-load --kv-cache-metrics --cudagraph-metrics --enable-mfu-metrics
	--enable-layerwise-nvtx-tracing --enable-logging-iteration-details --fail-on-environ-validation --allow-deprecated-quantization --headless
	--data-parallel-hybrid-lb -dph --data-parallel-external-lb -dpe --data-parallel-multi-port-external-lb --scheduler-reserve-full-isl
	--enable-flashinfer-autotune --disable-nccl-for-dp-synchronization --disable-frontend-multiprocessing --tokens-only --specialize-active-lora
	--enable-ep-weight-filter --numa-bind --jit-monitor-verbose --enable-fault-tolerance --jit-monitor --enable-moe-shared-loras
	--enable-bf16x3-router-gemm --enable-mamba-cache-stochastic-rounding --enable-mixed-moe-lora-format --use-fp64-gumbel`
