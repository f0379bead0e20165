package recipe

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/workload"
)

// megatronRule is something that Megatron-LM refuses: the field, and what it expects.
type megatronRule struct {
	broken   bool
	field    field
	expected string
}

// megatronRefuses stops where Megatron-LM does: what validate_args of
// megatron/training/arguments.py, TransformerConfig of
// megatron/core/transformer/transformer_config.py and parallel_state.py refuse.
func (p *plan) megatronRefuses() {
	for _, rules := range [][]megatronRule{p.megatronCounts(), p.megatronRanks(), p.megatronChoices(), p.megatronLayers()} {
		for _, r := range rules {
			if r.broken {
				p.refuses(r.field, r.expected)
				return
			}
		}
	}
}

// megatronCounts are counts that bound each other.
func (p *plan) megatronCounts() []megatronRule {
	capacity := p.share("capacity")
	return []megatronRule{
		{p.number("experts") > workload.MostExperts, "experts", fmt.Sprintf("%d or fewer", workload.MostExperts)},
		{!p.said("micro_batch") && !p.given("yaml_cfg"), "micro_batch", "--micro-batch-size"},
		{!p.said("max_positions") && !p.given("use_checkpoint_args") && !p.given("yaml_cfg"), "max_positions", "--max-position-embeddings"},
		{p.said("experts") && p.number("active_experts") > p.number("experts"), "active_experts", fmt.Sprintf("no more than the %d experts", p.number("experts"))},
		{p.said("capacity") && !(capacity <= 1e6 && capacity >= -1e6), "capacity", "a factor"},
	}
}

// atLeastOne is a count that is 1 where nobody says it.
func (p *plan) atLeastOne(f field) int64 { return max(1, p.number(f)) }

// remains reports a count that others do not divide one after another; 0 is divided
// by all.
func remains(n int64, by ...int64) bool {
	for _, d := range by {
		if n%max(1, d) != 0 {
			return true
		}
		n /= max(1, d)
	}
	return false
}

// megatronRanks are the divisions of work over ranks.
func (p *plan) megatronRanks() []megatronRule {
	tensor, stages, context, experts := p.atLeastOne("tensor_parallel"), p.atLeastOne("pipeline_parallel"), p.atLeastOne("context_parallel"), p.atLeastOne("expert_parallel")
	byExpert := tensor
	if n := p.number("expert_tensor"); n > 0 {
		byExpert = n
	}
	world, groups := p.world(), p.number("key_value_heads")
	said := p.processes()
	ranks := int64(0)
	if !remains(world, tensor, stages, context) {
		ranks = world / tensor / stages / context
	}
	return []megatronRule{
		{remains(world, tensor, stages, context), said, ranksOf(tensor, stages, context)},
		{remains(world, byExpert, experts, stages), said, fmt.Sprintf("a multiple of the %d × %d × %d ranks of experts, of their tensors and of stages", experts, byExpert, stages)},
		{remains(p.number("heads"), tensor), "heads", fmt.Sprintf("a multiple of the tensor parallelism of %d", tensor)},
		{p.yes("gqa") && groups > 0 && groups%tensor != 0 && tensor%groups != 0, "key_value_heads", fmt.Sprintf("a multiple or a divisor of the tensor parallelism of %d", tensor)},
		{p.said("heads") && !p.said("head_size") && remains(p.number("hidden"), p.number("heads")), "hidden", fmt.Sprintf("a multiple of the %d heads, or --kv-channels", p.number("heads"))},
		{context > 1 && remains(p.number("context"), context, 2), "context", fmt.Sprintf("a multiple of twice the context parallelism of %d", context)},
		{experts > 1 && p.number("experts") <= 0, "expert_parallel", "--num-experts beside it"},
		{experts > 1 && remains(p.number("experts"), experts), "experts", fmt.Sprintf("a multiple of the expert parallelism of %d", experts)},
		{p.number("experts") > 0 && tensor > 1 && !p.yes("sequence_parallel"), "sequence_parallel", "it beside experts and tensor parallelism"},
		{!p.grows() && ranks > 0 && p.number("micro_batch") > 0 && remains(p.number("global_batch"), p.number("micro_batch"), ranks), "global_batch",
			fmt.Sprintf("a multiple of %d, the micro-batch, × %d data-parallel ranks", p.number("micro_batch"), ranks)},
	}
}

