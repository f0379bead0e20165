package recipe

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"floodmark/dtype"
	"floodmark/workload"
)

// Commands as people write them, and what they declare.
func TestParse(t *testing.T) {
	for _, c := range []struct {
		command string
		want    func(*Recipe, *workload.Train) bool
	}{
		{"torchrun --nproc_per_node 8 --nnodes 2 train.py --model_name_or_path org/m --per_device_train_batch_size 4 --bf16 True --model_max_length 2048 --gradient_checkpointing --fsdp full_shard,auto_wrap", func(r *Recipe, t *workload.Train) bool {
			return r.Models[0] == "org/m" && r.Workload.Mesh.DataParallel == 16 && t.Sharding.Kind == workload.FSDP1 && dimension(r, workload.Context) == 2048
		}},
		{"python -m torch.distributed.run --nproc-per-node=4 train.py --model_name_or_path m --deepspeed examples/deepspeed/ds_z3_config.json --bf16", func(r *Recipe, t *workload.Train) bool {
			return r.Workload.Mesh.DataParallel == 4 && t.Sharding.Kind == workload.ZeRO3 && formats(r) == "bf16 bf16 fp32 fp32"
		}},
		{"deepspeed --num_gpus 2 train.py --deepspeed --deepspeed_config deepspeed_zero3_offload.json --model_name_or_path m", func(r *Recipe, t *workload.Train) bool {
			return r.Workload.Mesh.DataParallel == 2 && t.Sharding.Kind == workload.ZeRO3 && t.Accumulation == 1
		}},
		{"deepspeed --include localhost:0,2,3 train.py --deepspeed_config deepspeed_zero3_offload.json", func(r *Recipe, t *workload.Train) bool { return r.Workload.Mesh.DataParallel == 3 }},
		{"tune run --nproc_per_node 2 full_finetune_distributed --config torchtune_8b_full.yaml batch_size=4 tokenizer.max_seq_len=1024", func(r *Recipe, t *workload.Train) bool {
			return r.Workload.Mesh.DataParallel == 2 && dimension(r, workload.MicroBatch) == 4 && dimension(r, workload.Context) == 1024 && t.Sharding.Kind == workload.FSDP2
		}},
		{"tune run lora_finetune_single_device --config torchtune_8b_qlora.yaml", func(r *Recipe, t *workload.Train) bool { return r.Workload.Mesh.Ranks() == 1 && t.Sharding == nil }},
		{"NPROC_PER_NODE=4 FORCE_TORCHRUN=1 llamafactory-cli train llamafactory_full.yaml per_device_train_batch_size=2", func(r *Recipe, t *workload.Train) bool {
			return r.Workload.Mesh.DataParallel == 4 && dimension(r, workload.MicroBatch) == 2
		}},
		{"llamafactory-cli train --stage sft --model_name_or_path m --finetuning_type lora --bf16 --quantization_bit 4", func(r *Recipe, t *workload.Train) bool {
			return t.Tuning.Base == "nf4-double" && t.Tuning.Rank == 8 && slices.Equal(t.Tuning.Targets, []string{"all-linear"})
		}},
		{"axolotl train axolotl_fft_8b.yaml --micro-batch-size 2", func(r *Recipe, t *workload.Train) bool { return dimension(r, workload.MicroBatch) == 2 }},
		{"accelerate launch -m axolotl.cli.train axolotl_fft_8b.yaml", func(r *Recipe, t *workload.Train) bool { return r.Software == "axolotl" }},
		{"trl sft --config trl_sft.yaml --accelerate_config zero3", func(r *Recipe, t *workload.Train) bool {
			return t.Sharding.Kind == workload.ZeRO3 && formats(r) == "bf16 bf16 fp32 fp32" && t.Checkpointing.Kind == workload.FullCheckpointing && dimension(r, workload.Context) == 1024
		}},
		{"torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file torchtitan_8b.toml --training.bogus 3 --checkpoint.no-enable", func(r *Recipe, t *workload.Train) bool {
			return slices.ContainsFunc(r.Workload.Open, func(s string) bool { return strings.HasPrefix(s, "--training.bogus: ") }) && len(r.Workload.Open) == 1
		}},
		{"torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file torchtitan_8b.toml --training.compile --float8.enable_float8_linear --float8.enable_fsdp_float8_all_gather --experimental.enable_async_tensor_parallel --parallelism.tensor_parallel_degree=2", func(r *Recipe, t *workload.Train) bool {
			return slices.Equal(r.Workload.Features, []workload.Feature{workload.TorchCompile, workload.FP8Compute, workload.FP8Gather, workload.AsyncTensorParallel})
		}},
		{"torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file torchtitan_8b.toml --training.seq_len 4096 --parallelism.tensor_parallel_degree=2", func(r *Recipe, t *workload.Train) bool {
			return r.Workload.Mesh.TensorParallel == 2 && r.Workload.Mesh.DataParallel == 4 && dimension(r, workload.Context) == 4096
		}},
		{"CUDA_VISIBLE_DEVICES=0,1 python dpo.py --model_name_or_path m --per_device_train_batch_size 3", func(r *Recipe, t *workload.Train) bool {
			return dimension(r, workload.MicroBatch) == 6 && r.Workload.Resident[0].Name == "reference" && r.Workload.Resident[0].Model == "m" && r.Workload.Mesh.DataParallel == 2
		}},
		{"python dpo.py --model_name_or_path m --use_peft --lora_r 32 --lora_target_modules q_proj v_proj", func(r *Recipe, t *workload.Train) bool {
			return len(r.Workload.Resident) == 0 && t.Tuning.Rank == 32 && len(t.Tuning.Targets) == 2
		}},
		{"trl grpo --model_name_or_path m --max_prompt_length 512 --max_completion_length 256 --use_vllm --vllm_mode colocate --vllm_gpu_memory_utilization 0.55 --beta 0.04 --reward_model_name_or_path org/reward", func(r *Recipe, t *workload.Train) bool {
			w := r.Workload
			return dimension(r, workload.Context) == 768 && len(w.Resident) == 3 && w.Resident[1].Engine == "vllm" && w.Resident[1].Utilization == 0.55 && w.Resident[2].Model == "org/reward"
		}},
		{"trl grpo --model_name_or_path m --use_vllm --vllm_mode server", func(r *Recipe, t *workload.Train) bool { return len(r.Workload.Resident) == 0 }},
	} {
		r, err := Parse(strings.Fields(c.command), published(nil))
		if err != nil {
			t.Errorf("%s: %v", c.command, err)
			continue
		}
		if !c.want(r, r.Workload.Training) {
			t.Errorf("%s: %+v\n%+v\n%+v", c.command, r.Workload, r.Workload.Training, r.Workload.Training.Sharding)
		}
	}
}

