package megatronmodel

import (
	"fmt"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/model"
)

const source = "https://github.com/NVIDIA/Megatron-LM/blob/d98e8a64ddf34856e74b24714e3bedb2f5a39553/megatron/training/arguments.py"

// gpt2Vocabulary is the entries of GPT-2's tokenizer, which --vocab-file and
// --merge-file name in place of a size.
const gpt2Vocabulary = 50257

// New is the model that Megatron-LM builds from arguments. It fails where they
// contradict themselves or lack what has no default.
func New(name string, a Arguments) (*model.Model, error) {
	r := &reader{a: a}
	b := &builder{
		r: r, norm: model.LayerNorm, bias: !r.is("disable-bias-linear"), gated: r.is("swiglu") || r.is("quick-geglu"), activation: "gelu",
	}
	if r.text("normalization", "LayerNorm") == "RMSNorm" {
		b.norm = model.RMSNorm
	}
	b.sizes()
	b.width = r.count("ffn-hidden-size", 4*b.hidden)
	switch _, has := a["ffn-hidden-size"]; {
	case r.is("quick-geglu"):
		b.activation = "quick_gelu"
	case b.gated:
		if b.activation = "silu"; !has {
			b.width = 4 * b.hidden * 2 / 3 / 64 * 64
		}
	}
	b.m = &model.Model{
		Name: name, Type: "megatron", Compute: dtype.BF16, FormatOrigin: account.Assumed,
		Vocab: r.count("vocab-size", gpt2Vocabulary), MaxPosition: r.count("max-position-embeddings", 0),
		Sources: []model.Source{{Name: source, Kind: "config"}},
	}
	b.build()
	if r.err != nil {
		return nil, fmt.Errorf("the arguments of %s: %w", name, r.err)
	}
	return b.m, nil
}

// layers is how many an argument says.
func (r *reader) layers(name string) int {
	n := r.needed(name)
	if n > mostLayers {
		r.fail(name, "a whole number of up to 16,384")
		return 1
	}
	return n
}

// builder makes the tensors of one model.
type builder struct {
	r             *reader
	m             *model.Model
	hidden, heads int
	width         int // of a dense network
	norm          model.NormKind
	bias, gated   bool
	activation    string
	stack         string // of the layers that are made
}

// add makes a tensor; layer is model.NoLayer outside the stack.
func (b *builder) add(layer int, role model.Role, name string, shape ...int) int {
	t := model.Tensor{Name: name, Role: role, Stack: int32(len(b.m.Stacks)), Layer: int32(layer), Stored: dtype.BF16, TiedTo: model.NotTied}
	if layer < 0 {
		t.Stack, t.Layer = model.NoLayer, model.NoLayer
	} else {
		t.Name = fmt.Sprintf("%s.layers.%d.%s", b.stack, layer, name)
	}
	for _, s := range shape {
		t.Shape = append(t.Shape, int64(s))
	}
	b.m.Tensors = append(b.m.Tensors, t)
	return len(b.m.Tensors) - 1
}

// gpt is pretrain_gpt.py's model: one stack of layers over the embeddings.
func (b *builder) gpt() {
	b.m.Architectures = []string{"GPTModel"}
	layers := b.r.layers("num-layers")
	position, embedding := b.embeddings()
	b.layers(model.Decoder, "decoder", layers, position)
	b.end("decoder", embedding)
}

// embeddings are those of tokens and positions.
func (b *builder) embeddings() (position string, embedding int) {
	embedding = b.add(outside, model.RoleTokenEmbedding, "embedding.word_embeddings.weight", b.m.Vocab, b.hidden)
	position = b.r.text("position-embedding-type", "learned_absolute")
	switch position {
	case "learned_absolute":
		if b.m.MaxPosition == 0 {
			b.r.fail("max-position-embeddings", "how many positions are learned")
		}
		b.add(outside, model.RolePositionEmbedding, "embedding.position_embeddings.weight", b.m.MaxPosition, b.hidden)
	case "rope", "none", "yarn":
	default:
		b.unknown("position-embedding-type", position)
	}
	return position, embedding
}

// layers is a stack of them.
func (b *builder) layers(kind model.StackKind, name string, layers int, position string) {
	b.stack = name
	stack := model.Stack{Name: name + ".layers", Kind: kind, Width: b.hidden}
	experts := make([]bool, layers)
	if b.r.count("num-experts", 0) > 0 {
		experts = b.r.expertLayers(layers)
	}
	window, windowed := b.r.window(layers)
	for i := range layers {
		l := model.Layer{Index: i, Residual: model.PreNorm}
		l.Norms = append(l.Norms, b.normed(i, "input_layernorm"))
		if b.r.is("multi-latent-attention") {
			l.Mixers = []model.Mixer{b.latent(i)}
		} else {
			a := b.attention(i, position)
			if windowed[i] {
				a.Window = window
			}
			l.Mixers = []model.Mixer{a}
		}
		if b.cross(kind) {
			l.Norms = append(l.Norms, b.normed(i, "pre_cross_attn_layernorm"))
			l.Mixers = append(l.Mixers, b.crossed(i))
		}
		l.Norms = append(l.Norms, b.normed(i, "pre_mlp_layernorm"))
		if experts[i] {
			l.FeedForward = b.experts(i)
		} else {
			l.FeedForward = b.dense(i)
		}
		stack.Layers = append(stack.Layers, l)
	}
	b.m.Stacks = append(b.m.Stacks, stack)
}

