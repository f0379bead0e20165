package hfmodel

import "floodmark/model"

// The naming schemes that several families share.
const (
	llamaNames = "embed=model.embed_tokens layers=model.layers final=model.norm head=lm_head" +
		" norms=input_layernorm,post_attention_layernorm" +
		" q=self_attn.q_proj k=self_attn.k_proj v=self_attn.v_proj o=self_attn.o_proj q_norm=self_attn.q_norm k_norm=self_attn.k_norm" +
		" gate=mlp.gate_proj up=mlp.up_proj down=mlp.down_proj"
	sandwichNorms = " norms=input_layernorm,post_attention_layernorm,pre_feedforward_layernorm,post_feedforward_layernorm"
	gptNames      = "embed=transformer.wte layers=transformer.h final=transformer.ln_f head=lm_head norms=ln_1,ln_2" +
		" qkv=attn.c_attn o=attn.c_proj up=mlp.c_fc down=mlp.c_proj"
	neoxNames = "embed=gpt_neox.embed_in layers=gpt_neox.layers final=gpt_neox.final_layer_norm head=embed_out" +
		" norms=input_layernorm,post_attention_layernorm qkv=attention.query_key_value o=attention.dense" +
		" up=mlp.dense_h_to_4h down=mlp.dense_4h_to_h"
	bloomNames = "embed=transformer.word_embeddings layers=transformer.h final=transformer.ln_f head=lm_head" +
		" norms=input_layernorm,post_attention_layernorm qkv=self_attention.query_key_value o=self_attention.dense" +
		" up=mlp.dense_h_to_4h down=mlp.dense_4h_to_h"
)

// attentionBias is one switch for all projections of attention.
func attentionBias(f flag) attention { return attention{bias: f, outBias: f} }

// decoderFamilies is the families of dense decoders whose layers are called
// as Llama's.
func decoderFamilies() []family {
	return []family{
		{types: "llama", classes: "Llama LLaMA", stacks: []*stack{{names: llamaNames, attn: attentionBias("attention_bias"),
			ffn: dense{bias: "mlp_bias"}}},
			defaults: "hidden_size=4096 intermediate_size=11008 num_hidden_layers=32 num_attention_heads=32 vocab_size=32000"},
		{types: "mistral ministral ministral3", classes: "Mistral Ministral Ministral3", stacks: []*stack{{names: llamaNames}},
			defaults: "hidden_size=4096 intermediate_size=14336 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=8 vocab_size=32000"},
		{types: "qwen2 qwen2_vl_text qwen2_5_vl_text", classes: "Qwen2", stacks: []*stack{{names: llamaNames,
			attn: attention{bias: "yes"}}},
			defaults: "use_sliding_window=false hidden_size=4096 intermediate_size=22016 num_hidden_layers=32 num_attention_heads=32 num_key_value_heads=32 vocab_size=151936"},
		{types: "qwen3 qwen3_vl_text", classes: "Qwen3", expects: "use_qk_norm=true", stacks: []*stack{{names: llamaNames,
			attn: attention{bias: "attention_bias", outBias: "attention_bias", qkNorm: perHead}}},
			defaults: "use_sliding_window=false head_dim=128"},
		// Xiaomi's MiMo-7B is Qwen2 with a prediction layer (modeling_mimo.py of its
		// repository, MiMoMTPLayers).
		{types: "mimo", classes: "MiMo", defaults: "use_sliding_window=false", stacks: []*stack{{names: llamaNames + " mtp=model.mtp_layers",
			attn: attention{bias: "attention_bias=true"}, predict: &predictor{key: "num_nextn_predict_layers", joint: []*piece{
				norming(model.RoleNorm, "token_layernorm", "hidden", ""), norming(model.RoleNorm, "hidden_layernorm", "hidden", ""),
				lin(model.RoleProjector, "input_proj", "hidden", "2*hidden", ""), norming(model.RoleFinalNorm, "final_layernorm", "hidden", ""),
			}}}}},
		{types: "arcee", classes: "Arcee", stacks: []*stack{{names: llamaNames, attn: attentionBias("attention_bias"),
			ffn: dense{plain: true, bias: "mlp_bias"}}}},
		{types: "seed_oss", classes: "SeedOss", stacks: []*stack{{names: llamaNames, attn: attention{bias: "attention_bias=true",
			outBias: "attention_out_bias"}, ffn: dense{bias: "mlp_bias"}}}},
		{types: "smollm3", classes: "SmolLM3", stacks: []*stack{{names: llamaNames, tied: true, attn: attentionBias("attention_bias"),
			ffn: dense{bias: "mlp_bias"}}}},
		{types: "granite", classes: "Granite", stacks: []*stack{{names: llamaNames, attn: attentionBias("attention_bias"),
			ffn: dense{bias: "mlp_bias"}}}},
		{types: "minicpm", classes: "MiniCPM", stacks: []*stack{{names: llamaNames + " router=mlp.gate experts=mlp.experts e_gate=w1 e_up=w3 e_down=w2", tied: true, attn: attentionBias("attention_bias"),
			experts: &experts{}}}},
		{types: "internlm PanguEmbedded", classes: "InternLM PanguEmbedded", stacks: []*stack{{names: llamaNames, attn: attentionBias("bias=true"),
			layer: []*piece{rotaryBuffer("self_attn.rotary_emb.inv_freq", "hidden/heads/2")}}}},
		{types: "internlm3", classes: "InternLM3", stacks: []*stack{{names: llamaNames, attn: attention{bias: "qkv_bias", outBias: "bias"},
			ffn: dense{bias: "bias"}}}},
		{types: "baichuan", classes: "Baichuan BaiChuan", stacks: []*stack{{names: llamaNames + " qkv=self_attn.W_pack"}}},
		{types: "orion", classes: "Orion", stacks: []*stack{{names: llamaNames, norm: model.LayerNorm, normBias: "yes",
			attn: attentionBias("attention_bias")}}},
		{types: "nemotron-nas", classes: "DeciLM", ignores: "intermediate_size num_key_value_heads", stacks: []*stack{{names: llamaNames, attn: attentionBias("attention_bias"),
			ffn: dense{bias: "mlp_bias"}}}},
	}
}

