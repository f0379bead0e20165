package hfmodel

import (
	"fmt"
	"strings"
)

// leftOver notes the keys of the configuration that nobody read and that may
// bear on sizes: a block that this package does not know hides behind one.
func (b *builder) leftOver(s section) {
	if len(b.drafts) == 0 {
		return // nothing was understood, and that is already said
	}
	var left []unread
	b.leftIn(&left, s.object, &value{}, "")
	for i, u := range left {
		if i == mostUnread && len(left) > mostUnread+1 {
			b.doubt(fmt.Sprintf("and %d more", len(left)-i), u.field, "these keys were not read, and they may bear on sizes")
			return
		}
		b.doubt(u.field, u.value.String(), "this key was not read, and it may bear on sizes")
	}
}

// mostUnread is how many keys that nobody read are named one by one.
const mostUnread = 20

// unread is a key that nobody read.
type unread struct {
	field string
	value *value
}

// leftIn looks through one object; parsing has bounded its depth.
func (b *builder) leftIn(left *[]unread, object, around *value, path string) {
	var inside map[number]bool
	for i, key := range object.keys {
		v := object.items[i]
		if v.kind == isObject && !sizeless(key) {
			b.leftIn(left, v, object, path+key+".")
			continue
		}
		if b.used[path+key] || !bearsSize(key, v) {
			continue
		}
		if inside == nil {
			inside = object.inside()
		}
		// The whole of a model often repeats sizes of a part, and the other way
		// round, under the same key.
		twin := around.get(key)
		repeated := v.kind == isNumber && (inside[number{key, v.text}] || twin != nil && twin.text == v.text)
		if !repeated {
			*left = append(*left, unread{path + key, v})
		}
	}
}

// number is a number under its key.
type number struct{ key, text string }

// inside is the numbers of the objects that lie in an object.
func (v *value) inside() map[number]bool {
	all := map[number]bool{}
	for _, inner := range v.items {
		for i, key := range inner.keys {
			if inner.items[i].kind == isNumber {
				all[number{key, inner.items[i].text}] = true
			}
		}
	}
	return all
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
		" image_grid_pinpoints attention_multiplier embedding_multiplier logits_scaling residual_multiplier scale_emb dim_model_base scale_depth mup_denominator" +
		" pruned_heads classifier_dropout_prob gradient_clipping is_gated_act relative_attention_max_distance encoder_stride" +
		" faster_token_stride pos_skipping_range candidate_resolutions pooling_kernel_size attention_context_left attention_context_right" +
		" attention_invalid_logits_value attention_logit_cap residual_weight forced_decoder_ids _num_labels pooler_fc_size" +
		" pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head layer_rope_theta indexer_types moe_renormalize clip_qkv embedding_fraction full_attn_mod moe_shared_expert_overlap video_seq_length stage_names out_features out_indices"
)
