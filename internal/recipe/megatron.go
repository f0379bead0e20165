package recipe

import (
	"encoding/json"
	"fmt"
	"strings"

	"floodmark/dtype"
	"floodmark/workload"
)

// megatron resolves Megatron-LM's arguments: parameters and computation in 16 bits,
// gradients added up in 32 (--bf16 switches that on), a master copy and moments in 32
// (megatron/training/arguments.py, validate_args; megatron/core/optimizer).
// Source: Megatron-LM at d98e8a64ddf3.
func (p *plan) megatron() {
	p.otherwise("optimizer", "adam", "default of Megatron-LM")
	t := p.train()
	p.workload.Engine = workload.Engine{Name: "megatron"}
	if p.megatronRefuses(); p.err != nil {
		return
	}
	p.lays()
	switch name := p.text("optimizer"); name {
	case "adam":
		p.optimizes(t, "adamw", "fused")
	default:
		p.optimizes(t, name, "")
	}
	p.megatronFormats()
	p.megatronRecompute(t)
	p.megatronPipeline(t)
	t.SequenceParallel = p.yes("sequence_parallel") && p.workload.Mesh.TensorParallel > 1
	if p.yes("sequence_parallel") != t.SequenceParallel {
		p.derive("sequence_parallel", false, "without tensor parallelism Megatron-LM switches it off")
	}
	t.Sharding = &workload.Sharding{Kind: workload.DDP, ReduceBucket: p.number("reduce_bucket")}
	if p.yes("distributed_optimizer") {
		t.Sharding.Kind = workload.Distributed
	}
	if p.yes("megatron_fsdp") {
		t.Sharding.Kind = workload.FSDP2
		p.lowers(p.where("megatron_fsdp"), "parameters are divided too")
	}
	if p.said("overlap") {
		on := p.yes("overlap")
		t.Sharding.Overlap = &on
	}
	if p.text("offload_optimizer") == "true" {
		t.Sharding.Offload = []workload.OffloadedState{workload.OffloadOptimizer}
	}
	p.megatronValidates()
	t.Megatron = p.megatronSettings()
	if p.builds == "" {
		p.recipe.Config = p.megatronConfig()
	}
	if p.recipe.Config == nil {
		p.recipe.Arguments = p.megatronArguments()
	}
}

// wordPieces are the entries of the vocabularies that BERT's scripts are given as a
// file, by its name (https://huggingface.co/google-bert).
func wordPieces(file string) int64 {
	switch name := strings.ToLower(file); {
	case strings.Contains(name, "uncased"):
		return 30522
	case strings.Contains(name, "cased"):
		return 28996
	}
	return 0
}

// megatronArguments are the arguments of a model that no class of Hugging Face's has;
// nil where the least is not said.
func (p *plan) megatronArguments() map[string]string {
	if p.builds == "" && min(p.number("layers"), p.number("hidden"), p.number("heads")) <= 0 {
		return nil
	}
	a := map[string]string{"builds": p.builds, "max-position-embeddings": fmt.Sprint(max(1, p.number("context"), p.number("max_positions")))}
	for name, f := range map[string]field{
		"num-layers": "layers", "hidden-size": "hidden", "ffn-hidden-size": "feed_forward", "num-attention-heads": "heads", "num-query-groups": "key_value_heads",
		"kv-channels": "head_size", "vocab-size": "vocabulary", "num-experts": "experts", "moe-router-topk": "active_experts", "moe-ffn-hidden-size": "expert_feed_forward",
		"moe-shared-expert-intermediate-size": "shared_feed_forward", "q-lora-rank": "query_rank", "kv-lora-rank": "latent_rank", "qk-pos-emb-head-dim": "head_rope",
		"qk-head-dim": "head_nope", "v-head-dim": "head_value",
		"encoder-num-layers": "encoder_layers", "decoder-num-layers": "decoder_layers",
	} {
		if n := p.number(f); n > 0 {
			a[name] = fmt.Sprint(n)
		}
	}
	for name, f := range map[string]field{
		"group-query-attention": "gqa", "swiglu": "swiglu", "untie-embeddings-and-output-weights": "untied", "disable-bias-linear": "no_bias", "add-qkv-bias": "qkv_bias",
		"multi-latent-attention": "mla", "qk-layernorm": "head_norms", "quick-geglu": "quick_geglu",
	} {
		if p.yes(f) {
			a[name] = "true"
		}
	}
	if p.said("clamp") {
		a["activation-func-clamp-value"] = "true"
	}
	if n := p.number("padded_vocabulary"); n > 0 {
		a["vocab-size"] = fmt.Sprint(n)
	}
	for name, f := range map[string]field{
		"normalization": "normalization", "position-embedding-type": "positions", "moe-layer-freq": "expert_layers",
		"window-size": "window", "window-attn-skip-freq": "window_layers", "softmax-type": "softmax_kind",
	} {
		if text := p.text(f); text != "" {
			a[name] = text
		}
	}
	if p.builds != "" && p.number("layers") <= 0 && p.number("encoder_layers") <= 0 {
		a["num-layers"] = fmt.Sprint(int64(p.workload.Mesh.PipelineParallel) * max(1, p.workload.Training.Schedule.Chunks))
	}
	if pieces := wordPieces(p.text("vocabulary_file")); p.builds != "" && p.number("vocabulary") <= 0 && pieces > 0 {
		a["vocab-size"] = fmt.Sprint(pieces + max(0, p.number("vocabulary_extra")))
	}
	return a
}

