package hfmodel

// The naming schemes that several families share.
const (
	llamaNames = "embed=model.embed_tokens layers=model.layers final=model.norm head=lm_head" +
		" norms=input_layernorm,post_attention_layernorm" +
		" q=self_attn.q_proj k=self_attn.k_proj v=self_attn.v_proj o=self_attn.o_proj q_norm=self_attn.q_norm k_norm=self_attn.k_norm" +
		" gate=mlp.gate_proj up=mlp.up_proj down=mlp.down_proj"
)

// families is every family that is known.
func families() []family {
	return decoderFamilies()
}

// decoderFamilies is the families of dense decoders.
func decoderFamilies() []family {
	return []family{
		{types: "llama", classes: "Llama LLaMA", text: &decoder{names: llamaNames,
			attn: attention{bias: "attention_bias", outBias: "attention_bias"}, ffn: dense{bias: "mlp_bias"}}},
		{types: "mistral", classes: "Mistral", text: &decoder{names: llamaNames}},
		{types: "qwen2", classes: "Qwen2", defaults: "use_sliding_window=false", text: &decoder{names: llamaNames, attn: attention{bias: "yes"}}},
		{types: "qwen3", classes: "Qwen3", defaults: "use_sliding_window=false", text: &decoder{names: llamaNames,
			attn: attention{bias: "attention_bias", outBias: "attention_bias", qkNorm: perHead}}},
	}
}
