package recipe

import (
	"strings"
	"testing"
)

// What Megatron-LM refuses is refused with the flag and what it expects.
func TestMegatronRefuses(t *testing.T) {
	const base = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 1024 --num-attention-heads 16 --vocab-size 32000 --seq-length 1024 --max-position-embeddings 1024 --micro-batch-size 2 --global-batch-size 32 --bf16 "
	const refused = ", and Megatron-LM expects "
	for flags, want := range map[string]string{
		"":                               "",
		"--fp16":                         "--fp16 is true" + refused + "one of --fp16 and --bf16",
		"--tensor-model-parallel-size 0": "--tensor-model-parallel-size is 0" + refused + "1 or more",
		"--micro-batch-size 0":           "--micro-batch-size is 0" + refused + "1 or more",
		"--micro-batch-size -1":          "is -1" + refused + "1 or more",
		"--num-layers 0":                 "--num-layers is 0" + refused + "1 or more",
		"--tensor-model-parallel-size 3": "a multiple of the 3 × 1 × 1 ranks",
		"--num-attention-heads 12 --kv-channels 64 --tensor-model-parallel-size 8": "--num-attention-heads is 12" + refused + "a multiple of the tensor parallelism of 8",
		"--num-attention-heads 12":                                                                           "--hidden-size is 1024" + refused + "a multiple of the 12 heads",
		"--num-attention-heads 12 --kv-channels 64":                                                          "",
		"--group-query-attention --num-query-groups 6 --tensor-model-parallel-size 4":                        "--num-query-groups is 6" + refused,
		"--pipeline-model-parallel-size 8":                                                                   "--num-layers is 12" + refused + "a multiple of the 8 stages",
		"--pipeline-model-parallel-size 8 --decoder-first-pipeline-num-layers 5":                             "",
		"--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 4":                         "--num-layers-per-virtual-pipeline-stage is 4" + refused + "a divisor",
		"--pipeline-model-parallel-size 2 --num-layers-per-virtual-pipeline-stage 3":                         "",
		"--num-layers-per-virtual-pipeline-stage 3":                                                          "pipeline_parallel is not said" + refused + "2 or more",
		"--num-layers-per-virtual-pipeline-stage 3 --num-virtual-stages-per-pipeline-rank 2":                 "one of it and",
		"--context-parallel-size 2 --seq-length 1022":                                                        "--seq-length is 1022" + refused + "a multiple of twice",
		"--expert-model-parallel-size 2":                                                                     "--num-experts beside it",
		"--expert-model-parallel-size 4 --num-experts 6":                                                     "--num-experts is 6" + refused,
		"--num-experts 8 --tensor-model-parallel-size 2 --disable-bias-linear":                               "sequence_parallel is not said",
		"--num-experts 8 --tensor-model-parallel-size 2 --sequence-parallel":                                 "--expert-tensor-parallel-size 1 beside biases",
		"--num-experts 8 --tensor-model-parallel-size 2 --sequence-parallel --disable-bias-linear":           "",
		"--num-experts 8 --tensor-model-parallel-size 2 --sequence-parallel --expert-tensor-parallel-size 1": "",
		"--num-experts 8 --moe-grouped-gemm":                                                                 "--no-bias-dropout-fusion beside biases",
		"--num-experts 8 --moe-grouped-gemm --no-bias-dropout-fusion":                                        "",
		"--quick-geglu --swiglu":                                                                             "one of --quick-geglu and --swiglu",
		"--softmax-type off-by-two":                                                                          "off-by-one",
		"--global-batch-size 40":                                                                             "--global-batch-size is 40" + refused + "a multiple of 2, the micro-batch, × 8 data-parallel ranks",
		"--global-batch-size 40 --rampup-batch-size 8":                                                       "",
		"--recompute-granularity full":                                                                       "uniform or block",
		"--recompute-granularity full --recompute-method uniform":                                            "recompute_layers is not said",
		"--recompute-granularity all":                                                                        "--recompute-granularity is all" + refused + "full or selective",
		"--recompute-activations --recompute-method block":                                                   "none where the granularity is selective",
		"--recompute-granularity selective --recompute-modules norm":                                         "--recompute-modules is norm",
		"--normalization BatchNorm":                                                                          "LayerNorm or RMSNorm",
		"--position-embedding-type alibi":                                                                    "learned_absolute",
		"--num-experts 8 --moe-pad-expert-input-to-capacity":                                                 "a factor",
		"--num-experts 8 --moe-router-topk 9":                                                                "no more than the 8 experts",
		"--num-experts 8 --moe-expert-capacity-factor 1e300":                                                 "a factor",
		"--num-experts 8 --moe-expert-capacity-factor -1":                                                    "", // none
		"--num-experts 100000":                                                                               "4096 or fewer",
		"--num-experts 8 --moe-router-dtype banana":                                                          "fp32 or fp64",
		"--cuda-graph-impl banana":                                                                           "full_iteration",
		"--fp8-format banana":                                                                                "e4m3 or hybrid",
		"--main-grads-dtype banana":                                                                          "fp32 or bf16",
		"--pipeline-model-parallel-layout Ett|ttL --account-for-loss-in-pipeline-split":                      "none of the other ways",
		"--multi-latent-attention --group-query-attention":                                                   "beside latent attention",
		"--use-precision-aware-optimizer --optimizer sgd":                                                    "--optimizer is sgd" + refused + "adam",
		"--fine-grained-activation-offloading":                                                               "--offload-modules beside it",
		"--encoder-num-layers 12":                                                                            "one of it and --num-layers; --num-layers is 12",
		"--decoder-num-layers 12":                                                                            "",
		"--overlap-param-gather --use-distributed-optimizer":                                                 "--overlap-grad-reduce beside it",
		"--overlap-param-gather --overlap-grad-reduce":                                                       "--use-distributed-optimizer beside it",
		"--overlap-param-gather --overlap-grad-reduce --use-distributed-optimizer":                           "",
		"--exp-avg-dtype bf16":                                                                               "--use-precision-aware-optimizer beside it",
		"--exp-avg-sq-dtype fp8":                                                                             "--use-precision-aware-optimizer beside it",
		"--main-params-dtype fp16":                                                                           "--use-precision-aware-optimizer beside it",
		"--main-grads-dtype bf16":                                                                            "--use-precision-aware-optimizer beside it",
		"--exp-avg-dtype fp32":                                                                               "",
		"--recompute-granularity selective --recompute-modules layernorm mla_up_proj":                        "--recompute-modules is layernorm, mla_up_proj" + refused + "--multi-latent-attention beside",
		"--recompute-activations --recompute-modules moe_act":                                                "--moe-grouped-gemm beside moe_act",
		"--recompute-modules moe_act":                                                                        "", // no layer is computed again
		"--cross-entropy-loss-fusion --cross-entropy-fusion-impl foo":                                        "native or te",
		"--hidden-dropout 5":                                                                                 "0 to 1",
		"--micro-batch-size 2.0":                                                                             "--micro-batch-size is 2.0, expected a whole number without a fraction",
		"--seq-length 1e3":                                                                                   "--seq-length is 1000.0",
		"--clip-grad 1.0 --lr 1e-4 --eval-iters 10":                                                          "",
		"--multi-latent-attention --kv-lora-rank 0":                                                          "--kv-lora-rank is 0",
		"--max-position-embeddings 512":                                                                      "--max-position-embeddings is 512",
	} {
		words := strings.Fields(base) // a flag that is given again stands in place of the one before
		for _, w := range strings.Fields(flags) {
			for i := range words {
				if strings.HasPrefix(w, "--") && words[i] == w {
					words = append(words[:i], words[i+2:]...)
					break
				}
			}
			words = append(words, w)
		}
		_, err := Parse(words, published(nil))
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", flags, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", flags, err, want)
		}
	}
}

// What Megatron-LM does not start without.
func TestMegatronNeeds(t *testing.T) {
	const all = " --micro-batch-size 2 --max-position-embeddings 1024"
	for left, want := range map[string]string{"": "", " --micro-batch-size 2": "expects --micro-batch-size", " --max-position-embeddings 1024": "expects --max-position-embeddings"} {
		_, err := Parse(strings.Fields("torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 12 --hidden-size 1024 --num-attention-heads 16 --vocab-size 32000 --seq-length 1024 --bf16"+strings.Replace(all, left, "", 1)), published(nil))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("without%s: %v, want %q", left, err, want)
		}
	}
}