// The published script that trains Llama 3 8B with Megatron-LM, with its variables
// filled in: 16 bits, gradients reduced in 16, and a model of its own arguments.
const megatron8B = `torchrun --nproc_per_node 8 --nnodes 1 --node_rank 0 --master_addr localhost --master_port 29500 pretrain_gpt.py
	--use-mcore-models --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32 --group-query-attention --num-query-groups 8
	--kv-channels 128 --seq-length 8192 --max-position-embeddings 8192 --position-embedding-type rope --rotary-base 1000000 --rotary-percent 1.0
	--attention-dropout 0.0 --hidden-dropout 0.0 --swiglu --normalization RMSNorm --init-method-std 0.0134 --attention-backend fused --apply-layernorm-1p
	--untie-embeddings-and-output-weights --disable-bias-linear --micro-batch-size 1 --global-batch-size 128 --train-samples 1953125000 --lr 0.00015
	--clip-grad 1.0 --weight-decay 0.1 --adam-beta1 0.9 --bf16 --grad-reduce-in-bf16 --cross-entropy-loss-fusion --calculate-per-token-loss --manual-gc
	--empty-unused-memory-level 1 --tensor-model-parallel-size 1 --context-parallel-size 1 --sequence-parallel --use-distributed-optimizer
	--overlap-grad-reduce --overlap-param-gather --mock-data --tokenizer-type NullTokenizer --vocab-size 128256 --tiktoken-pattern v2 --split 99,1,0
	--no-create-attention-mask-in-dataloader --no-mmap-bin-files --num-workers 1 --log-interval 1 --eval-iters 32 --ckpt-format torch_dist --save x --load x`

func TestMegatron(t *testing.T) {
	r, err := Parse(strings.Fields(megatron8B), published(nil))
	if err != nil {
		t.Fatal(err)
	}
	train := r.Workload.Training
	if formats(r) != "bf16 bf16 fp32 fp32" || train.Sharding.Kind != workload.Distributed || train.Accumulation != 16 || train.SequenceParallel || // which one rank of tensors switches off
		r.Workload.Engine.Name != "megatron" || len(r.Workload.Open) > 0 {
		t.Errorf("%s %+v %v", formats(r), train, r.Workload.Open)
	}
	for _, want := range []string{`"model_type":"llama"`, `"vocab_size":128256`, `"num_key_value_heads":8`, `"head_dim":128`, `"tie_word_embeddings":false`} {
		if !strings.Contains(string(r.Config), want) {
			t.Errorf("%s lacks %s", r.Config, want)
		}
	}
	if m := train.Megatron; m.Attention != workload.FusedKernels || m.HiddenDropout == nil || *m.HiddenDropout || m.AttentionDropout == nil || m.CrossEntropy != workload.NativeFusedLoss || m.LoaderMask == nil || m.AccumulationFusion != nil {
		t.Errorf("%+v", m)
	}
	fp8, err := Parse(append(strings.Fields(megatron8B), "--fp8-format", "hybrid", "--fp8-param-gather"), published(nil))
	if err != nil || !slices.Contains(fp8.Workload.Features, workload.FP8Compute) || len(fp8.Workload.Open) != 0 || fp8.Workload.Training.Megatron.Quantisation != workload.DelayedScaling || !fp8.Workload.Training.Megatron.QuantisedParameters {
		t.Errorf("with FP8: %+v, %v", fp8, err)
	}
}

