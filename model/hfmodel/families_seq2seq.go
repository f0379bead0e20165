package hfmodel

import "floodmark/model"

// seq2seqFamilies is the families of an encoder and a decoder.
func seq2seqFamilies() []family {
	encoder := map[string]string{keyLayers: "encoder_layers|num_layers", keyHeads: "encoder_attention_heads|num_heads",
		keyFFN: "encoder_ffn_dim|d_ff"}
	decoder := map[string]string{keyLayers: "decoder_layers|num_decoder_layers|num_layers", keyHeads: "decoder_attention_heads|num_heads",
		keyFFN: "decoder_ffn_dim|d_ff"}
	side := func(kind model.StackKind, n names, keys map[string]string) *stack {
		return &stack{names: bartNames + n, kind: kind, rename: keys, norm: model.LayerNorm, normBias: "yes", residual: model.PostNorm,
			noRotary: true, attn: attentionBias("yes"), ffn: dense{plain: true, bias: "yes"}}
	}
	bartEncoder, bartDecoder := side(model.Encoder, " embed=model.shared layers=model.encoder.layers", encoder), side(model.Decoder, bartCross+" embed=model.decoder.embed_tokens layers=model.decoder.layers head=lm_head", decoder)
	bartEncoder.notFor = "ForCausalLM"
	bartEncoder.scaled, bartDecoder.scaled = true, true
	bartEncoder.before = []*piece{
		table(model.RolePositionEmbedding, "model.encoder.embed_positions", "positions+2", "hidden"),
		norming(model.RoleNorm, "model.encoder.layernorm_embedding", "hidden", "yes"),
	}
	bartDecoder.shared, bartDecoder.tied = true, true
	bartDecoder.before = []*piece{
		table(model.RolePositionEmbedding, "model.decoder.embed_positions", "positions+2", "hidden"),
		norming(model.RoleNorm, "model.decoder.layernorm_embedding", "hidden", "yes"),
		only("is_encoder_decoder=true", bare(model.RoleBuffer, "final_logits_bias", "1 vocab")),
	}
	bartDecoder.heads = map[string][]*piece{"ForSequenceClassification": classification()}
	m2mEncoder := side(model.Encoder, " embed=model.shared layers=model.encoder.layers final=model.encoder.layer_norm", encoder)
	m2mDecoder := side(model.Decoder, bartCross+" layers=model.decoder.layers final=model.decoder.layer_norm head=lm_head", decoder)
	m2mDecoder.shared, m2mDecoder.tied, m2mEncoder.residual, m2mDecoder.residual = true, true, model.PreNorm, model.PreNorm
	return []family{
		{types: "bart", classes: "Bart", ignores: "num_hidden_layers", stacks: []*stack{bartEncoder, bartDecoder}},
		{types: "m2m_100", classes: "M2M100", ignores: "num_hidden_layers", stacks: []*stack{m2mEncoder, m2mDecoder}},
		whisper(side, encoder, decoder),
		whisperEncoder(side, encoder),
		{types: "vision-encoder-decoder", classes: "VisionEncoderDecoder", parts: []*part{
			{name: "encoder", key: "encoder", prefix: "encoder.", use: "Encoder"},
			{name: "decoder", key: "decoder", prefix: "decoder.", use: "ForCausalLM"},
		}},
		{types: "trocr", classes: "TrOCR", expects: "use_learned_position_embeddings=false layernorm_embedding=false",
			ignores: "cross_attention_hidden_size", stacks: []*stack{{
				names:  bartNames + bartCross + " embed=model.decoder.embed_tokens layers=model.decoder.layers head=output_projection",
				rename: decoder,
				norm:   model.LayerNorm, normBias: "yes", residual: model.PostNorm, noRotary: true, attn: attentionBias("yes"),
				ffn: dense{plain: true, bias: "yes"},
				before: []*piece{
					only("use_learned_position_embeddings",
						table(model.RolePositionEmbedding, "model.decoder.embed_positions", "positions+2", "hidden")),
					only("layernorm_embedding", norming(model.RoleNorm, "model.decoder.layernorm_embedding", "hidden", "yes")),
				}}}},
		t5Family("t5 mt5", "T5 MT5", false),
		t5Family("umt5", "UMT5", true), // every layer has relative positions of its own
	}
}