// end is the last norm and the output layer.
func (b *builder) end(name string, embedding int) {
	b.final(name)
	head := b.add(outside, model.RoleHead, "output_layer.weight", b.m.Vocab, b.hidden)
	if !b.r.is("untie-embeddings-and-output-weights") {
		b.m.Tensors[head].TiedTo = int32(embedding)
	}
	for _, name := range []string{"mtp-num-layers", "hybrid-layer-pattern", "hybrid-override-pattern", "experimental-attention-variant", "heterogeneous-layers-config-path"} {
		if b.r.is(name) && b.r.a[name] != "0" {
			b.unknown(name, b.r.a[name])
		}
	}
}

// final is the norm behind a stack.
func (b *builder) final(name string) {
	b.add(outside, model.RoleFinalNorm, name+".final_layernorm.weight", b.hidden)
	if b.norm == model.LayerNorm {
		b.add(outside, model.RoleFinalNorm, name+".final_layernorm.bias", b.hidden)
	}
}

// outside is a tensor outside the layers.
const outside = -1

func (b *builder) unknown(name, value string) {
	b.m.Unknown = append(b.m.Unknown, model.Unknown{Field: "--" + name, Value: value, Why: "what it builds is not known here"})
}

func (b *builder) normed(layer int, name string) model.Norm {
	b.add(layer, model.RoleNorm, name+".weight", b.hidden)
	if b.norm == model.LayerNorm {
		b.add(layer, model.RoleNormBias, name+".bias", b.hidden)
	}
	return model.Norm{Kind: b.norm, Width: b.hidden, Bias: b.norm == model.LayerNorm}
}

func (b *builder) attention(layer int, position string) model.Attention {
	dim := b.r.count("kv-channels", b.hidden/b.heads)
	groups := b.heads
	if b.r.is("group-query-attention") || b.r.count("num-query-groups", 0) > 0 {
		groups = max(1, b.r.count("num-query-groups", 1))
	}
	a := model.Attention{
		QueryHeads: b.heads, KVHeads: groups, KeyDim: dim, ValueDim: dim, Causal: true, CacheOf: -1,
		QKVBias: b.bias || b.r.is("add-qkv-bias"), OutputBias: b.bias, QKNorm: b.r.is("qk-layernorm"),
	}
	if position == "rope" || position == "yarn" {
		a.RotaryDim = dim
	}
	rows := (b.heads + 2*groups) * dim
	b.add(layer, model.RoleQKV, "self_attention.linear_qkv.weight", rows, b.hidden)
	if a.QKVBias {
		b.add(layer, model.RoleQKVBias, "self_attention.linear_qkv.bias", rows)
	}
	if a.QKNorm {
		b.headNorm(layer, model.RoleQueryNorm, "q", dim)
		b.headNorm(layer, model.RoleKeyNorm, "k", dim)
	}
	switch kind := b.r.text("softmax-type", "vanilla"); kind {
	case "vanilla":
	case "learnable":
		a.Sinks = true
		b.add(layer, model.RoleSinks, "self_attention.core_attention.softmax_offset", b.heads)
	default:
		if layer == 0 {
			b.unknown("softmax-type", kind)
		}
	}
	b.projection(layer, b.heads*dim)
	return a
}

// headNorm is a norm that all heads share.
func (b *builder) headNorm(layer int, role model.Role, name string, dim int) {
	b.add(layer, role, "self_attention."+name+"_layernorm.weight", dim)
	if b.norm == model.LayerNorm {
		b.add(layer, role, "self_attention."+name+"_layernorm.bias", dim)
	}
}

func (b *builder) projection(layer, from int) {
	b.add(layer, model.RoleAttentionOutput, "self_attention.linear_proj.weight", b.hidden, from)
	if b.bias {
		b.add(layer, model.RoleAttentionOutputBias, "self_attention.linear_proj.bias", b.hidden)
	}
}

