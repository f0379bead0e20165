package megatronmodel

import "floodmark/model"

// The models that other scripts than pretrain_gpt.py build, told by their arguments'
// "builds": the script's name behind pretrain_. Their tensors are those of
// megatron/core/models/bert and megatron/core/models/T5 of Megatron-LM at d98e8a64.
const (
	bert = "bert"
	t5   = "t5"
)

// sizes reads what a model's layers are made of; of a model that is none of ours only
// what its embedding needs.
func (b *builder) sizes() {
	switch b.r.text("builds", "") {
	case "", bert, t5:
		b.hidden, b.heads = b.r.needed("hidden-size"), b.r.needed("num-attention-heads")
	default:
		b.hidden, b.heads = b.r.count("hidden-size", 0), 1
	}
}

// build makes the tensors of the model.
func (b *builder) build() {
	kind := b.r.text("builds", "")
	if _, said := b.r.a["vocab-size"]; kind != "" && !said {
		// GPT-2's is the default of GPT alone: at least one entry is there.
		b.m.Vocab = 1
		b.unknown("vocab-file", b.r.text("vocab-file", ""))
	}
	switch kind {
	case "":
		b.gpt()
	case bert:
		b.bert()
	case t5:
		b.t5()
	default:
		b.m.Architectures = []string{kind}
		b.unknown("builds", kind)
		// Layers of which nothing is known, one at least for each stage.
		b.m.Stacks = []model.Stack{{Name: "decoder.layers", Kind: model.Decoder, Width: b.hidden, Layers: make([]model.Layer, b.r.layers("num-layers"))}}
		if b.hidden > 0 {
			b.add(outside, model.RoleTokenEmbedding, "embedding.word_embeddings.weight", b.m.Vocab, b.hidden)
		}
	}
}

// bert is pretrain_bert.py's: GPT's layers, with token types, a dense layer and a norm
// before the output layer, which has a bias, and a classifier of two sentences.
func (b *builder) bert() {
	b.m.Architectures = []string{"BertModel"}
	position, embedding := b.embeddings()
	b.add(outside, model.RoleTypeEmbedding, "embedding.tokentype_embeddings.weight", 2, b.hidden)
	b.layers(model.Decoder, "encoder", b.r.layers("num-layers"), position)
	b.end("encoder", embedding)
	b.add(outside, model.RoleHeadBias, "output_layer.bias", b.m.Vocab)
	b.add(outside, model.RoleClassifier, "lm_head.dense.weight", b.hidden, b.hidden)
	for _, name := range []string{"lm_head.dense.bias", "lm_head.layer_norm.weight", "lm_head.layer_norm.bias", "pooler.dense.bias"} {
		b.add(outside, model.RoleClassifier, name, b.hidden)
	}
	b.add(outside, model.RoleClassifier, "pooler.dense.weight", b.hidden, b.hidden)
	b.add(outside, model.RoleClassifier, "binary_head.weight", 2, b.hidden)
	b.add(outside, model.RoleClassifier, "binary_head.bias", 2)
}

// t5 is pretrain_t5.py's: an encoder, and a decoder that attends to what it made.
func (b *builder) t5() {
	b.m.Architectures = []string{"T5Model"}
	position, embedding := b.embeddings()
	encoder := b.r.count("encoder-num-layers", 0)
	if encoder == 0 {
		encoder = b.r.layers("num-layers")
	}
	decoder := b.r.count("decoder-num-layers", encoder)
	if max(encoder, decoder) > mostLayers {
		b.r.fail("encoder-num-layers", "a whole number of up to 16,384")
		return
	}
	b.layers(model.Encoder, "encoder", encoder, position)
	b.final("encoder")
	b.layers(model.Decoder, "decoder", decoder, position)
	b.end("decoder", embedding)
	b.add(outside, model.RoleHeadBias, "lm_head.output_layer.bias", b.m.Vocab)
}

// cross reports layers that attend to an encoder.
func (b *builder) cross(kind model.StackKind) bool {
	return b.r.text("builds", "") == t5 && kind == model.Decoder
}

// crossed is attention to what the encoder made: its queries are of the layer's own
// stream.
func (b *builder) crossed(layer int) model.Attention {
	dim := b.r.count("kv-channels", b.hidden/b.heads)
	width := b.heads * dim
	a := model.Attention{QueryHeads: b.heads, KVHeads: b.heads, KeyDim: dim, ValueDim: dim, Cross: true, CacheOf: -1, QKVBias: b.bias, OutputBias: b.bias}
	for _, part := range []struct {
		matrix, bias model.Role
		name         string
	}{{model.RoleQuery, model.RoleQueryBias, "q"}, {model.RoleKey, model.RoleKeyBias, "k"}, {model.RoleValue, model.RoleValueBias, "v"}} {
		b.add(layer, part.matrix, "cross_attention.linear_"+part.name+".weight", width, b.hidden)
		if b.bias {
			b.add(layer, part.bias, "cross_attention.linear_"+part.name+".bias", width)
		}
	}
	b.add(layer, model.RoleAttentionOutput, "cross_attention.linear_proj.weight", b.hidden, width)
	if b.bias {
		b.add(layer, model.RoleAttentionOutputBias, "cross_attention.linear_proj.bias", b.hidden)
	}
	return a
}
