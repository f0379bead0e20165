package hfmodel

import "floodmark/model"

// streams is the parameters by which DeepSeek-V4 mixes its residual streams
// (hyper-connections), all in 32 bits.
func streams(name, mixes, scales string) []*piece {
	pieces := []*piece{
		bare(model.RoleOther, name+"_fn", mixes+" hc_mult*hidden"), bare(model.RoleOther, name+"_base", mixes), bare(model.RoleOther, name+"_scale", scales),
	}
	for i := range pieces {
		pieces[i].f32 = true
	}
	return pieces
}

// deepseek4Families is DeepSeek-V4.
func deepseek4Families() []family {
	const mixes = "2*hc_mult+hc_mult^2"
	joint := append(streams("hc_head", "hc_mult", "1"),
		lin(model.RoleProjector, "e_proj", "hidden", "hidden", ""), lin(model.RoleProjector, "h_proj", "hidden", "hidden", ""),
		norming(model.RoleNorm, "enorm", "hidden", ""), norming(model.RoleNorm, "hnorm", "hidden", ""), norming(model.RoleFinalNorm, "norm", "hidden", ""))
	return []family{
		{types: "deepseek_v4 deepseek_ref", classes: "DeepseekV4", ignores: "hc_sinkhorn_iters", stacks: []*stack{{
			names: "embed=embed layers=layers final=norm head=head norms=attn_norm,ffn_norm mtp=mtp router=ffn.gate correction=ffn.gate.bias hashed=ffn.gate.tid2eid" +
				" experts=ffn.experts e_gate=w1 e_up=w3 e_down=w2 shared=ffn.shared_experts s_gate=w1 s_up=w3 s_down=w2",
			compressed: true, experts: &experts{correction: "topk_method~noaux", float32: true},
			layer: append(streams("hc_attn", mixes, "3"), streams("hc_ffn", mixes, "3")...),
			after: streams("hc_head", "hc_mult", "1"), predict: &predictor{key: "num_nextn_predict_layers", joint: joint}}}},
	}
}
