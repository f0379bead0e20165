package hfmodel

import "floodmark/model"

const (
	bertNames = "layers=encoder.layer norms=attention.output.LayerNorm,output.LayerNorm embed=embeddings.word_embeddings" +
		" q=attention.self.query k=attention.self.key v=attention.self.value o=attention.output.dense up=intermediate.dense down=output.dense"
	vitNames = "layers=encoder.layer norms=layernorm_before,layernorm_after" +
		" q=attention.attention.query k=attention.attention.key v=attention.attention.value o=attention.output.dense up=intermediate.dense down=output.dense"
	bertDropout = " hidden_dropout_prob=0.1 attention_probs_dropout_prob=0.1"
	bartNames   = "q=self_attn.q_proj k=self_attn.k_proj v=self_attn.v_proj o=self_attn.out_proj up=fc1 down=fc2 norms=self_attn_layer_norm,final_layer_norm"
	bartCross   = " norms=self_attn_layer_norm,encoder_attn_layer_norm,final_layer_norm cross=encoder_attn xq=q_proj xk=k_proj xv=v_proj xo=out_proj"
	t5Names     = "final=final_layer_norm q=layer.0.SelfAttention.q k=layer.0.SelfAttention.k v=layer.0.SelfAttention.v o=layer.0.SelfAttention.o"
)

// bertEmbeddings is what BERT-like models put before their layers.
func bertEmbeddings(width string) []*piece {
	return []*piece{
		table(model.RolePositionEmbedding, "embeddings.position_embeddings", "positions", width),
		table(model.RoleTypeEmbedding, "embeddings.token_type_embeddings", "type_vocab_size", width),
		norming(model.RoleNorm, "embeddings.LayerNorm", width, "yes"),
	}
}

// pooler is the dense layer over the first position.
func pooler(name string) *piece { return lin(model.RoleClassifier, name, "hidden", "hidden", "yes") }

func classifier(name, labels string) *piece {
	return lin(model.RoleClassifier, name, labels, "hidden", "yes")
}

// bertHeads is the heads of BERT's classes; only some of them keep the pooler,
// which stands under the name of the bare model.
func bertHeads(base, poolerName string, masked []*piece) map[string][]*piece {
	return map[string][]*piece{
		"Model":                     {pooler(poolerName)},
		"ForMaskedLM":               masked,
		"LMHeadModel":               masked,
		"ForCausalLM":               masked,
		"ForSequenceClassification": {pooler(base + poolerName), classifier("classifier", "labels")},
		"ForTokenClassification":    {classifier("classifier", "labels")},
		"ForQuestionAnswering":      {classifier("qa_outputs", "2")},
	}
}

// encoderFamilies is the families of encoders of text and of images.
func encoderFamilies() []family {
	bert := stack{names: bertNames, kind: model.Encoder, norm: model.LayerNorm, normBias: "yes", residual: model.PostNorm, noRotary: true,
		attn: attentionBias("yes"), ffn: dense{plain: true, bias: "yes"}, before: bertEmbeddings("hidden"),
		text: model.TextEncoder{SelfOutput: true, Activation: "tanh"}}
	masked := bert
	masked.heads = bertHeads("bert.", "pooler.dense", []*piece{
		lin(model.RoleHead, "cls.predictions.transform.dense", "hidden", "hidden", "yes"),
		norming(model.RoleNorm, "cls.predictions.transform.LayerNorm", "hidden", "yes"),
		bare(model.RoleHeadBias, "cls.predictions.bias", "vocab"),
	})
	masked.heads["ForPreTraining"] = append([]*piece{pooler("bert.pooler.dense"), classifier("cls.seq_relationship", "2")}, masked.heads["ForMaskedLM"]...)
	roberta := bert
	roberta.text.Counted, roberta.text.DropsPooled = true, true
	roberta.heads = bertHeads("roberta.", "pooler.dense", []*piece{
		lin(model.RoleHead, "lm_head.dense", "hidden", "hidden", "yes"),
		norming(model.RoleNorm, "lm_head.layer_norm", "hidden", "yes"),
		bare(model.RoleHeadBias, "lm_head.bias", "vocab"),
	})
	roberta.heads["ForSequenceClassification"] = []*piece{
		lin(model.RoleClassifier, "classifier.dense", "hidden", "hidden", "yes"), classifier("classifier.out_proj", "labels"),
	}
	return []family{
		{types: "bert", classes: "Bert", wrap: "bert.", defaults: "type_vocab_size=2" + bertDropout, stacks: []*stack{&masked}},
		{types: "roberta xlm-roberta camembert", classes: "Roberta XLMRoberta Camembert", wrap: "roberta.", defaults: "type_vocab_size=1" + bertDropout,
			stacks: []*stack{&roberta}},
		{types: "albert", classes: "Albert", wrap: "albert.", expects: "down_scale_factor=1 inner_group_num=1",
			defaults: "type_vocab_size=2 embedding_size=128 num_hidden_groups=1 inner_group_num=1", stacks: []*stack{albert()}},
		{types: "vit", classes: "ViT", wrap: "vit.", ignores: "pooler_output_size",
			defaults: "hidden_size=768 num_hidden_layers=12 num_attention_heads=12 intermediate_size=3072 image_size=224 patch_size=16 num_channels=3",
			stacks: []*stack{vit(
				patch("embeddings.patch_embeddings.projection", "hidden num_channels patch_size patch_size", "yes"),
				bare(model.RolePatchEmbedding, "embeddings.cls_token", "1 1 hidden"),
				bare(model.RolePositionEmbedding, "embeddings.position_embeddings", "1 patches+1 hidden"))}},
		dinov2("use_swiglu_ffn", "gate_up=mlp.weights_in down=mlp.weights_out", dense{bias: "yes"}, map[string]string{"intermediate_size": "hidden*mlp_ratio*2/3"}),
		dinov2("", "up=mlp.fc1 down=mlp.fc2", dense{plain: true, bias: "yes"}, nil),
		{types: "deit", classes: "DeiT", wrap: "deit.", ignores: "pooler_output_size",
			defaults: "hidden_size=768 num_hidden_layers=12 num_attention_heads=12 intermediate_size=3072 image_size=224 patch_size=16 num_channels=3",
			stacks: []*stack{vit(
				patch("embeddings.patch_embeddings.projection", "hidden num_channels patch_size patch_size", "yes"),
				bare(model.RolePatchEmbedding, "embeddings.cls_token", "1 1 hidden"),
				bare(model.RolePatchEmbedding, "embeddings.distillation_token", "1 1 hidden"),
				bare(model.RolePositionEmbedding, "embeddings.position_embeddings", "1 patches+2 hidden"))}},
	}
}

