package hfmodel

import "strings"

// leftOver notes the keys of the configuration that nobody read and that may
// bear on sizes: a block that this package does not know hides behind one.
func (b *builder) leftOver(s section) {
	if len(b.drafts) == 0 {
		return // nothing was understood, and that is already said
	}
	b.leftIn(s.object, &value{}, "")
}

// leftIn looks through one object; parsing has bounded its depth.
func (b *builder) leftIn(object, around *value, path string) {
	for i, key := range object.keys {
		v := object.items[i]
		switch {
		case v.kind == isObject && !sizeless(key):
			b.leftIn(v, object, path+key+".")
		case !b.used[path+key] && bearsSize(key, v) && !repeated(object, around, key, v):
			b.doubt(path+key, v.String(), "this key was not read, and it may bear on sizes")
		}
	}
}

// repeated reports whether the object around, or one inside, says the same
// under the same key: the whole of a model often repeats sizes of a part.
func repeated(object, around *value, key string, v *value) bool {
	same := func(other *value) bool { return other != nil && v.kind == isNumber && other.text == v.text }
	if same(around.get(key)) {
		return true
	}
	for _, inner := range object.items {
		if same(inner.get(key)) {
			return true
		}
	}
	return false
}

// bearsSize reports whether a key could change a size. Zero, an empty list and
// false change none.
func bearsSize(key string, v *value) bool {
	switch v.kind {
	case isNumber:
		if v.text == "0" || v.text == "0.0" {
			return false
		}
	case isList:
		if len(v.items) == 0 {
			return false
		}
	case isBool:
		return v.text == "true" && shapesWeights(key)
	default:
		return false
	}
	return !sizeless(key)
}

// shapesWeights reports whether a switch is called like one that adds
// weights.
func shapesWeights(key string) bool {
	for _, part := range strings.Split(key, "_") {
		switch part {
		case "bias", "norm", "layernorm", "gate", "gated", "tie", "tied", "lora", "moe", "mla":
			return !sizeless(key)
		}
	}
	return false
}

// sizeless is the reviewed list of keys that change no tensor's shape: token
// ids, rates, epsilons, initialisation, rotary settings, routing, sampling,
// how images are cut, and what authors tell about training.
func sizeless(key string) bool {
	for suffix := range strings.FieldsSeq(sizelessEndings) {
		if strings.HasSuffix(key, suffix) {
			return true
		}
	}
	for prefix := range strings.FieldsSeq(sizelessBeginnings) {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return listed(sizelessKeys, key)
}

const (
	sizelessEndings = "_token_id _token_ids _token_index _eps _epsilon _dropout _pdrop _coef _coeff _std _theta _prob _scale _scaling _init" +
		" _factor _multiplier _version _softcapping _temperature _penalty _alpha _beta _rate _noise _freq_base _base_freq _gain _seed _lr" +
		" _token_interval _bos_id _eos_id _start_id _end_id _cost _coefficient _loss_weight _limit _weight_decay _fusion _ngram_size _threshold _steps _epochs _batch_size _cap _softcap _speed layerdrop _init_value"
	sizelessBeginnings = "rope_ rotary_emb_ time_step_ summary_ num_beam num_return_ tokenizer_ mm_tokens_ initializer_ init_ mask_ no_repeat_ loss_ generation_ train_ kv_cache_ max_new_ fsdp_"
	sizelessKeys       = "eps dropout use_cache id2label label2id auto_map task_specific_params transformers_version norm_topk_prob pretraining_tp" +
		" context_window_size prefill_chunk_size tensor_parallel_shards max_batch_size position_embedding_base conv_template" +
		" num_labels architectures temperature top_p top_k typical_p diversity_penalty max_length min_length bad_words_ids" +
		" torch_dtype dtype query_pre_attn_scalar max_window_layers original_max_position_embeddings initial_context_length" +
		" no_rope_layers no_rope_layer_interval sliding_window sliding_window_size attention_chunk_size" +
		" ep_size n_group topk_group num_expert_group moe_router_topk num_logits_to_keep rescale_every block_size" +
		" vision_feature_layer image_seq_length mm_tokens_per_image image_token_length vision_soft_tokens_per_image default_output_length" +
		" num_image_tokens query_num ignore_index tokens_per_second window_size fullatt_block_indexes chunk_size_feed_forward" +
		" force_bos_token_to_be_generated offset_alibi skip_bias_add post_layer_norm apply_residual_connection_post_layernorm" +
		" alibi_bias_max suppress_tokens begin_suppress_tokens mrope_section min_dynamic_patch max_dynamic_patch force_image_size select_layer" +
		" image_grid_pinpoints attention_multiplier embedding_multiplier logits_scaling residual_multiplier scale_emb dim_model_base scale_depth" +
		" pruned_heads classifier_dropout_prob gradient_clipping is_gated_act relative_attention_max_distance encoder_stride" +
		" faster_token_stride pos_skipping_range candidate_resolutions pooling_kernel_size attention_context_left attention_context_right" +
		" attention_invalid_logits_value attention_logit_cap residual_weight forced_decoder_ids _num_labels pooler_fc_size" +
		" pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head layer_rope_theta indexer_types moe_renormalize clip_qkv embedding_fraction full_attn_mod moe_shared_expert_overlap video_seq_length stage_names out_features out_indices"
)