// Products in 8 bits: the recipe, the layers at the ends that stay in 16, and what is
// computed in 8 bits otherwise, which has no program.
func TestMegatronIn8Bits(t *testing.T) {
	for _, c := range []struct {
		arguments, open string
		want            workload.Megatron
	}{
		{"", "", workload.Megatron{Quantisation: workload.DelayedScaling}},
		{"--fp8-recipe tensorwise --first-last-layers-bf16 --num-layers-at-end-in-bf16 2", "", workload.Megatron{Quantisation: workload.CurrentScaling, WideAtStart: 1, WideAtEnd: 2}},
		{"--fp8-recipe delayed --fp8-amax-history-len 1024", "", workload.Megatron{Quantisation: workload.DelayedScaling, AmaxHistory: 1024}},
		{"--fp8-recipe mxfp8 --fp8-param-gather --reuse-grad-buf-for-mxfp8-param-ag", "", workload.Megatron{Quantisation: workload.MXScaling, QuantisedParameters: true}},
		{"--fp8-recipe blockwise --fp8-dot-product-attention", "attention is computed in 8 bits", workload.Megatron{Quantisation: workload.BlockScaling}},
		{"--fp8-recipe custom", "by the recipe custom are not modelled", workload.Megatron{}},
	} {
		r, err := Parse(append(strings.Fields(megatron8B), strings.Fields("--fp8-format hybrid "+c.arguments)...), published(nil))
		if err != nil {
			t.Fatalf("%s: %v", c.arguments, err)
		}
		m := r.Workload.Training.Megatron
		got := workload.Megatron{Quantisation: m.Quantisation, QuantisedParameters: m.QuantisedParameters, WideAtStart: m.WideAtStart, WideAtEnd: m.WideAtEnd, AmaxHistory: m.AmaxHistory}
		if open := strings.Join(r.Workload.Open, " "); !reflect.DeepEqual(got, c.want) || (open == "") != (c.open == "") || !strings.Contains(open, c.open) {
			t.Errorf("%s: %+v, %q", c.arguments, got, open)
		}
	}
	if _, err := Parse(append(strings.Fields(megatron8B), "--fp8-format", "hybrid", "--first-last-layers-bf16"), published(nil)); err == nil || !strings.Contains(err.Error(), "delayed") {
		t.Errorf("layers in 16 bits beside delayed scaling: %v", err)
	}
}

// A model that no class of Hugging Face's has is that of the arguments.
func TestMegatronArguments(t *testing.T) {
	r, err := Parse(strings.Fields("torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 512 --num-attention-heads 8 --multi-latent-attention --q-lora-rank 192 --kv-lora-rank 64 --qk-head-dim 16 --qk-pos-emb-head-dim 8 --v-head-dim 16 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 32 --bf16 --num-experts 4 --moe-layer-freq [0]*1+[1]*3 --moe-token-dispatcher-type alltoall --disable-bias-linear --cp-comm-type a2a"), published(nil))
	if err != nil {
		t.Fatal(err)
	}
	a := r.Arguments
	if r.Config != nil || a["multi-latent-attention"] != "true" || a["qk-head-dim"] != "16" || a["moe-layer-freq"] != "[0]*1+[1]*3" || a["max-position-embeddings"] != "1024" || len(r.Workload.Open) > 0 || r.Workload.Training.Megatron.ContextExchange != "a2a" {
		t.Errorf("%s %v %v %+v", r.Config, a, r.Workload.Open, r.Workload.Training.Megatron)
	}
}