// megatronSettings is what only Megatron-LM is told.
func (p *plan) megatronSettings() *workload.Megatron {
	no := false
	m := &workload.Megatron{
		VocabularyMultiple: p.number("vocabulary_multiple"), ExpertTensor: int(min(p.number("expert_tensor"), 1<<20)),
		GroupedGEMM: p.yes("grouped_gemm"), PermuteFusion: p.yes("permute_fusion"), Capacity: max(0, p.share("capacity")), Padded: p.yes("padded"),
		FirstLayers: p.number("first_layers"), LastLayers: p.number("last_layers"), Layout: p.text("pipeline_layout"), CountEmbedding: p.yes("count_embedding"), CountLoss: p.yes("count_loss"),
		Deterministic: p.yes("deterministic"), MicroBatchGroup: p.number("micro_batch_group"), OptimizerInstances: p.number("optimizer_instances"),
	}
	if p.number("padded_vocabulary") > 0 {
		m.VocabularyMultiple = 1
	}
	if p.said("hidden_dropout") && p.share("hidden_dropout") == 0 {
		m.HiddenDropout = &no
	}
	if p.said("attention_dropout") && p.share("attention_dropout") == 0 {
		m.AttentionDropout = &no
	}
	if p.yes("no_accumulation_fusion") {
		m.AccumulationFusion = &no
	}
	if p.yes("no_loader_mask") {
		m.LoaderMask = &no
	}
	if p.yes("fine_offload") {
		m.OffloadModules, m.OffloadLeast = p.list("offload_modules"), p.number("offload_least")
	}
	p.megatronKernels(m)
	p.megatronQuantises(m)
	p.megatronGraphs(m)
	m.Userbuffers = p.yes("userbuffers") && p.yes("sequence_parallel") && p.workload.Mesh.TensorParallel > 1
	if bytes, err := workload.ParseCublasWorkspace(p.text("cublas_workspace")); p.said("cublas_workspace") {
		if m.CublasWorkspace = bytes; err != nil {
			p.open(p.where("cublas_workspace"), err.Error())
		}
	}
	if f, known := dtype.Parse(p.text("router_format")); known {
		m.RouterFormat = f
	}
	switch way := workload.MegatronDispatcher(p.text("dispatcher")); way {
	case "", workload.AllGather, workload.AllToAll:
		m.Dispatcher = way
	default:
		p.lowersPasses(p.where("dispatcher"), "positions that are sent to experts by "+string(way)+" are not modelled (--moe-token-dispatcher-type)")
	}
	return m
}

// megatronKernels is whose kernels compute attention and the loss.
func (p *plan) megatronKernels(m *workload.Megatron) {
	p.megatronLayersOf(m)
	switch name := workload.MegatronAttention(p.text("attention_backend")); name {
	case "", workload.AutoAttention, workload.FlashKernels, workload.FusedKernels, workload.UnfusedAttention:
		m.Attention = name
	default:
		p.lowersPasses(p.where("attention_backend"), "attention by "+string(name)+" is not modelled")
	}
	if p.yes("fused_loss") {
		m.CrossEntropy = workload.NativeFusedLoss
		if p.text("loss_kernel") == "te" {
			m.CrossEntropy = workload.TEFusedLoss
		}
	}
	if way := p.text("context_exchange"); way == "a2a" || way == "p2p" {
		m.ContextExchange = way
	} else if way != "" {
		p.lowersPasses(p.where("context_exchange"), "the exchange of contexts by "+way+" is not modelled")
	}
}

