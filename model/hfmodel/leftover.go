package hfmodel

import "strings"

// leftOver notes the keys of the configuration that nobody read and that may
// bear on sizes: a block that this package does not know hides behind one.
func (b *builder) leftOver(s section) {
	if len(b.drafts) == 0 {
		return // nothing was understood, and that is already said
	}
	b.leftIn(s.object, "")
}

// leftIn looks through one object; parsing has bounded its depth.
func (b *builder) leftIn(object *value, path string) {
	for i, key := range object.keys {
		v := object.items[i]
		switch {
		case v.kind == isObject && !sizeless(key):
			b.leftIn(v, path+key+".")
		case !b.used[path+key] && bearsSize(key, v):
			b.doubt(path+key, v.String(), "this key was not read, and it may bear on sizes")
		}
	}
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
// ids, rates, epsilons, initialisation, rotary settings, sampling, and what
// the authors tell about training.
func sizeless(key string) bool {
	for _, suffix := range strings.Fields("_token_id _token_ids _token_index _eps _epsilon _dropout _pdrop _coef _coeff _std _theta" +
		" _prob _scale _scaling _init _factor _multiplier _version _softcapping _temperature _penalty _alpha _beta _rate") {
		if strings.HasSuffix(key, suffix) {
			return true
		}
	}
	return listed(sizelessKeys, key)
}

const sizelessKeys = "initializer_range rope_scaling rope_theta rope_parameters rotary_base rotary_emb_base pretraining_tp use_cache eps dropout" +
	" id2label label2id auto_map task_specific_params transformers_version norm_topk_prob max_window_layers" +
	" context_window_size prefill_chunk_size tensor_parallel_shards max_batch_size position_embedding_base conv_template" +
	" num_labels architectures temperature top_p top_k num_beams max_length min_length length_penalty" +
	" bad_words_ids sep_token_id router_aux_loss_coef torch_dtype dtype query_pre_attn_scalar"