// dinov2 is a ViT whose layers scale what joins the stream; the giant has a gated
// network, two thirds as wide (transformers, models/dinov2).
func dinov2(when flag, network names, ffn dense, derive map[string]string) family {
	k := vit(patch("embeddings.patch_embeddings.projection", "hidden num_channels patch_size patch_size", "yes"),
		bare(model.RolePatchEmbedding, "embeddings.cls_token", "1 1 hidden"),
		only("use_mask_token=true", bare(model.RoleOther, "embeddings.mask_token", "1 hidden")),
		bare(model.RolePositionEmbedding, "embeddings.position_embeddings", "1 patches+1 hidden"))
	k.names = vitNames + " norms=norm1,norm2 " + network
	k.ffn, k.derive, k.apartGate = ffn, derive, !ffn.plain
	k.layer = []*piece{bare(model.RoleLayerScale, "layer_scale1.lambda1", "hidden"), bare(model.RoleLayerScale, "layer_scale2.lambda1", "hidden")}
	k.heads = map[string][]*piece{"ForImageClassification": {lin(model.RoleClassifier, "classifier", "labels", "2*hidden", "yes")}}
	return family{types: "dinov2", classes: "Dinov2", wrap: "dinov2.", when: when,
		ignores:  "layerscale_value drop_path_rate out_features out_indices apply_layernorm reshape_hidden_states stage_names",
		defaults: "hidden_size=768 num_hidden_layers=12 num_attention_heads=12 mlp_ratio=4 image_size=224 patch_size=14 num_channels=3",
		stacks:   []*stack{k}}
}

func vit(before ...*piece) *stack {
	return &stack{names: vitNames, kind: model.Vision, norm: model.LayerNorm, normBias: "yes", noRotary: true,
		attn: attention{bias: "qkv_bias=true", outBias: "yes"}, ffn: dense{plain: true, bias: "yes"}, before: before,
		after: []*piece{norming(model.RoleFinalNorm, "layernorm", "hidden", "yes")},
		heads: map[string][]*piece{
			"Model":                  {lin(model.RoleClassifier, "pooler.dense", "pooler_output_size|hidden_size", "hidden", "yes")},
			"ForImageClassification": {classifier("classifier", "labels")},
		}}
}

// albert is BERT with a narrow embedding and one layer whose weights every
// position in the stack uses.
func albert() *stack {
	k := &stack{names: "layers=encoder.albert_layer_groups.0.albert_layers norms=full_layer_layer_norm,attention.LayerNorm embed=embeddings.word_embeddings" +
		" q=attention.query k=attention.key v=attention.value o=attention.dense up=ffn down=ffn_output",
		kind: model.Encoder, norm: model.LayerNorm, normBias: "yes", residual: model.PostNorm, noRotary: true,
		repeated: "num_hidden_groups",
		attn:     attentionBias("yes"), ffn: dense{plain: true, bias: "yes"},
		before: append(bertEmbeddings("embedding_size"),
			lin(model.RoleOther, "encoder.embedding_hidden_mapping_in", "hidden", "embedding_size", "yes"))}
	k.heads = bertHeads("albert.", "pooler", []*piece{
		lin(model.RoleHead, "predictions.dense", "embedding_size", "hidden", "yes"),
		norming(model.RoleNorm, "predictions.LayerNorm", "embedding_size", "yes"),
		bare(model.RoleHeadBias, "predictions.bias", "vocab"),
	})
	return k
}