// latent is multi-head latent attention; its projections have no bias, but the
// last.
func (b *builder) latent(layer int) model.LatentAttention {
	a := model.LatentAttention{
		QueryHeads: b.heads, QueryRank: b.r.count("q-lora-rank", 0), KVRank: b.r.count("kv-lora-rank", 32),
		NopeDim: b.r.count("qk-head-dim", 128), RopeDim: b.r.count("qk-pos-emb-head-dim", 64), ValueDim: b.r.count("v-head-dim", 128),
	}
	query := b.heads * (a.NopeDim + a.RopeDim)
	if a.QueryRank > 0 {
		b.add(layer, model.RoleQueryDown, "self_attention.linear_q_down_proj.weight", a.QueryRank, b.hidden)
		b.add(layer, model.RoleQueryUp, "self_attention.linear_q_up_proj.weight", query, a.QueryRank)
	} else {
		b.add(layer, model.RoleQuery, "self_attention.linear_q_proj.weight", query, b.hidden)
	}
	b.add(layer, model.RoleKVDown, "self_attention.linear_kv_down_proj.weight", a.KVRank+a.RopeDim, b.hidden)
	b.add(layer, model.RoleKVUp, "self_attention.linear_kv_up_proj.weight", b.heads*(a.NopeDim+a.ValueDim), a.KVRank)
	if b.r.is("qk-layernorm") {
		for _, n := range []struct {
			name  string
			width int
		}{{"q", a.QueryRank}, {"kv", a.KVRank}} {
			if n.width == 0 {
				continue
			}
			b.add(layer, model.RoleLatentNorm, "self_attention."+n.name+"_layernorm.weight", n.width)
			if b.norm == model.LayerNorm {
				b.add(layer, model.RoleLatentNorm, "self_attention."+n.name+"_layernorm.bias", n.width)
			}
		}
	}
	b.projection(layer, b.heads*a.ValueDim)
	return a
}

// wide is the rows of the matrix that makes a network's inner width.
func (b *builder) wide(width int) int {
	if b.gated {
		return 2 * width
	}
	return width
}

func (b *builder) dense(layer int) model.Dense {
	up, bias := model.RoleUp, model.RoleUpBias
	if b.gated {
		up, bias = model.RoleGateUp, model.RoleGateUpBias
	}
	b.add(layer, up, "mlp.linear_fc1.weight", b.wide(b.width), b.hidden)
	if b.bias {
		b.add(layer, bias, "mlp.linear_fc1.bias", b.wide(b.width))
	}
	b.add(layer, model.RoleDown, "mlp.linear_fc2.weight", b.hidden, b.width)
	if b.bias {
		b.add(layer, model.RoleDownBias, "mlp.linear_fc2.bias", b.hidden)
	}
	return model.Dense{Width: b.width, Gated: b.gated, Activation: b.activation, Bias: b.bias}
}

// experts is a mixture: each expert has matrices of its own. Their biases, which are
// vectors of their own too, stand here in one tensor a layer.
func (b *builder) experts(layer int) model.Experts {
	e := model.Experts{
		Count: b.r.needed("num-experts"), Active: b.r.count("moe-router-topk", 2), Width: b.r.count("moe-ffn-hidden-size", b.width),
		Gated: b.gated, Activation: b.activation, Bias: b.bias, RouterBias: b.r.is("moe-router-enable-expert-bias"),
		SharedWidth: b.r.count("moe-shared-expert-intermediate-size", 0), Clamped: b.r.is("activation-func-clamp-value"),
	}
	switch {
	case e.Count > mostLayers:
		b.r.fail("num-experts", "up to 16,384 experts")
		return e
	case b.bias && e.SharedWidth > 0:
		b.r.fail("moe-shared-expert-intermediate-size", "no shared experts beside biases (--disable-bias-linear)")
		return e
	}
	b.add(layer, model.RoleRouter, "mlp.router.weight", e.Count, b.hidden)
	if b.bias {
		b.add(layer, model.RoleRouterBias, "mlp.router.bias", e.Count)
		b.add(layer, model.RoleExpertGateUpBias, "mlp.experts.linear_fc1.bias", e.Count, b.wide(e.Width))
		b.add(layer, model.RoleExpertDownBias, "mlp.experts.linear_fc2.bias", e.Count, b.hidden)
	}
	up := model.RoleExpertUp
	if b.gated {
		up = model.RoleExpertGateUp
	}
	for i := range e.Count {
		b.add(layer, up, fmt.Sprintf("mlp.experts.linear_fc1.weight%d", i), b.wide(e.Width), b.hidden)
	}
	for i := range e.Count {
		b.add(layer, model.RoleExpertDown, fmt.Sprintf("mlp.experts.linear_fc2.weight%d", i), b.hidden, e.Width)
	}
	if e.SharedWidth > 0 {
		e.Shared = 1
		b.add(layer, model.RoleSharedExpertUp, "mlp.shared_experts.linear_fc1.weight", b.wide(e.SharedWidth), b.hidden)
		b.add(layer, model.RoleSharedExpertDown, "mlp.shared_experts.linear_fc2.weight", b.hidden, e.SharedWidth)
	}
	return e
}