// megatronLayersOf is whose modules the layers are, and what of them is not fused.
func (p *plan) megatronLayersOf(m *workload.Megatron) {
	switch name := workload.MegatronLayers(p.text("layers_of")); name {
	case "", workload.TransformerEngine, workload.LocalLayers:
		m.Implementation = name
	default:
		p.lowers(p.where("layers_of"), "layers are others")
	}
	activation := p.yes("no_gelu_fusion") || p.yes("no_bias") // validate_args
	if p.yes("swiglu") {
		activation = p.yes("no_swiglu_fusion")
	}
	for _, f := range []struct {
		off    bool
		fusion workload.MegatronFusion
	}{
		{p.yes("no_softmax_fusion"), workload.MaskedSoftmaxFusion}, {activation, workload.BiasActivationFusion},
		{p.yes("no_dropout_fusion"), workload.BiasDropoutFusion}, {p.yes("no_rope_fusion") || p.stretched(), workload.RopeFusion},
	} {
		if f.off {
			m.Unfused = append(m.Unfused, f.fusion)
		}
	}
	m.PrecisionAware = p.yes("precision_aware")
	m.WideSoftmax = p.yes("wide_softmax") || p.yes("scaled_scores")
}

// stretched reports positions by YaRN whose cosines and sines are multiplied, which no
// kernel that turns heads does: where a factor stretches them, and its two multipliers
// differ, 1 and 0 where nobody said
// (_yarn_get_concentration_factor of megatron/core/models/common/embeddings/yarn_rotary_pos_embedding.py,
// apply_rotary_pos_emb of rope_utils.py beside it).
func (p *plan) stretched() bool {
	scale := p.share("rope_mscale")
	if !p.said("rope_mscale") {
		scale = 1
	}
	return p.text("positions") == "yarn" && p.share("rope_factor") > 1 && scale != p.share("rope_mscale_all")
}

func (p *plan) megatronFormats() {
	f, why := p.mixed()
	fp32 := workload.In(dtype.F32)
	switch f {
	case dtype.Unknown:
		p.plain(dtype.F32, "neither --bf16 nor --fp16")
		return
	case dtype.BF16:
		if p.yes("reduce_in_bf16") || p.text("main_grads") == "bf16" {
			p.keeps(dtype.BF16, workload.In(dtype.BF16), fp32, fp32, why+": gradients are added up in 16 bits, and states kept in 32")
			break
		}
		p.keeps(dtype.BF16, fp32, fp32, fp32, why+": gradients are added up and states kept in 32 bits")
	default:
		p.keeps(f, workload.In(f), fp32, fp32, why+": states are kept in 32 bits")
	}
	if !p.yes("precision_aware") {
		return
	}
	for _, s := range []struct {
		field field
		into  *workload.StateFormat
	}{{"main_params", &p.workload.Precision.MasterCopy}, {"first_moment", &p.workload.Precision.FirstMoment}, {"second_moment", &p.workload.Precision.SecondMoment}} {
		if !p.said(s.field) {
			continue
		}
		if format, known := workload.ParseStateFormat(p.text(s.field)); known {
			*s.into = format
		} else {
			p.lowers(p.where(s.field), "the format "+p.text(s.field)+" of states is not modelled")
		}
	}
}

// megatronRecompute reads --recompute-granularity with its method and modules.
func (p *plan) megatronRecompute(t *workload.Train) {
	granularity := p.text("granularity")
	if granularity == "" && p.yes("recompute_attention") {
		granularity = "selective"
	}
	switch granularity {
	case "":
	case "selective":
		t.Checkpointing.Kind = workload.SelectiveCheckpointing
		t.Recompute = &workload.Recompute{Modules: p.list("recompute_modules")}
	case "full":
		layers := max(1, p.number("recompute_layers"))
		t.Checkpointing = workload.Checkpointing{Kind: workload.FullCheckpointing, Every: 1}
		t.Recompute = &workload.Recompute{Method: p.text("recompute_method"), Layers: layers}
	}
}

func (p *plan) megatronPipeline(t *workload.Train) {
	stages := int64(p.workload.Mesh.PipelineParallel)
	if stages == 1 {
		return
	}
	t.Schedule.Kind = workload.OneFOneB
	if chunks, of := p.pieces(stages); chunks > 1 {
		t.Schedule = workload.Schedule{Kind: workload.Interleaved1F1B, Chunks: chunks}
		p.derive("schedule", fmt.Sprintf("interleaved, %d pieces a stage", chunks), p.where(of))
	}
}

// pieces is how many pieces of the model a stage runs, and what says so; the embedding
// and the loss may count as layers.
func (p *plan) pieces(stages int64) (int64, field) {
	if layout := p.text("pipeline_layout"); layout != "" {
		list, _ := workload.PipelinePieces(layout)
		return int64(len(list)) / stages, "pipeline_layout"
	}
	layers := p.number("layers")
	for _, f := range []field{"count_embedding", "count_loss"} {
		if p.yes(f) {
			layers++
		}
	}
	if each := p.number("layers_per_chunk"); each > 0 && layers > 0 {
		return layers / stages / each, "layers_per_chunk"
	}
	return p.number("chunks"), "chunks"
}

