package recipe

import (
	"strings"
	"testing"
)

// What a software refuses is refused here: with the file and the key, and what the
// software expects; what it takes is not.
func TestSoftwaresRefuse(t *testing.T) {
	const (
		titan  = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 2048\nlocal_batch_size = 8\n[parallelism]\n"
		lf     = "model_name_or_path: m\nstage: sft\ndo_train: true\n"
		lora   = lf + "finetuning_type: lora\n"
		axo    = "base_model: m\nmicro_batch_size: 2\n"
		tune   = "model: {_component_: torchtune.models.llama3_1.llama3_1_8b}\noptimizer: {_component_: torch.optim.AdamW}\ntokenizer: {max_seq_len: 512}\n"
		hf     = "model_name_or_path: m\nnum_train_epochs: 1\n"
		launch = "compute_environment: LOCAL_MACHINE\nnum_train_epochs: 1\n"
		taken  = ""
	)
	for _, c := range []struct{ name, text, want string }{
		{"t.toml", titan + "tensor_parallel_degree = 0\n", "t.toml: parallelism.tensor_parallel_degree: is 0, and torchtitan expects 1 or more"},
		{"t.toml", titan + "tensor_parallel_degree = -1\n", "is -1, and torchtitan expects 1 or more"},
		{"t.toml", titan + "context_parallel_degree = -2\n", "parallelism.context_parallel_degree: is -2"},
		{"t.toml", titan + "expert_parallel_degree = 0\n", "parallelism.expert_parallel_degree: is 0"},
		{"t.toml", titan + "pipeline_parallel_degree = 0\n", "parallelism.pipeline_parallel_degree: is 0"},
		{"t.toml", titan + "data_parallel_replicate_degree = -1\n", "is -1, and torchtitan expects 1 or more"},
		{"t.toml", titan + "data_parallel_shard_degree = -1\n", taken},
		{"t.toml", titan + "data_parallel_shard_degree = -2\n", "is -2, and torchtitan expects 1 or more or -1"},
		{"t.toml", titan + "data_parallel_shard_degree = 0\n", "is 0, and torchtitan expects 1 or more or -1"},
		{"t.toml", titan + "fsdp_reshard_after_forward = \"sometimes\"\n", "default, always or never"},
		{"t.toml", titan + "pipeline_parallel_microbatch_size = 0\n", "is 0, and torchtitan expects 1 or more"},
		{"t.toml", titan + "[validation]\nseq_len = -1\n", "validation.seq_len: is -1"},
		{"t.toml", titan + "[activation_checkpoint]\nmode = \"some\"\n", "none, selective, full or memory_budget"},
		{"t.toml", strings.Replace(titan, "= 2048", "= 0", 1), "training.seq_len: is 0"},
		{"t.toml", strings.Replace(titan, "= 8\n", "= 0\n", 1), "training.local_batch_size: is 0"},
		{"t.toml", strings.Replace(titan, "= 8\n", "= 8\nglobal_batch_size = 0\n", 1), "training.global_batch_size: is 0, and torchtitan expects 1 or more or -1 or less"},
		{"t.toml", strings.Replace(titan, "= 8\n", "= 8\nglobal_batch_size = -1\n", 1), taken},

		{"l.yaml", lora + "quantization_bit: 4\n", taken},
		{"l.yaml", lora + "quantization_bit: 3\n", "l.yaml: quantization_bit: is 3, and LLaMA-Factory expects 4 or 8 bits, or quantization_method hqq"},
		{"l.yaml", lora + "quantization_bit: 3\nquantization_method: hqq\n", taken},
		{"l.yaml", lora + "quantization_bit: 7\nquantization_method: hqq\n", "is 7, and LLaMA-Factory expects 1 to 6 or 8"},
		{"l.yaml", lora + "quantization_bit: 4\nquantization_method: eetq\n", "expects 8 bits"},
		{"l.yaml", lf + "finetuning_type: full\nquantization_bit: 4\n", "quantization_bit: is 4, and LLaMA-Factory expects finetuning_type lora or oft; l.yaml: finetuning_type is full"},
		{"l.yaml", lf + "finetuning_type: some\n", "lora, oft, freeze or full"},
		{"l.yaml", lora + "lora_rank: 0\n", "lora_rank: is 0, and LLaMA-Factory expects 1 or more"},
		{"l.yaml", lf + "finetuning_type: full\nlora_rank: 0\n", taken},
		{"l.yaml", lora + "lora_dropout: 1.5\n", "lora_dropout: is 1.5, and transformers expects 0 to 1"},
		{"l.yaml", lora + "lora_dropout: -0.1\n", "is -0.1"},
		{"l.yaml", lora + "lora_dropout: 1\n", taken},
		{"l.yaml", lora + "cutoff_len: 0\n", "cutoff_len: is 0"},
		{"l.yaml", lora + "cutoff_len: -5\n", "cutoff_len: is -5"},
		{"l.yaml", lora + "gradient_accumulation_steps: 0\n", "gradient_accumulation_steps: is 0, and transformers expects 1 or more"},
		{"l.yaml", lora + "per_device_train_batch_size: 0\n", "per_device_train_batch_size: is 0"},
		{"l.yaml", lora + "warmup_ratio: 1.1\n", "warmup_ratio: is 1.1"},
		{"l.yaml", lora + "use_galore: true\n", "use_galore: is true, and LLaMA-Factory expects finetuning_type full; l.yaml: finetuning_type is lora"},
		{"l.yaml", lf + "finetuning_type: freeze\nadapter_name_or_path: a\n", "adapter_name_or_path: is a, and LLaMA-Factory expects finetuning_type lora"},
		{"l.yaml", lora + "pure_bf16: true\ndeepspeed: {zero_optimization: {stage: 3}}\n", "pure_bf16: is true, and LLaMA-Factory expects another stage of ZeRO; l.yaml: zero_optimization.stage is 3"},
		{"l.yaml", lora + "fp8: true\nquantization_bit: 8\n", "fp8: is true"},
		{"l.yaml", "model_name_or_path: m\nstage: ppo\ndo_train: true\nfinetuning_type: lora\n", "stage: is ppo, and LLaMA-Factory expects a reward_model"},
		{"l.yaml", lora + "eval_strategy: sometimes\n", "no, steps, epoch or false"},

		{"a.yaml", axo + "gradient_accumulation_steps: 2\nbatch_size: 4\n", "batch_size: is 4, and axolotl expects one of them; a.yaml: gradient_accumulation_steps is 2"},
		{"a.yaml", axo + "load_in_4bit: true\n", "load_in_4bit: is true, and axolotl expects an adapter beside it"},
		{"a.yaml", axo + "load_in_4bit: true\nadapter: qlora\nlora_r: 8\n", taken},
		{"a.yaml", axo + "adapter: qlora\nlora_r: 8\n", "adapter: is qlora, and axolotl expects load_in_4bit beside it"},
		{"a.yaml", axo + "adapter: lora\nlora_r: 0\n", "lora_r: is 0"},
		{"a.yaml", axo + "fp16: true\nbf16: true\n", "one of fp16 and bf16"},
		{"a.yaml", axo + "fp16: true\nbf16: auto\n", taken},
		{"a.yaml", axo + "tensor_parallel_size: 0\n", taken}, // 1, by axolotl
		{"a.yaml", axo + "tensor_parallel_size: -2\n", "tensor_parallel_size: is -2"},
		{"a.yaml", axo + "sample_packing: true\nrl: dpo\n", "no packing beside preferences"},
		{"a.yaml", axo + "save_steps: 10\nsave_strategy: epoch\n", "save_strategy steps"},
		{"a.yaml", "base_model: m\nmicro_batch_size: 0\n", "micro_batch_size: is 0"},
		{"a.yaml", axo + "sequence_len: -1\n", "sequence_len: is -1"},
		{"a.yaml", axo + "deepspeed: d.json\nfsdp: [full_shard]\n", "one of them"},
		{"a.yaml", axo + "x: !!binary aGk=\n", "its tag !!binary makes another kind of value"},
		{"a.yaml", axo + "x: !!python/object:os.system [ls]\n", "its tag !!python/object:os.system"},

		{"u.yaml", tune + "batch_size: 0\n", "batch_size: is 0, and torchtune expects 1 or more"},
		{"u.yaml", tune + "batch_size: 2\ngradient_accumulation_steps: 0\n", "gradient_accumulation_steps: is 0"},
		{"u.yaml", tune + "optimizer_in_bwd: true\ngradient_accumulation_steps: 8\n", "optimizer_in_bwd: is true, and torchtune expects gradient_accumulation_steps 1 beside it; u.yaml: gradient_accumulation_steps is 8"},
		{"u.yaml", tune + "optimizer_in_bwd: true\ngradient_accumulation_steps: 1\n", taken},
		{"u.yaml", tune + "dtype: fp16\n", "dtype: is fp16, and torchtune expects bf16, fp32 or fp64"},
		{"u.yaml", tune + "enable_activation_offloading: true\n", "enable_activation_checkpointing beside it"},
		{"u.yaml", tune + "tensor_parallel_dim: 2\n", "a tensor_parallel_plan beside it"},
		{"u.yaml", tune + "data_parallel_shard_dim: 0\n", "1 or more or -1"},
		{"u.yaml", strings.Replace(tune, "512", "-1", 1), "tokenizer.max_seq_len: is -1"},

		{"h.yaml", hf + "gradient_accumulation_steps: 0\n", "gradient_accumulation_steps: is 0, and transformers expects 1 or more"},
		{"h.yaml", hf + "use_peft: true\nlora_r: 0\n", "lora_r: is 0"},
		{"h.yaml", hf + "lora_r: 0\n", taken}, // a script's own way to have none
		{"h.yaml", hf + "load_in_4bit: true\nload_in_8bit: true\n", "load_in_4bit: is true, and transformers expects one of 4 and 8 bits; h.yaml: load_in_8bit is true"},
		{"h.yaml", hf + "max_length: 0\n", "max_length: is 0"},
		{"h.yaml", hf + "lora_dropout: 17\n", "lora_dropout: is 17"},
		{"h.yaml", hf + "vllm_gpu_memory_utilization: 1.2\n", "0 to 1"},
		{"h.yaml", hf + "bnb_4bit_quant_type: nf3\n", "fp4 or nf4"},
		{"h.yaml", hf + "fp16: true\nbf16: true\n", "one of fp16 and bf16"},
		{"h.yaml", hf + "eval_strategy: steps\nper_device_eval_batch_size: 0\n", "per_device_eval_batch_size: is 0"},

		{"d.json", `{"zero_optimization": {"stage": 7}}`, "d.json: zero_optimization.stage: is 7, and DeepSpeed expects 0 to 3"},
		{"d.json", `{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "disk"}}}`, "none, cpu or nvme"},
		{"d.json", `{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu", "ratio": 0.5}}}`, "ratio: is 0.5, and DeepSpeed expects stage 3"},
		{"d.json", `{"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu", "ratio": 1.5}}}`, "ratio: is 1.5"},
		{"d.json", `{"train_micro_batch_size_per_gpu": 0}`, "train_micro_batch_size_per_gpu: is 0"},
		{"d.json", `{"train_batch_size": "auto", "zero_optimization": {"stage": 2}}`, taken},

		{"c.yaml", launch + "num_processes: 0\n", "num_processes: is 0, and accelerate expects 1 or more"},
		{"c.yaml", launch + "mixed_precision: fp4\n", "no, fp16, bf16, fp8 or false"},
		{"c.yaml", launch + "fsdp_config: {fsdp_version: 3}\n", "fsdp_config.fsdp_version: is 3, and accelerate expects 1 to 2"},
		{"c.yaml", launch + "deepspeed_config: {zero_stage: 5}\n", "deepspeed_config.zero_stage: is 5"},
	} {
		files := []string{c.name}
		written := map[string]string{c.name: c.text, "d.json": `{"zero_optimization": {"stage": 2}}`, "h0.yaml": hf}
		if c.name == "d.json" {
			written[c.name] = c.text
		}
		if c.name == "c.yaml" {
			files = []string{"h0.yaml", "c.yaml"}
		}
		_, err := Read(files, published(written))
		switch {
		case c.want == taken && err != nil:
			t.Errorf("%q: %v", c.text, err)
		case c.want != taken && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

// What a command's ranks and batches contradict, and what its flags say twice.
func TestCommandsRefuse(t *testing.T) {
	titan := func(keys string) string {
		return "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 2048\n" + keys
	}
	written := map[string]string{
		"tp3.toml":  titan("local_batch_size = 1\n[parallelism]\ntensor_parallel_degree = 3\n"),
		"dp.toml":   titan("local_batch_size = 1\n[parallelism]\ndata_parallel_replicate_degree = 2\ndata_parallel_shard_degree = 3\n"),
		"dp4.toml":  titan("local_batch_size = 1\n[parallelism]\ndata_parallel_shard_degree = 4\n"),
		"gbs.toml":  titan("local_batch_size = 3\nglobal_batch_size = 16\n"),
		"odd.toml":  titan("batch_size = 8\n[experimental]\npipeline_parallel_degree = 2\npipeline_parallel_microbatches = 3\n"),
		"cp3.toml":  titan("local_batch_size = 1\n[parallelism]\ncontext_parallel_degree = 3\n"),
		"hsdp.yaml": "base_model: m\nmicro_batch_size: 2\ndp_shard_size: 4\ndp_replicate_size: 3\n", "bits.yaml": "base_model: m\nadapter: lora\nload_in_8bit: true\nload_in_4bit: true\n",
		"losses.yaml": "base_model: m\nchunked_cross_entropy: true\ncut_cross_entropy: true\n",
		"hpz.json":    `{"zero_optimization": {"stage": 3, "zero_hpz_partition_size": 4}}`,
		"bs.json":     `{"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 8, "zero_optimization": {"stage": 2}}`,
		"gas.json":    `{"train_batch_size": 20, "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2}}`,
	}
	const (
		run      = "torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file "
		megatron = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 1024 --num-attention-heads 16 --vocab-size 32000 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 2 --global-batch-size 32 --bf16"
	)
	for command, want := range map[string]string{
		run + "tp3.toml": "--nproc_per_node is 8, and torchtitan expects a multiple of the 3 × 1 × 1 ranks of tensor, pipeline and context parallelism",
		run + "dp.toml":  "dp.toml: parallelism.data_parallel_replicate_degree: is 2, and torchtitan expects replicas × parts that are the 8 data-parallel ranks, not 2 × 3",
		run + "dp4.toml": "dp4.toml: parallelism.data_parallel_shard_degree: is 4, and torchtitan expects replicas of parts that make up the 8 data-parallel ranks",
		run + "gbs.toml": "gbs.toml: training.global_batch_size: is 16, and torchtitan expects a multiple of 3 × 8 ranks, of the micro-batch",
		run + "odd.toml": "odd.toml: experimental.pipeline_parallel_microbatches: is 3, and torchtitan expects a batch of 8 that is cut into equal micro-batches, not into 3",
		"torchrun --nproc_per_node 6 run.py --model_name_or_path m --per_device_train_batch_size 2 --deepspeed hpz.json": "hpz.json: zero_optimization.zero_hpz_partition_size: is 4, and DeepSpeed expects a divisor of the 6 ranks",
		"deepspeed --num_gpus 8 run.py --model_name_or_path m --deepspeed bs.json":                                       "bs.json: train_batch_size: is 64, and DeepSpeed expects 128: a micro-batch of 2 × accumulation of 8 × 8 ranks",
		"deepspeed --num_gpus 8 run.py --model_name_or_path m --deepspeed gas.json":                                      "gas.json: train_batch_size: is 20, and DeepSpeed expects a multiple of 2 × 8 ranks",
		megatron + " --attention-dropout 17":                                                                             "--attention-dropout is 17, and Megatron-LM expects 0 to 1",
		megatron + " --hidden-dropout -0.5":                                                                              "--hidden-dropout is -0.5",
		megatron + " --expert-tensor-parallel-size 7":                                                                    "--nproc_per_node is 8, and Megatron-LM expects a multiple of the 1 × 7 × 1 ranks",
		megatron + " --context-parallel-size 0":                                                                          "--context-parallel-size is 0",
		megatron + " --optimizer banana":                                                                                 "adam, sgd",
		"torchrun --nnodes 4:1 run.py":                                                                                   "--nnodes is \"4:1\", expected MIN:MAX",
		"torchrun --nnodes 1:x run.py":                                                                                   "--nnodes is \"1:x\"",
		"torchrun --nnodes 0 run.py":                                                                                     "--nnodes is \"0\", expected a whole number of 1 or more",
		"tune run --nnodes 3:2 full_finetune_distributed":                                                                "--nnodes is \"3:2\"",
		"accelerate launch --num_processes 0 run.py":                                                                     "--num_processes is 0, and accelerate expects 1 or more",
		"tune run lora_finetune_single_device --config torchtune_8b_full.yaml batch_size=0":                              "batch_size is 0, and torchtune expects 1 or more",
		"trl sft --model_name_or_path m --gradient_accumulation_steps 0":                                                 "--gradient_accumulation_steps is 0",
		"trl sft --model_name_or_path m --max_length -3":                                                                 "--max_length is -3",
		"accelerate launch --num_processes 2 grpo.py --model_name_or_path m --per_device_train_batch_size 4 --num_generations 5": "--num_generations is 5, and transformers expects a divisor of the 8 completions",
		"tune run --nproc_per_node 2 full_finetune_single_device --config torchtune_8b_full.yaml":                                "it runs on one device",
		"tune run --nproc_per_node 8 full_finetune_distributed --config torchtune_8b_full.yaml data_parallel_replicate_dim=3":    "data_parallel_replicate_dim is 3, and torchtune expects",
		"CUDA_VISIBLE_DEVICES=0 torchrun --nproc_per_node 4 run.py --model_name_or_path m":                                       "--nproc_per_node is 4, and transformers expects no more than the devices of CUDA_VISIBLE_DEVICES, 1",
		"NPROC_PER_NODE=many llamafactory-cli train llamafactory_full.yaml":                                                      "NPROC_PER_NODE is \"many\"",
		"NPROC_PER_NODE=0 llamafactory-cli train llamafactory_full.yaml":                                                         "NPROC_PER_NODE is \"0\"",
		"axolotl train hsdp.yaml --nproc_per_node 8":                                                                             "hsdp.yaml: dp_replicate_size: is 3, and axolotl expects replicas × parts that are the 8",
		"axolotl train bits.yaml":   "one of 4 and 8 bits",
		"axolotl train losses.yaml": "cut_cross_entropy is true",
		"torchrun --nproc_per_node 3 -m torchtitan.train --job.config_file cp3.toml": "cp3.toml: training.seq_len: is 2048, and torchtitan expects a multiple of twice the context parallelism of 3",
		"trl grpo --model_name_or_path m --num_generations=-1":                       "--num_generations is -1, and transformers expects 1 or more",
		"trl grpo --model_name_or_path m --num_generations 0":                        "--num_generations is 0",
	} {
		if _, err := Parse(strings.Fields(command), published(written)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", command, err, want)
		}
	}
}

// Ranks that are said beside files divide what the files say, or contradict it.
func TestRanksBesideFiles(t *testing.T) {
	titan := "[model]\nname = \"llama3\"\nflavor = \"8B\"\n[training]\nseq_len = 2048\nlocal_batch_size = 2\nglobal_batch_size = 64\n[parallelism]\ntensor_parallel_degree = 2\ndata_parallel_replicate_degree = 2\n"
	for ranks, want := range map[int]string{8: "", 4: "", 3: "training.global_batch_size: is 64, and torchtitan expects a multiple of 2 × 3 ranks", 1: "parallelism.data_parallel_replicate_degree: is 2"} {
		r, err := Read([]string{"t.toml"}, published(map[string]string{"t.toml": titan}))
		if err != nil {
			t.Fatal(err)
		}
		w := r.Workload
		w.Mesh.DataParallel = ranks
		err = r.Ranked(&w)
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%d ranks: %v, want %q", ranks, err, want)
		case want == "" && (err != nil || w.Training.Accumulation != int64(32/ranks) || w.Training.Sharding.Group != int64(ranks/2)):
			t.Errorf("%d ranks: %v, %+v %+v", ranks, err, w.Training, w.Training.Sharding)
		}
	}
}

// Of a flag that is given twice the last counts, as argparse has it, and it is said.
func TestFlagsGivenTwice(t *testing.T) {
	for command, want := range map[string]string{
		"torchrun --nproc_per_node 2 --nproc_per_node 4 run.py --model_name_or_path m":                                                                                "--nproc_per_node is given twice, 2 and then 4: the last counts",
		"torchrun --nproc_per_node 4 run.py --model_name_or_path m --block_size 8 --block_size 16":                                                                    "--block_size is given twice, 8 and then 16: the last counts",
		"torchrun --nproc_per_node 4 pretrain_gpt.py --num-layers 3 --num-layers 8 --pipeline-model-parallel-size 4 --micro-batch-size 1 --max-position-embeddings 8": "--num-layers is given twice, 3 and then 8: the last counts",
		"torchrun --nproc_per_node 4 run.py --model_name_or_path m --per_device_train_batch_size 2 --per_device_train_batch_size=2":                                   "",
	} {
		r, err := Parse(strings.Fields(command), published(nil))
		if err != nil {
			t.Errorf("%s: %v", command, err)
			continue
		}
		said := ""
		for _, w := range r.Warnings {
			if w.Code == "given_twice" {
				said = w.Text
			}
		}
		if said != want || r.Workload.Mesh.Ranks() != 4 && want != "" {
			t.Errorf("%s: %q of %d ranks, want %q", command, said, r.Workload.Mesh.Ranks(), want)
		}
	}
}

// A training has one configuration of its software, and one of each thing beside it.
func TestFilesOfOneKind(t *testing.T) {
	for _, files := range [][]string{
		{"trl_sft.yaml", "axolotl_fft_8b.yaml"}, {"llamafactory_full.yaml", "llamafactory_full.yaml"}, {"trl_sft.yaml", "accelerate_fsdp2.yaml", "accelerate_fsdp2.yaml"},
	} {
		if _, err := Read(files, published(nil)); err == nil || !strings.Contains(err.Error(), "a training has one of its kind") {
			t.Errorf("%s: %v", files, err)
		}
	}
}

// Numbers that TOML does not allow are refused, with their line; those that it does are read.
func TestTOMLNumbers(t *testing.T) {
	for _, number := range []string{"010", "1__0", "1_", "_1", "0X1F", "0x", "0x1p3", ".5", "5.", "1.e3", "1e", "Inf", "NaN", "infinity", "+-1", "0b2", "0o8", "1_.0", "+0x1F"} {
		if _, err := decodeTOML("f.toml", []byte("a = "+number+"\n")); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("%s: %v", number, err)
		}
	}
	for number, want := range map[string]any{"1_000": int64(1000), "+7": int64(7), "-0": int64(0), "0x1F": int64(31), "0o17": int64(15), "0b11": int64(3), "1e3": int64(1000), "6.5": 6.5, "-2.5e-1": -0.25} {
		tree, err := decodeTOML("f.toml", []byte("a = "+number+"\n"))
		if err != nil || tree["a"] != want {
			t.Errorf("%s: %v %v", number, tree["a"], err)
		}
	}
}

// A 0 that is said is no default.
func TestZerosThatAreSaid(t *testing.T) {
	written := map[string]string{"d.json": `{"zero_optimization": {"stage": 3, "reduce_bucket_size": 0, "allgather_bucket_size": 0,
		"stage3_prefetch_bucket_size": 0, "stage3_param_persistence_threshold": 0, "stage3_max_live_parameters": 0}}`}
	for command, want := range map[string][6]int64{
		"torchrun --nproc_per_node 2 run.py --model_name_or_path m --deepspeed d.json":    {0, -1, -1, -1, -1, -1},
		"torchrun --nproc_per_node 2 run.py --model_name_or_path m":                       {},
		"torchrun --nproc_per_node 2 run.py --model_name_or_path m --ddp_bucket_cap_mb 0": {-1},
	} {
		r, err := Parse(strings.Fields(command), published(written))
		if err != nil {
			t.Fatal(err)
		}
		s := r.Workload.Training.Sharding
		if got := [6]int64{s.BucketBytes, s.ReduceBucket, s.GatherBucket, s.Prefetch, s.Persistence, s.MostLive}; got != want {
			t.Errorf("%s: %v, want %v", command, got, want)
		}
	}
}

// What builds the model of torchtune, and keys that its sections do not have, are named,
// and nothing is decided over them.
func TestTorchtuneIsOpen(t *testing.T) {
	const rest = "\noptimizer: {_component_: torch.optim.AdamW}\nbatch_size: 2\n"
	const model = "model: {_component_: torchtune.models.llama3_1.llama3_1_8b}" + rest
	for text, want := range map[string]string{
		model + "tokenizer: {max_seq_len: 512}\ndataset: {_component_: d, packed: true, split: train}\n": "",
		"model: {_component_: my.own.builder}" + rest:                                                    "u.yaml: model._component_: what it builds is not known here",
		"model: null" + rest:                               "u.yaml: model: it builds no model",
		model + "tokenizer: {max_seq_length: 131072}\n":    "u.yaml: tokenizer.max_seq_length: this key is not known",
		model + "dataset: {max_seq_len_override: 99999}\n": "u.yaml: dataset.max_seq_len_override: this key is not known",
	} {
		r, err := Read([]string{"u.yaml"}, published(map[string]string{"u.yaml": text}))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if open := strings.Join(r.Workload.Open, "; "); !strings.Contains(open, want) || (open == "") != (want == "") {
			t.Errorf("%q: %q, want %q", text, open, want)
		}
	}
}