// variantFamilies is the families of dense decoders whose norms, networks or residuals
// differ from Llama's.
func variantFamilies() []family {
	return []family{
		{types: "gemma", classes: "Gemma", stacks: []*stack{{names: llamaNames, tied: true, offset: true, scaled: true, attn: attentionBias("attention_bias")}},
			defaults: "head_dim=256 vocab_size=256000 hidden_size=3072 intermediate_size=24576 num_hidden_layers=28 num_attention_heads=16 num_key_value_heads=16"},
		{types: "gemma2", classes: "Gemma2", stacks: []*stack{{names: llamaNames + sandwichNorms, tied: true, offset: true, scaled: true, residual: model.Sandwich,
			attn: attentionBias("attention_bias")}},
			defaults: "head_dim=256 vocab_size=256000 hidden_size=2304 intermediate_size=9216 num_hidden_layers=26 num_attention_heads=8 num_key_value_heads=4 sliding_window=4096 sliding_window_pattern=2"},
		{types: "gemma3_text", classes: "Gemma3", stacks: []*stack{{names: llamaNames + sandwichNorms, tied: true, offset: true, scaled: true, localRotary: true, residual: model.Sandwich,
			attn: attention{bias: "attention_bias", outBias: "attention_bias", qkNorm: perHead}}},
			defaults: "head_dim=256 vocab_size=262208 hidden_size=2304 intermediate_size=9216 num_hidden_layers=26 num_attention_heads=8 num_key_value_heads=4 sliding_window=4096 sliding_window_pattern=6 max_position_embeddings=131072"},
		{types: "phi", classes: "Phi", stacks: []*stack{{names: llamaNames +
			" o=self_attn.dense up=mlp.fc1 down=mlp.fc2 norms=input_layernorm final=model.final_layernorm q_norm=self_attn.q_layernorm k_norm=self_attn.k_layernorm",
			norm: model.LayerNorm, normBias: "yes", headBias: "yes", residual: model.Parallel,
			attn: attention{bias: "yes", outBias: "yes", qkNorm: perHead, qkIf: "qk_layernorm", qkBias: true}, ffn: dense{plain: true,
				bias: "yes", times: 4}}}},
		{types: "phi3", classes: "Phi3", stacks: []*stack{{names: llamaNames + " qkv=self_attn.qkv_proj gate_up=mlp.gate_up_proj",
			attn: attention{rotaryCut: true}}}},
		{types: "starcoder2", classes: "Starcoder2", stacks: []*stack{{names: llamaNames + " up=mlp.c_fc down=mlp.c_proj", tied: true,
			norm: model.LayerNorm, normBias: "yes",
			attn: attentionBias("use_bias=true"), ffn: dense{plain: true, bias: "use_bias=true"}}}},
		{types: "stablelm", classes: "StableLm StableLM StableLMEpoch", stacks: []*stack{{names: llamaNames, norm: model.LayerNorm,
			normBias: "yes",
			norms:    []choice{{"use_parallel_residual", "input_layernorm"}}, attn: attention{bias: "use_qkv_bias", qkNorm: eachHead,
				qkIf: "qk_layernorm"}}}},
		{types: "cohere", classes: "Cohere", stacks: []*stack{{names: llamaNames + " norms=input_layernorm", tied: true,
			norm: model.LayerNorm, residual: model.Parallel,
			attn: attention{bias: "attention_bias", outBias: "attention_bias", qkNorm: eachHead, qkIf: "use_qk_norm"}}}},
		{types: "cohere2", classes: "Cohere2", stacks: []*stack{{names: llamaNames + " norms=input_layernorm", tied: true,
			norm: model.LayerNorm, residual: model.Parallel,
			attn: attentionBias("attention_bias")}}, defaults: "sliding_window_pattern=4"},
		{types: "nemotron", classes: "Nemotron", stacks: []*stack{{names: llamaNames, norm: model.LayerNorm, normBias: "yes",
			attn: attentionBias("attention_bias"), ffn: dense{plain: true, bias: "mlp_bias"}}}},
		{types: "olmo2 olmo3", classes: "Olmo2 Olmo3", stacks: []*stack{{names: llamaNames +
			" norms=post_attention_layernorm,post_feedforward_layernorm", residual: model.PostNorm,
			attn: attention{bias: "attention_bias", outBias: "attention_bias", qkNorm: allHeads}}}},
		{types: "glm", classes: "Glm", stacks: []*stack{{names: llamaNames + " gate_up=mlp.gate_up_proj",
			attn: attention{bias: "attention_bias=true"}}}, defaults: "head_dim=128"},
		{types: "glm4", classes: "Glm4", stacks: []*stack{{names: llamaNames +
			" gate_up=mlp.gate_up_proj norms=input_layernorm,post_self_attn_layernorm,post_attention_layernorm,post_mlp_layernorm",
			residual: model.Sandwich,
			attn:     attention{bias: "attention_bias"}}}, defaults: "head_dim=128"},
		{types: "glm4v_text", classes: "Glm4vText", ignores: "attention_bias", stacks: []*stack{{names: llamaNames +
			" gate_up=mlp.gate_up_proj norms=input_layernorm,post_self_attn_layernorm,post_attention_layernorm,post_mlp_layernorm",
			residual: model.Sandwich,
			attn:     attention{bias: "yes"}}}},
		{types: "exaone4", classes: "Exaone4", stacks: []*stack{{names: llamaNames +
			" norms=post_attention_layernorm,post_feedforward_layernorm", residual: model.PostNorm, attn: attention{qkNorm: perHead}}}},
		{types: "ernie4_5", classes: "Ernie4_5", stacks: []*stack{{names: llamaNames, tied: true, attn: attentionBias("use_bias"),
			ffn: dense{bias: "use_bias"}}}},
		{types: "hunyuan_v1_dense", classes: "HunYuanDenseV1", stacks: []*stack{{names: llamaNames +
			" q_norm=self_attn.query_layernorm k_norm=self_attn.key_layernorm", attn: attention{bias: "attention_bias",
			outBias: "attention_bias", qkNorm: perHead}}}},
	}
}