// The published script that trains a small gpt-oss with Megatron-LM, with its variables put
// in (https://github.com/NVIDIA/Megatron-LM/blob/d98e8a64ddf34856e74b24714e3bedb2f5a39553/examples/gptoss/02_train.sh),
// over four cards: it divides 12 layers over as many stages as there are.
const gptOSS = `torchrun --nproc_per_node 4 --nnodes 1 --node_rank 0 --master_addr localhost --master_port 29500 pretrain_gpt.py
	--no-masked-softmax-fusion --transformer-impl transformer_engine --disable-bias-linear --untie-embeddings-and-output-weights --no-rope-fusion --normalization RMSNorm
	--num-layers 12 --hidden-size 512 --ffn-hidden-size 2048 --num-attention-heads 64 --group-query-attention --num-query-groups 8 --seq-length 8192 --max-position-embeddings 8192
	--use-mcore-models --rotary-percent 1.0 --rope-type rope --position-embedding-type rope --rotary-base 10000 --no-bias-gelu-fusion --export-force-local-attention --no-bias-dropout-fusion
	--quick-geglu --glu-linear-offset 1.0 --softmax-type learnable --window-attn-skip-freq 2 --activation-func-clamp-value 7.0 --window-size 127,0 --enable-gpt-oss
	--num-experts 4 --moe-router-topk 2 --moe-router-load-balancing-type aux_loss --moe-aux-loss-coeff 1e-3 --moe-grouped-gemm --moe-token-dispatcher-type alltoall
	--overlap-param-gather --overlap-grad-reduce --moe-ffn-hidden-size 2048 --moe-router-dtype fp32 --moe-z-loss-coeff 1e-3 --moe-permute-fusion
	--mock-data --tokenizer-type NullTokenizer --vocab-size 128256 --data-cache-path cache --tiktoken-pattern v2 --split 99,1,0 --no-create-attention-mask-in-dataloader --no-mmap-bin-files --num-workers 1
	--micro-batch-size 1 --global-batch-size 128 --lr 1.0e-5 --train-samples 1953125000 --lr-decay-samples 1949218748 --lr-decay-style cosine --min-lr 1.0e-6 --weight-decay 0.1
	--lr-warmup-fraction 0.05 --clip-grad 1.0 --bf16 --use-flash-attn --attention-softmax-in-fp32 --accumulate-allreduce-grads-in-fp32 --disable-bf16-reduced-precision-matmul --recompute-activations
	--tensor-model-parallel-size 1 --pipeline-model-parallel-size 4 --expert-model-parallel-size 1 --sequence-parallel --context-parallel-size 1 --use-distributed-optimizer
	--fp8-format hybrid --fp8-param-gather --fp8-amax-compute-algo max --fp8-amax-history-len 1024
	--log-interval 1 --save-interval 10000 --eval-interval 50000000 --eval-iters 0 --save checkpoint --tensorboard-dir checkpoint/tensorboard --moe-per-layer-logging --no-load-optim --no-load-rng --log-throughput`

// Each of its flags is known: sinks, windows of every other layer, gates that are clamped
// and not fused, for without biases Megatron-LM switches their fusion off.
func TestGPTOSS(t *testing.T) {
	r, err := Parse(strings.Fields(gptOSS), published(nil))
	if err != nil {
		t.Fatal(err)
	}
	a := r.Arguments
	if len(r.Workload.Open) > 0 || a["softmax-type"] != "learnable" || a["window-size"] != "127,0" || a["window-attn-skip-freq"] != "2" || a["quick-geglu"] != "true" || a["activation-func-clamp-value"] != "true" {
		t.Errorf("%v %v", a, r.Workload.Open)
	}
	if m := r.Workload.Training.Megatron; m.Attention != "" || !slices.Contains(m.Unfused, workload.BiasActivationFusion) || !slices.Contains(m.Unfused, workload.RopeFusion) {
		t.Errorf("%+v", m)
	}
	const large = `torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 36 --hidden-size 2880 --num-attention-heads 64 --kv-channels 64 --num-experts 128 --quick-geglu --position-embedding-type yarn
		--padded-vocab-size 201088 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --bf16 --no-bias-dropout-fusion`
	for more, unfused := range map[string]int{"": 1, "--rotary-scaling-factor 32.0": 2, "--rotary-scaling-factor 32.0 --mscale 1.0 --mscale-all-dim 1.0": 1, "--rotary-scaling-factor 32 --disable-bias-linear": 3} {
		r, err := Parse(strings.Fields(large+" "+more), published(nil))
		if err != nil || len(r.Workload.Open) > 0 || len(r.Workload.Training.Megatron.Unfused) != unfused || r.Arguments["vocab-size"] != "201088" || r.Workload.Training.Megatron.VocabularyMultiple != 1 {
			t.Errorf("%s: %+v %v", more, r, err)
		}
	}
}