// megatronChoices are settings that exclude or need each other.
func (p *plan) megatronChoices() []megatronRule {
	modules := []string{"core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts", "gdn_norm_out", "gdp_in_proj", "gdp_qkv", "mhc"}
	granularity, method := p.text("granularity"), p.text("recompute_method")
	if granularity == "" && p.yes("recompute_attention") {
		granularity = "selective"
	}
	selective := granularity == "selective"
	return []megatronRule{
		{p.yes("fp16") && p.yes("bf16"), "fp16", "one of --fp16 and --bf16"},
		{granularity == "full" && method == "", "recompute_method", "uniform or block where the granularity is full"},
		{granularity == "full" && !p.said("recompute_layers"), "recompute_layers", "layers where the granularity is full"},
		{selective && method != "", "recompute_method", "none where the granularity is selective"},
		{selective && p.said("recompute_layers"), "recompute_layers", "none where the granularity is selective"},
		{selective && slices.ContainsFunc(p.list("recompute_modules"), func(m string) bool { return !slices.Contains(modules, m) }), "recompute_modules", strings.Join(modules, ", ")},
		{p.yes("padded") && !p.said("capacity"), "capacity", "a factor where inputs are padded to it"},
		{p.yes("wide_ends") && p.text("fp8") != "" && !slices.Contains(strings.Fields("tensorwise mxfp8 blockwise custom"), p.text("fp8_recipe")), "wide_ends", "another recipe of 8 bits than delayed beside layers in 16 bits"},
		{p.yes("fp8_parameters") && p.text("fp8") == "", "fp8_parameters", "--fp8-format beside it"},
		{p.yes("fp8_parameters") && !p.yes("distributed_optimizer") && !p.yes("megatron_fsdp"), "fp8_parameters", "--use-distributed-optimizer beside it"},
		{p.yes("mla") && p.yes("gqa"), "gqa", "no groups of queries beside latent attention"},
		{p.yes("precision_aware") && p.text("optimizer") != "adam", "optimizer", "adam where it is aware of precision"},
		{p.said("max_positions") && p.number("max_positions") < p.number("context"), "max_positions", "the length of the sequences or more"},
	}
}

// megatronLayers are the layers of stages and of their pieces.
func (p *plan) megatronLayers() []megatronRule {
	stages, each := p.atLeastOne("pipeline_parallel"), p.number("layers_per_chunk")
	even := !slices.ContainsFunc([]field{"first_layers", "last_layers", "pipeline_layout", "count_embedding", "count_loss"}, p.said)
	pieces, _ := p.pieces(stages)
	list, err := workload.PipelinePieces(p.text("pipeline_layout"))
	return []megatronRule{
		{p.said("pipeline_layout") && slices.ContainsFunc([]field{"first_layers", "last_layers", "count_embedding", "count_loss", "layers_per_chunk", "chunks"}, p.said), "pipeline_layout", "none of the other ways to share layers beside it"},
		{each > 0 && p.said("chunks"), "layers_per_chunk", "one of it and --num-virtual-stages-per-pipeline-rank"},
		{even && remains(p.number("layers"), stages), "layers", fmt.Sprintf("a multiple of the %d stages", stages)},
		{even && each > 0 && remains(p.number("layers"), stages, each), "layers_per_chunk", "a divisor of the layers of a stage"},
		{p.said("pipeline_layout") && err != nil, "pipeline_layout", "an E, layers t and bars, and an L, as Et*3|(tt|)*6L"},
		{p.said("pipeline_layout") && remains(int64(len(list)), stages), "pipeline_layout", fmt.Sprintf("a multiple of the %d stages as pieces", stages)},
		{p.said("pipeline_layout") && int64(strings.Count(strings.Join(list, ""), "t")) != p.number("layers"), "pipeline_layout", fmt.Sprintf("the %d layers", p.number("layers"))},
		{pieces > 1 && stages == 1, "pipeline_parallel", "2 or more where stages have several pieces"},
	}
}
