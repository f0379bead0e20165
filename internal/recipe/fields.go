package recipe

import (
	"fmt"
	"strconv"
	"strings"
)

// field is a thing that configurations speak of, whatever each calls it.
type field string

// kind is what values a field has.
type kind int

const (
	aText kind = iota
	aCount
	aSwitch
	aList
	aNumber
)

// kinds is the fields with the kind of their values. They are named as a workload
// file and the flags name the same things.
func kinds() map[field]kind {
	all := map[field]kind{}
	for k, names := range map[kind]string{
		aText: `model reference reward_model optimizer weights_format mixed_precision attention adapter lora_bias quantisation sharding
			fsdp_strategy reduce_format activation_checkpointing granularity recompute_method pipeline_schedule compute_format
			loss shard_optimizer titan_layers rollout_mode model_builder model_flavor assets positions normalization router main_grads main_params first_moment second_moment fp8 fp8_recipe
			export_dir adapter_folder offload_optimizer offload_parameters quantised_storage eval_strategy save_strategy checkpoint_folder state_dict final_state_dict resume
			attention_backend layers_of loss_kernel router_format dispatcher context_exchange graph_impl expert_layers vocabulary_file cublas_workspace pipeline_layout window window_layers softmax_kind`,
		aCount: `context micro_batch global_batch accumulation processes nodes processes_per_node tensor_parallel pipeline_parallel
			context_parallel expert_parallel data_parallel replicas shards lora_rank quantisation_bits zero_stage shard_group secondary_group reduce_bucket gather_bucket
			prefetch persistence most_live bucket_mb eval_batch eval_context eval_accumulation generated generations prompt_length completion_length checkpoint_every
			layers hidden feed_forward heads key_value_heads head_size vocabulary vocabulary_multiple experts active_experts expert_feed_forward
			shared_feed_forward fsdp_version recompute_layers layers_per_chunk chunks rollout_tensor_parallel rollout_length
			max_positions query_rank latent_rank head_rope head_nope expert_tensor head_value mtp_layers micro_batch_group optimizer_instances encoder_layers decoder_layers vocabulary_extra wide_at_start wide_at_end amax_history steps_per_generation pipeline_microbatches pipeline_microbatch_size first_layers last_layers offload_least graph_warmup padded_vocabulary`,
		aSwitch: `bf16 fp16 gathered_loss checkpointing use_reentrant peft dora packing compile optimizer_in_backward fused foreach reshard
			fsdp_offload overlap activation_offload loss_only rollout rollout_sleep reference_precomputed distributed_optimizer
			sequence_parallel reduce_in_bf16 untied swiglu gqa no_bias qkv_bias mla precision_aware pure_bf16 upcast
			freeze_language_model freeze_vision_tower freeze_multi_modal_projector do_train do_predict predict_with_generate do_eval checkpoints save_only_model gather_on_save four_bit eight_bit double_quantised load_best multi_gpu low_cpu bf16_full_eval base_in_mixed lora_linear lora_mlp lora_head recompute_attention
			gate_linear squared_relu cpu_only whole_host
			quick_geglu no_accumulation_fusion fused_loss no_loader_mask no_softmax_fusion no_gelu_fusion no_swiglu_fusion no_dropout_fusion no_rope_fusion wide_softmax scaled_scores deterministic expandable_segments megatron_fsdp grouped_gemm permute_fusion padded head_norms fp8_parameters uncached_weights wide_ends router_fills userbuffers count_embedding count_loss fine_offload own_graphs layer_graphs float8_linear float8_gather async_tensor_parallel`,
		aList:   `lora_targets modules_to_save recompute_modules rewards fsdp_options offload_modules graph_modules`,
		aNumber: `validation eval_every eval_iterations save_every rollout_utilization kl adapter_dropout attention_dropout hidden_dropout capacity clamp rope_factor rope_mscale rope_mscale_all`,
	} {
		for _, name := range strings.Fields(names) {
			all[field(name)] = k
		}
	}
	return all
}

// mayBeOpen reports a count for which softwares write −1 where the launcher's
// processes decide it.
func mayBeOpen(f field) bool {
	switch f {
	case "shard_group", "replicas", "shards", "data_parallel", "processes", "global_batch":
		return true
	}
	return false
}

// mostCount bounds a count: more than any file means.
const mostCount = int64(1) << 48

// valueOf checks the value of a field.
func (p *plan) valueOf(f field, v any) (any, error) {
	k, known := p.kinds[f]
	switch {
	case !known:
		return nil, fmt.Errorf("is of no field that is known (%s)", f)
	case k == aText:
		return textOf(v)
	case k == aCount:
		n, is := v.(int64)
		switch {
		case !is:
			return nil, noCount(v)
		case n < 0 && (n != -1 || !mayBeOpen(f)):
			return nil, fmt.Errorf("is %d, expected 0 or more", n)
		case n > mostCount:
			return nil, fmt.Errorf("is %d, expected at most %d", n, mostCount)
		}
		return n, nil
	case k == aNumber:
		switch v.(type) {
		case int64, float64:
			return v, nil
		}
		return nil, fmt.Errorf("is %s, expected a number", shown(v))
	case k == aSwitch:
		return switchOf(v)
	}
	return listOf(v)
}

// noCount says what stands in place of a count, as it was written.
func noCount(v any) error {
	switch v := v.(type) {
	case string:
		if _, err := strconv.ParseFloat(v, 64); err == nil {
			return fmt.Errorf("is the text %q, expected a whole number without quotes", shown(v))
		}
	case float64:
		if _, is := whole(v).(int64); is {
			return fmt.Errorf("is %.1f, expected a whole number without a fraction", v)
		}
		return fmt.Errorf("is %s, expected a whole number of at most %d", strconv.FormatFloat(v, 'f', -1, 64), mostCount)
	case []any, map[string]any:
		return fmt.Errorf("is a list or a table, expected a whole number")
	}
	return fmt.Errorf("is %s, expected a whole number", shown(v))
}

// textOf is a text; numbers and switches are read as they are written, for a word
// may stand in either form (fsdp: true, quantization_bit: 4).
func textOf(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return v, nil
	case bool, int64, float64:
		return fmt.Sprint(v), nil
	}
	return nil, fmt.Errorf("is a list or a table, expected a text")
}

func switchOf(v any) (any, error) {
	switch v := v.(type) {
	case bool:
		return v, nil
	case int64:
		if v == 0 || v == 1 {
			return v == 1, nil
		}
	case string:
		switch strings.ToLower(v) {
		case "true", "yes", "on", "1":
			return true, nil
		case "false", "no", "off", "0":
			return false, nil
		}
	}
	return nil, fmt.Errorf("is %s, expected true or false", shown(v))
}

// listOf is a list of texts, or one text with commas or blanks between.
func listOf(v any) (any, error) {
	switch v := v.(type) {
	case string:
		return strings.FieldsFunc(v, func(r rune) bool { return r == ',' || r == ' ' }), nil
	case []any:
		words := make([]string, 0, len(v))
		for _, w := range v {
			text, err := textOf(w)
			if err != nil {
				return nil, fmt.Errorf("holds a list or a table, expected texts")
			}
			words = append(words, text.(string))
		}
		return words, nil
	}
	return nil, fmt.Errorf("is %s, expected a list of texts", shown(v))
}