// megatronConfig is the model of the arguments in the words of Hugging Face's
// config.json, of the kinds that have one there; nil for others, and where a size is
// not said. The vocabulary is padded as Megatron pads it
// (megatron/training/tokenizer: a multiple of 128 × tensor-parallel ranks).
func (p *plan) megatronConfig() []byte {
	for _, f := range []field{"layers", "hidden", "heads", "vocabulary"} {
		if p.number(f) <= 0 {
			return nil
		}
	}
	multiple := int64(128)
	if n := p.number("vocabulary_multiple"); n > 0 {
		multiple = n
	}
	multiple *= int64(p.workload.Mesh.TensorParallel)
	vocabulary := (p.number("vocabulary") + multiple - 1) / multiple * multiple
	p.derive("vocabulary", vocabulary, fmt.Sprintf("%d, padded to a multiple of %d", p.number("vocabulary"), multiple))
	c := map[string]any{
		"num_hidden_layers": p.number("layers"), "hidden_size": p.number("hidden"), "num_attention_heads": p.number("heads"),
		"vocab_size": vocabulary, "tie_word_embeddings": !p.yes("untied"), "intermediate_size": p.feedForward(), "torch_dtype": "bfloat16",
		"num_key_value_heads": p.number("heads"), "max_position_embeddings": max(1, p.number("context"), p.number("max_positions")), "hidden_act": "silu", "rms_norm_eps": 1e-5,
	}
	if n := p.number("key_value_heads"); p.yes("gqa") && n > 0 {
		c["num_key_value_heads"] = n
	}
	if n := p.number("head_size"); n > 0 {
		c["head_dim"] = n
	}
	if !p.family(c) {
		return nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil
	}
	return text
}

// feedForward is --ffn-hidden-size, or Megatron's own where it is not given: four
// times the width, and two thirds of that in multiples of 64 with --swiglu.
func (p *plan) feedForward() int64 {
	if n := p.number("feed_forward"); n > 0 {
		return n
	}
	if p.yes("swiglu") {
		return 4 * p.number("hidden") * 2 / 3 / 64 * 64
	}
	return 4 * p.number("hidden")
}

// family names the model's kind: the one whose tensors are those of the arguments.
func (p *plan) family(c map[string]any) bool {
	set := func(kind, class string) bool {
		c["model_type"], c["architectures"] = kind, []string{class}
		return true
	}
	llama := p.yes("swiglu") && p.text("normalization") == "RMSNorm" && p.text("positions") == "rope" && p.yes("no_bias")
	switch {
	case p.said("window") || p.said("softmax_kind") || p.yes("quick_geglu") || p.said("clamp") || p.said("padded_vocabulary"):
		return false
	case p.yes("mla") || p.number("shared_feed_forward") > 0 || p.yes("head_norms") || p.said("expert_layers") && p.text("expert_layers") != "1":
		return false
	case p.number("experts") > 0 && llama && !p.yes("qkv_bias"):
		c["num_local_experts"] = p.number("experts")
		c["num_experts_per_tok"] = max(1, p.number("active_experts"))
		if p.number("active_experts") == 0 {
			c["num_experts_per_tok"] = 2
		}
		if n := p.number("expert_feed_forward"); n > 0 {
			c["intermediate_size"] = n
		}
		return set("mixtral", "MixtralForCausalLM")
	case p.number("experts") > 0:
		return false
	case llama && p.yes("qkv_bias"):
		return set("qwen2", "Qwen2ForCausalLM")
	case llama:
		return set("llama", "LlamaForCausalLM")
	case !p.yes("swiglu") && !p.yes("no_bias") && !p.yes("gqa") && !p.yes("squared_relu") && !strings.EqualFold(p.text("normalization"), "RMSNorm") &&
		(p.text("positions") == "" || p.text("positions") == "learned_absolute"):
		c["n_layer"], c["n_embd"], c["n_head"], c["n_positions"], c["n_inner"] = c["num_hidden_layers"], c["hidden_size"], c["num_attention_heads"], c["max_position_embeddings"], c["intermediate_size"]
		for _, k := range []string{"hidden_act", "rms_norm_eps", "intermediate_size", "num_key_value_heads", "head_dim"} {
			delete(c, k)
		}
		return set("gpt2", "GPT2LMHeadModel")
	}
	return false
}