// t5Family is the row of one kind of T5.
func t5Family(types, classes string, everyLayer bool) family {
	f := family{types: types, classes: classes,
		rename:   map[string]string{keyHeadDim: "d_kv", keyDropEmbedding: "dropout_rate", keyDropAttention: "dropout_rate", keyDropFeedForward: "dropout_rate"},
		defaults: "relative_attention_num_buckets=32 dropout_rate=0.1 feed_forward_proj=relu", stacks: []*stack{
			t5(model.Encoder, "encoder", " embed=shared layers=encoder.block up=layer.1.DenseReluDense.wi down=layer.1.DenseReluDense.wo norms=layer.0.layer_norm,layer.1.layer_norm"+
				" gate=layer.1.DenseReluDense.wi_0 gated_up=layer.1.DenseReluDense.wi_1", nil),
			t5(model.Decoder, "decoder", " layers=decoder.block head=lm_head cross=layer.1.EncDecAttention xq=q xk=k xv=v xo=o up=layer.2.DenseReluDense.wi down=layer.2.DenseReluDense.wo"+
				" norms=layer.0.layer_norm,layer.1.layer_norm,layer.2.layer_norm gate=layer.2.DenseReluDense.wi_0 gated_up=layer.2.DenseReluDense.wi_1",
				map[string]string{keyLayers: "num_decoder_layers|num_layers"}),
		}}
	for _, k := range f.stacks {
		if everyLayer {
			k.layer, k.first = k.first, nil
		}
	}
	return f
}

// t5 is one side of a T5: no biases anywhere, and a table of relative
// positions in the first layer.
func t5(kind model.StackKind, side string, n names, keys map[string]string) *stack {
	k := &stack{names: t5Names + " final=" + names(side) + ".final_layer_norm" + n, kind: kind, rename: keys, noRotary: true, tied: true,
		ffn:   dense{plain: true, gated: "feed_forward_proj~gated"},
		first: []*piece{table(model.RoleRelativeBias, "layer.0.SelfAttention.relative_attention_bias", "relative_attention_num_buckets", "heads")}}
	if kind == model.Decoder {
		k.shared, k.notFor = true, "EncoderModel"
		k.heads = map[string][]*piece{"ForSequenceClassification": classification()}
	}
	return k
}

// classification is the head by which BART and T5 classify.
func classification() []*piece {
	return []*piece{lin(model.RoleClassifier, "classification_head.dense", "hidden", "hidden", "yes"), classifier("classification_head.out_proj", "labels")}
}

// whisperEncoder is Whisper's encoder as other models carry it.
func whisperEncoder(side func(model.StackKind, names, map[string]string) *stack, keys map[string]string) family {
	k := side(model.Audio, " layers=layers final=layer_norm", keys)
	k.attn.keyless, k.residual, k.before = true, model.PreNorm, melPieces("")
	return family{types: "qwen2_audio_encoder", stacks: []*stack{k}}
}

// melPieces is the two convolutions over a mel spectrogram, and positions.
func melPieces(at string) []*piece {
	return []*piece{
		{name: at + "conv1", role: model.RolePatchEmbedding, class: convolution, shape: "hidden num_mel_bins 3", bias: "yes"},
		{name: at + "conv2", role: model.RolePatchEmbedding, class: convolution, shape: "hidden hidden 3", bias: "yes"},
		table(model.RolePositionEmbedding, at+"embed_positions", "max_source_positions", "hidden"),
	}
}

// whisper is an encoder over mel spectrograms and a decoder; keys have no
// bias.
func whisper(side func(model.StackKind, names, map[string]string) *stack, encoder, decoder map[string]string) family {
	in, out := side(model.Audio, " layers=model.encoder.layers final=model.encoder.layer_norm", encoder), side(model.Decoder, bartCross+" embed=model.decoder.embed_tokens layers=model.decoder.layers final=model.decoder.layer_norm head=proj_out", decoder)
	in.attn.keyless, in.attn.scaled, in.attn.copied = true, true, true
	out.attn.keyless, out.attn.scaled, out.attn.copied = true, true, true
	in.residual, out.residual, out.tied = model.PreNorm, model.PreNorm, true
	in.before = melPieces("model.encoder.")
	out.before = []*piece{table(model.RolePositionEmbedding, "model.decoder.embed_positions", "max_target_positions", "hidden")}
	return family{types: "whisper", classes: "Whisper", ignores: "num_hidden_layers classifier_proj_size median_filter_width", stacks: []*stack{in, out}}
}