// The environment says how large cuBLAS' workspaces are, arguments of checkpoints and
// inference change no size, and another script builds another model.
func TestMegatronSurroundings(t *testing.T) {
	const rest = " --num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 32 --bf16 --attention-backend unfused --async-save --use-persistent-ckpt-worker --verify-integrity --fim-data --inference-max-seq-length 64"
	for _, c := range []struct {
		command   string
		workspace int64
		open      string
	}{
		{"torchrun --nproc_per_node 8 pretrain_gpt.py", 0, ""},
		{"env CUBLAS_WORKSPACE_CONFIG=:4096:8 torchrun --nproc_per_node 8 pretrain_gpt.py", 32 << 20, ""},
		{"CUBLAS_WORKSPACE_CONFIG=large torchrun --nproc_per_node 8 pretrain_gpt.py", 0, "CUBLAS_WORKSPACE_CONFIG"},
		{"torchrun --nproc_per_node 8 pretrain_bert.py", 0, "pretrain_bert.py: it builds another model"},
		{"torchrun --nproc_per_node 8 pretrain_t5.py --decoder-num-layers 2", 0, "pretrain_t5.py: it builds another model"},
	} {
		r, err := Parse(strings.Fields(c.command+rest), published(nil))
		if err != nil {
			t.Fatal(err)
		}
		open := strings.Join(r.Workload.Open, "; ")
		if r.Workload.Training.Megatron.CublasWorkspace != c.workspace || !strings.Contains(open, c.open) || (open == "") != (c.open == "") {
			t.Errorf("%s: %d, %q", c.command, r.Workload.Training.Megatron.CublasWorkspace, open)
		}
	}
}

