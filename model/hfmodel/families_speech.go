package hfmodel

import (
	"strconv"

	"floodmark/model"
)

// speechFamilies is encoders of speech after convolutions over samples, and
// YOLOS, which finds objects with ViT's layers.
func speechFamilies() []family {
	// transformers, models/wav2vec2; an adapter is not known here.
	speech := family{types: "wav2vec2", classes: "Wav2Vec2", wrap: "wav2vec2.", stacks: []*stack{wav2vec2()},
		expects: "num_feat_extract_layers=7 add_adapter=false use_weighted_layer_sum=false",
		ignores: "adapter_kernel_size adapter_stride num_adapter_layers output_hidden_size num_negatives sampling_rate tdnn_dilation tdnn_dim tdnn_kernel" +
			" xvector_output_dim conv_stride classifier_proj_size codevector_dim proj_codevector_dim num_codevector_groups num_codevectors_per_group vocab_size" +
			" do_stable_layer_norm feat_proj_layer_norm",
		defaults: "hidden_size=768 num_hidden_layers=12 num_attention_heads=12 intermediate_size=3072 num_conv_pos_embeddings=128 num_conv_pos_embedding_groups=16" +
			" mask_time_prob=0.05 feat_extract_norm=group vocab_size=32 classifier_proj_size=256"}
	hubert := speech
	hubert.types, hubert.classes, hubert.wrap, hubert.stacks = "hubert", "Hubert", "hubert.", []*stack{wav2vec2()}
	return []family{
		speech, hubert,
		{types: "yolos", classes: "Yolos", wrap: "vit.", stacks: []*stack{yolos()},
			ignores:  "bbox_cost class_cost giou_cost auxiliary_loss",
			defaults: "hidden_size=768 num_hidden_layers=12 num_attention_heads=12 intermediate_size=3072 patch_size=16 num_channels=3 num_detection_tokens=100 use_mid_position_embeddings=true"},
	}
}

func wav2vec2() *stack {
	k := tower("layers=encoder.layers norms=layer_norm,final_layer_norm q=attention.q_proj k=attention.k_proj v=attention.v_proj o=attention.out_proj"+
		" up=feed_forward.intermediate_dense down=feed_forward.output_dense", nil, nil)
	k.kind = model.Audio
	for i := range 7 {
		n := strconv.Itoa(i)
		before := "1"
		if i > 0 {
			before = "conv_dim@" + strconv.Itoa(i-1)
		}
		at := "feature_extractor.conv_layers." + n
		scaled := norming(model.RoleNorm, at+".layer_norm", "conv_dim@"+n, "yes")
		if i > 0 {
			scaled = only("feat_extract_norm~layer", scaled)
		}
		k.before = append(k.before, patch(at+".conv", "conv_dim@"+n+" "+before+" conv_kernel@"+n, "conv_bias"), scaled)
	}
	k.before = append(k.before,
		norming(model.RoleNorm, "feature_projection.layer_norm", "conv_dim@6", "yes"), project("feature_projection.projection", "hidden", "conv_dim@6", "yes"),
		only("mask_time_prob", bare(model.RoleOther, "masked_spec_embed", "hidden")),
		bare(model.RolePositionEmbedding, "encoder.pos_conv_embed.conv.weight_g", "1 1 num_conv_pos_embeddings"),
		bare(model.RolePositionEmbedding, "encoder.pos_conv_embed.conv.weight_v", "hidden hidden/num_conv_pos_embedding_groups num_conv_pos_embeddings"),
		bare(model.RolePositionEmbedding, "encoder.pos_conv_embed.conv.bias", "hidden"),
		norming(model.RoleNorm, "encoder.layer_norm", "hidden", "yes"))
	k.heads = map[string][]*piece{
		"ForCTC":                    {lin(model.RoleHead, "lm_head", "vocab", "hidden", "yes")},
		"ForSequenceClassification": {project("projector", "classifier_proj_size", "hidden", "yes"), lin(model.RoleClassifier, "classifier", "labels", "classifier_proj_size", "yes")},
		"ForPreTraining": {
			bare(model.RoleOther, "quantizer.codevectors", "1 num_codevector_groups*num_codevectors_per_group codevector_dim/num_codevector_groups"),
			lin(model.RoleOther, "quantizer.weight_proj", "num_codevector_groups*num_codevectors_per_group", "conv_dim@6", "yes"),
			project("project_hid", "proj_codevector_dim", "hidden", "yes"), project("project_q", "proj_codevector_dim", "codevector_dim", "yes"),
		},
	}
	return k
}

func yolos() *stack {
	const seen = "patches+num_detection_tokens+1"
	k := vit(
		patch("embeddings.patch_embeddings.projection", "hidden num_channels patch_size patch_size", "yes"),
		bare(model.RolePatchEmbedding, "embeddings.cls_token", "1 1 hidden"),
		bare(model.RolePatchEmbedding, "embeddings.detection_tokens", "1 num_detection_tokens hidden"),
		bare(model.RolePositionEmbedding, "embeddings.position_embeddings", "1 "+seen+" hidden"),
		only("use_mid_position_embeddings", bare(model.RolePositionEmbedding, "encoder.mid_position_embeddings", "layers-1 1 "+seen+" hidden")))
	k.heads = map[string][]*piece{"Model": {pooler("pooler.dense")}, "ForObjectDetection": {
		pooler("class_labels_classifier.layers.0"), pooler("class_labels_classifier.layers.1"), classifier("class_labels_classifier.layers.2", "labels+1"),
		pooler("bbox_predictor.layers.0"), pooler("bbox_predictor.layers.1"), classifier("bbox_predictor.layers.2", "4"),
	}}
	return k
}