// Of another script's model the arguments say what is counted, whatever they lack.
func TestOtherScripts(t *testing.T) {
	for command, want := range map[string]string{
		"pretrain_bert.py --num-layers 4 --hidden-size 512 --num-attention-heads 8 --vocab-file bert-large-cased-vocab.txt":                             "bert 4 28996",
		"pretrain_t5.py --encoder-num-layers 4 --hidden-size 512 --num-attention-heads 8 --vocab-file bert-large-cased-vocab.txt --vocab-extra-ids 100": "t5  29096",
		"pretrain_mamba.py --hidden-size 512 --pipeline-model-parallel-size 2 --hybrid-layer-pattern M-M*-":                                             "mamba 2 ",
	} {
		r, err := Parse(strings.Fields("torchrun --nproc_per_node 8 "+command+" --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --bf16"), published(nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join([]string{r.Arguments["builds"], r.Arguments["num-layers"], r.Arguments["vocab-size"]}, " "); got != want || r.Config != nil {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

// The environment and an argument both ask for the same result each time.
func TestMegatronDeterministic(t *testing.T) {
	for command, want := range map[string]bool{
		"torchrun --nproc_per_node 8 pretrain_gpt.py":                                    false,
		"NVTE_ALLOW_NONDETERMINISTIC_ALGO=0 torchrun --nproc_per_node 8 pretrain_gpt.py": true,
		"NVTE_ALLOW_NONDETERMINISTIC_ALGO=1 torchrun --nproc_per_node 8 pretrain_gpt.py": false,
		"torchrun --nproc_per_node 8 pretrain_gpt.py --deterministic-mode":               true,
	} {
		r, err := Parse(strings.Fields(command+" --num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 32 --bf16"), published(nil))
		if err != nil || r.Workload.Training.Megatron.Deterministic != want {
			t.Errorf("%s: %v (%v)", command, r.Workload.Training.Megatron.Deterministic, err)
		}
	}
}

// The environment asks PyTorch's allocator for segments that grow.
func TestExpandableSegments(t *testing.T) {
	for command, want := range map[string]bool{
		"torchrun --nproc_per_node 8": false,
		"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True torchrun --nproc_per_node 8":                       true,
		"env PYTORCH_ALLOC_CONF=max_split_size_mb:64,expandable_segments:True torchrun --nproc_per_node 8":   true,
		"PYTORCH_CUDA_ALLOC_CONF=expandable_segments:False,max_split_size_mb:64 torchrun --nproc_per_node 8": false,
		"PYTORCH_CUDA_ALLOC_CONF=garbage_collection_threshold:0.8 torchrun --nproc_per_node 8":               false,
	} {
		r, err := Parse(strings.Fields(command+" pretrain_gpt.py --num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 4 --global-batch-size 32 --bf16"), published(nil))
		if err != nil || slices.Contains(r.Workload.Features, workload.ExpandableSegments) != want {
			t.Errorf("%s: %v (%v)", command, r.Workload.Features, err)
		}
	}
}

// A pipeline of Megatron's: interleaved where a stage runs several pieces, and
// recomputation with its method.
func TestMegatronPipeline(t *testing.T) {
	r, err := Parse(strings.Fields("torchrun --nproc_per_node 8 --nnodes 8 pretrain_gpt.py --num-layers 80 --hidden-size 8192 --num-attention-heads 64 --vocab-size 50257 --seq-length 4096 --max-position-embeddings 4096 --micro-batch-size 1 --global-batch-size 64 --fp16 --tensor-model-parallel-size 8 --pipeline-model-parallel-size 4 --num-layers-per-virtual-pipeline-stage 5 --recompute-granularity full --recompute-method block --recompute-num-layers 2"), published(nil))
	if err != nil {
		t.Fatal(err)
	}
	train := r.Workload.Training
	want := workload.Schedule{Kind: workload.Interleaved1F1B, Chunks: 4}
	if train.Schedule != want || train.Recompute.Method != "block" || train.Recompute.Layers != 2 || train.Accumulation != 32 || r.Workload.Mesh.DataParallel != 2 || formats(r) != "fp16 fp16 fp32 fp32" {
		t.Errorf("%+v %+v %+v", train, train.Recompute, r.Workload.Mesh)
	}
	// 50,257 entries are padded to a multiple of 128 × 8.
	if !strings.Contains(string(r.Config), `"vocab_size":51200`) || !strings.Contains(string(r.Config), `"model_type":"gpt2"`) {
		t.Errorf("%s", r.Config)
	}
}

// What DeepSpeed's "auto" becomes follows from the model's width.
func TestAuto(t *testing.T) {
	r, err := Read([]string{"llamafactory_full.yaml"}, published(nil))
	if err != nil {
		t.Fatal(err)
	}
	r.Hidden(&r.Workload, 4096)
	if s := r.Workload.Training.Sharding; s.ReduceBucket != 16777216 || s.Prefetch != 15099494 || s.Persistence != 40960 {
		t.Errorf("%+v", s)
	}
}

// Commands that start no training are left to others, and what cannot be read says so.
func TestStarts(t *testing.T) {
	for command, want := range map[string]bool{
		"torchrun train.py": true, "python train.py": true, "uv run accelerate launch x.py": true, "trl sft": true, "env A=1 deepspeed x.py": true,
		"vllm serve m": false, "python -m vllm.entrypoints.openai.api_server": false, "docker run x": false, "": false, "ls": false,
	} {
		if got := Starts(strings.Fields(command)); got != want {
			t.Errorf("%q: %v", command, got)
		}
	}
	for command, want := range map[string]string{
		"torchrun":                              "given no script",
		"torchrun --nproc_per_node $N train.py": "a variable of the shell",
		"torchrun --nproc_per_node x train.py":  "whole number",
		"accelerate env":                        "launch is read",
		"tune download x":                       "run is read",
		"llamafactory-cli chat":                 "train and export are read",
		"tune run r --config llama3_1/8B_full":  "no such file",
		"python":                                "nothing to run",
		"python -m":                             "no module",
		"python -c 1":                           "no script",
		"torchrun train.py --per_device_train_batch_size many": "--per_device_train_batch_size is many",
	} {
		if _, err := Parse(strings.Fields(command), published(nil)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", command, err, want)
		}
	}
}

// The file of a script that is not its launcher's: TrainingArguments as JSON.
func TestTrainingArgumentsAsJSON(t *testing.T) {
	written := map[string]string{"args.json": `{"model_name_or_path": "m", "output_dir": "o", "per_device_train_batch_size": 2, "fp16": true, "optim": "adafactor", "fsdp": "full_shard offload", "fsdp_config": {"version": 2, "reshard_after_forward": false}}`}
	r, err := Parse(strings.Fields("torchrun --nproc_per_node 2 run.py args.json"), published(written))
	if err != nil {
		t.Fatal(err)
	}
	s := r.Workload.Training.Sharding
	if s.Kind != workload.FSDP2 || s.ReduceFormat != dtype.F16 || len(s.Offload) != 2 || r.Workload.Training.Optimizer.Name != workload.Adafactor {
		t.Errorf("%+v %v %v", s, r.Warnings, r.Workload.Open)
	}
}

// A pipeline of torchtitan cuts a rank's batch into micro-batches: by their size, and in
// files of 2024 by their number, or into one a stage.
func TestTorchtitanCutsBatches(t *testing.T) {
	titan := func(batch, section, keys string) string {
		return "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 2048\n" + batch + " = 8\n[activation_checkpoint]\nmode = \"full\"\n[" + section + "]\npipeline_parallel_degree = 2\n" + keys
	}
	written := map[string]string{
		"new.toml": titan("local_batch_size", "parallelism", ""), "sized.toml": titan("local_batch_size", "parallelism", "pipeline_parallel_microbatch_size = 2\n"),
		"old.toml": titan("batch_size", "experimental", ""), "said.toml": titan("batch_size", "experimental", "pipeline_parallel_microbatches = 4\n"),
	}
	for file, want := range map[string][2]int64{"new.toml": {1, 8}, "sized.toml": {2, 4}, "old.toml": {4, 2}, "said.toml": {2, 4}} {
		r, err := Parse(strings.Fields("torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file "+file), published(written))
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if got := [2]int64{dimension(r, workload.MicroBatch), r.Workload.Training.Accumulation}; got != want || len(r.Workload.Open) > 0 {
			t.Errorf("%s: micro-batches %v, want %v; %v", file, got, want, r.Workload.Open)
		}
	}
}

// Groups of ranks that replicate each other, as each software declares them: of the
// ranks that there are, how many share one copy, or the second copy of ZeRO++.
func TestReplicatedGroups(t *testing.T) {
	titan := func(replicate, shard string) string {
		return "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 2048\nlocal_batch_size = 1\n[activation_checkpoint]\nmode = \"none\"\n[parallelism]\ndata_parallel_replicate_degree = " + replicate + "\ndata_parallel_shard_degree = " + shard + "\n"
	}
	written := map[string]string{
		"two.toml": titan("2", "-1"), "four.toml": titan("2", "4"), "apart.toml": titan("8", "1"), "whole.toml": titan("1", "8"),
		"hybrid.yaml": "distributed_type: FSDP\nnum_machines: 2\nnum_processes: 16\nfsdp_config:\n  fsdp_sharding_strategy: HYBRID_SHARD\n",
		"hpz.json":    `{"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 4}}`,
		"mics.json":   `{"zero_optimization": {"stage": 3, "mics_shard_size": 2}}`,
	}
	const tuned = " run.py --model_name_or_path m --per_device_train_batch_size 2 "
	for _, c := range []struct {
		command string
		group   int64
		open    bool
	}{
		{"torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file two.toml", 4, false},
		{"torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file four.toml", 4, false},
		{"torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file whole.toml", 0, false},
		{"torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file apart.toml", 0, true},
		{"torchrun --nproc_per_node 8 --nnodes 2" + tuned + "--fsdp hybrid_shard", 8, false},
		{"torchrun --nproc_per_node 8 --nnodes 2" + tuned + "--fsdp hybrid_shard_zero2", 8, false},
		{"torchrun --nproc_per_node 8" + tuned + "--deepspeed hpz.json", 4, false},
		{"torchrun --nproc_per_node 2" + tuned + "--deepspeed hpz.json", 4, false}, // of no more than there are
		{"torchrun --nproc_per_node 8" + tuned + "--deepspeed mics.json", 2, false},
	} {
		r, err := Parse(strings.Fields(c.command), published(written))
		if err != nil {
			t.Errorf("%s: %v", c.command, err)
			continue
		}
		if s := r.Workload.Training.Sharding; s == nil || s.Group+s.Secondary != c.group || (s.Secondary > 0) != strings.Contains(c.command, " hpz.json") || (len(r.Workload.Open) > 0) != c.open {
			t.Errorf("%s: %+v, want groups of %d; %v", c.command, s, c.group, r.Workload.Open)
		}
	}
}

// By which of PyTorch's two ways layers are computed again, as each software is told
// or has it by default.
func TestReentrant(t *testing.T) {
	older, newer := true, false
	const lf, axo = "model_name_or_path: m\nstage: sft\nfinetuning_type: full\nper_device_train_batch_size: 1\n", "base_model: m\nsequence_len: 512\nmicro_batch_size: 1\n"
	written := map[string]string{
		"lf.yaml": lf, "lf-newer.yaml": lf + "use_reentrant_gc: false\n", "lf-fsdp2.yaml": lf + "use_reentrant_gc: true\nfsdp: full_shard\nfsdp_config: {version: 2}\n", "lf-none.yaml": lf + "disable_gradient_checkpointing: true\n",
		"axo.yaml": axo + "gradient_checkpointing: true\n", "axo-rl.yaml": axo + "gradient_checkpointing: true\nrl: dpo\n", "axo-none.yaml": axo,
		"axo-newer.yaml": axo + "gradient_checkpointing: true\ngradient_checkpointing_kwargs: {use_reentrant: false}\n",
		"zero3.json":     `{"zero_optimization": {"stage": 3}}`,
		"args.json":      `{"model_name_or_path": "m", "output_dir": "o", "per_device_train_batch_size": 2, "gradient_checkpointing": true, "gradient_checkpointing_kwargs": {"use_reentrant": true}}`,
		"wraps.json":     `{"activation_checkpointing": true}`,
	}
	const run = "torchrun --nproc_per_node 2 run.py --model_name_or_path m --per_device_train_batch_size 2 "
	for _, c := range []struct {
		command string
		want    *bool
	}{
		{run, nil},
		{run + "--gradient_checkpointing", nil}, // the release's own
		{run + `--gradient_checkpointing --gradient_checkpointing_kwargs {"use_reentrant":false}`, &newer},
		{run + `--gradient_checkpointing --gradient_checkpointing_kwargs {"use_reentrant":true}`, &older},
		{run + `--gradient_checkpointing_kwargs {"use_reentrant":true}`, nil}, // nothing is computed again
		{run + "--bf16 --fsdp full_shard --fsdp_config wraps.json", &newer},
		{"torchrun --nproc_per_node 2 run.py args.json", &older},
		{`torchrun --nproc_per_node 2 sft.py --model_name_or_path m --dataset_name d --use_peft --gradient_checkpointing_kwargs {"use_reentrant":false}`, &newer},
		{`trl sft --model_name_or_path m --dataset_name d --use_peft --deepspeed zero3.json --gradient_checkpointing_kwargs {"use_reentrant":false}`, &older},
		{"llamafactory-cli train lf.yaml", &older}, {"llamafactory-cli train lf-newer.yaml", &newer},
		{"llamafactory-cli train lf-fsdp2.yaml", &newer}, {"llamafactory-cli train lf-none.yaml", nil},
		{"axolotl train axo.yaml", &older}, {"axolotl train axo-rl.yaml", &newer}, {"axolotl train axo-none.yaml", nil},
		{"axolotl train axo-newer.yaml", &newer},
	} {
		r, err := Parse(strings.Fields(c.command), published(written))
		if err != nil {
			t.Errorf("%s: %v", c.command, err)
			continue
		}
		got := r.Workload.Training.Reentrant
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s: %v, want %v; open %v", c.command, got, c.want, r.Workload.Open)
		}
	}
}

// fsdp_config names a file of its own keys, or is an object of JSON, on the command line
// and in a file.
func TestFSDPConfigAsAFile(t *testing.T) {
	written := map[string]string{
		"fsdp.json": `{"version": 2, "transformer_layer_cls_to_wrap": ["LlamaDecoderLayer"]}`,
		"args.yaml": "model_name_or_path: m\noutput_dir: o\nper_device_train_batch_size: 2\nfsdp: full_shard auto_wrap\nfsdp_config: fsdp.json\n",
	}
	for _, command := range []string{
		"torchrun --nproc_per_node 2 run.py --model_name_or_path m --per_device_train_batch_size 2 --fsdp full_shard --fsdp_config fsdp.json",
		`torchrun --nproc_per_node 2 run.py --model_name_or_path m --per_device_train_batch_size 2 --fsdp full_shard --fsdp_config {"fsdp_version":2}`,
		"torchrun --nproc_per_node 2 run.py args.yaml",
	} {
		r, err := Parse(strings.Fields(command), published(written))
		if err != nil {
			t.Fatal(command, err)
		}
		if s := r.Workload.Training.Sharding; s == nil || s.Kind != workload.FSDP2 || len(r.Workload.Open) > 0 {
			t.Errorf("%s: %+v %v %v", command, s, r.Warnings, r.Workload.Open)
		}
	}
	if _, err := Parse(strings.Fields("torchrun run.py --model_name_or_path m --fsdp full_shard --fsdp_config lost.json"), published(written)); err == nil || !strings.Contains(err.Error(), "lost.json") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// No command and no file makes the reader fail otherwise than by an error.
func FuzzParse(f *testing.F) {
	f.Add("accelerate launch --config_file a.yaml --num_processes 4 train.py --bf16 --deepspeed a.yaml", "zero_optimization: {stage: 3}\n")
	f.Add("tune run --nproc_per_node 2 full_finetune_distributed --config a.yaml batch_size=4", "model: {_component_: torchtune.models.llama3_1.lora_llama3_1_8b}\n")
	f.Add("torchrun -m torchtitan.train --job.config_file a.toml", "[training]\nseq_len = 8\nx = [1, 'a']\n[a.b]\nc.d = true # e\n")
	f.Add(megatron8B, "")
	f.Add("deepspeed x.py --deepspeed_config a.json", `{"bf16": {"enabled": true}, "train_batch_size": 8}`)
	f.Add("trl grpo --config a.yaml --use_vllm", "max_completion_length: 8\nbeta: 0.1\n")
	f.Fuzz(func(t *testing.T, command, text string) {
		files := func(string) ([]byte, error) { return []byte(text), nil }
		r, err := Parse(strings.Fields(command), files)
		if (r == nil) == (err == nil) {
			t.Errorf("%q: %v, %v", command, r, err)
		}
		for _, name := range []string{"a.yaml", "a.json", "a.toml"} {
			Is(name, []byte(text))
			if r, err := Read([]string{name}, files); (r == nil) == (err == nil) {
				t.Errorf("%q: %v, %v", text, r, err)
			}
		}
	})
}
