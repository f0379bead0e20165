package hfmodel_test

import (
	"fmt"
	"strings"
	"testing"

	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/hfmodel"
)

// packedModel is a Llama of one layer, hidden 256, width 512, read with a
// quantisation.
func packedModel(t *testing.T, quantisation string, extra ...source.Source) *model.Model {
	t.Helper()
	config := `{"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":256,"num_attention_heads":4,"intermediate_size":512,
		"num_hidden_layers":1,"vocab_size":1000,"torch_dtype":"bfloat16"` + quantisation + `}`
	m, err := hfmodel.Read(source.Bytes("config.json", []byte(config)), extra...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// describe lists the tensors of one module: the last word of each name, its
// format, and its stored bytes.
func describe(m *model.Model, module string) string {
	var b strings.Builder
	for _, x := range m.Tensors {
		if rest, ok := strings.CutPrefix(x.Name, module+"."); ok {
			n, _ := x.Bytes()
			fmt.Fprintf(&b, "%s %s %d; ", rest, x.Stored, n)
		}
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// hqqSwitches is the settings that HQQ stores as a byte each.
const hqqSwitches = "nbits U8 1; group_size U8 1; axis U8 1; view_as_float U8 1; quant_scale U8 1; quant_zero U8 1; offload_meta U8 1; " +
	"encoded_state_dict U8 1; stores_quant_config U8 1; channel_wise U8 1; optimize U8 1; round_zero U8 1"

// TestForms packs an up projection of [512, 256] = 131,072 elements in each
// form. In 4 bits its words take 65,536 bytes; 128 elements of the input are
// two groups.
func TestForms(t *testing.T) {
	const group = `"config_groups":{"group_0":{"targets":["Linear"],"weights":`
	for _, c := range []struct{ name, quantisation, want string }{
		{"bitsandbytes in 8 bits: a scale for each of 512 rows", `{"quant_method":"bitsandbytes","load_in_8bit":true}`,
			"weight I8 131072; SCB F32 2048; weight_format U8 1"},
		// 131072/64 = 2048 maxima; the state is a JSON text of 80 bytes
		{"bitsandbytes in 4 bits", `{"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"nf4"}`,
			"weight U4 65536; weight.quant_map F32 64; weight.absmax F32 8192; weight.quant_state.bitsandbytes__nf4 U8 80"},
		{"GPTQ: zero points of 4 bits and scales of 16 for 2 groups", `{"quant_method":"gptq","bits":4,"group_size":128}`,
			"qweight U4 65536; qzeros I32 512; scales F16 2048; g_idx I32 1024"},
		{"GPTQ as AutoGPTQ saves it", `{"quant_method":"gptq","bits":4,"group_size":128,"model_file_base_name":"model"}`,
			"qweight U4 65536; qzeros I32 512; scales F16 2048; g_idx I32 1024; bias F16 1024"},
		{"GPTQ in 3 bits, one group: words of 32 bits", `{"quant_method":"gptq","bits":3,"group_size":-1}`,
			"qweight I32 49152; qzeros I32 192; scales F16 1024; g_idx I32 1024"},
		{"AWQ has no index", `{"quant_method":"awq","bits":4,"group_size":128,"version":"gemm","zero_point":true}`,
			"qweight U4 65536; qzeros I32 512; scales F16 2048"},
		// AutoAWQ's other versions pad 2 groups to the 8 of a word of zero points
		{"AWQ for vectors: rows of 32 words, one of zero points, 8 scales", `{"quant_method":"awq","bits":4,"group_size":128,"version":"gemv"}`,
			"qweight U4 65536; qzeros I32 2048; scales F16 8192"},
		{"and in groups of 32: 8 groups are padded to 32", `{"quant_method":"awq","bits":4,"group_size":32,"version":"gemv"}`,
			"qweight U4 65536; qzeros I32 8192; scales F16 32768"},
		{"AWQ for vectors, with scaled zeros", `{"quant_method":"awq","bits":4,"group_size":128,"version":"gemv_fast"}`,
			"qweight U4 65536; scales F16 8192; scaled_zeros F16 8192"},
		{"AWQ for Marlin is symmetric", `{"quant_method":"awq","bits":4,"group_size":128,"version":"marlin"}`,
			"qweight U4 65536; scales F16 2048"},
		// 2048 groups; texts "4bit_u8", "torch.uint8" and "torch.bfloat16"; twelve numbers and switches
		{"HQQ in 4 bits", `{"quant_method":"hqq","skip_modules":["lm_head"],"quant_config":{"weight_quant_params":{"nbits":4,"channel_wise":true,"group_size":64,"optimize":true,"round_zero":true,"axis":1,"view_as_float":false},"scale_quant_params":null,"zero_quant_params":null,"offload_meta":false}}`,
			"W_q U4 65536; scale BF16 4096; zero BF16 4096; shape I64 16; packing U8 7; unpack_view_dtype U8 11; compute_dtype U8 14; " + hqqSwitches},
		// ten elements a word of 32 bits: 2048 groups are 205 rows of 64
		{"HQQ in 3 bits", `{"quant_method":"hqq","quant_config":{"weight_quant_params":{"nbits":3,"group_size":64,"axis":1},"offload_meta":false}}`,
			"W_q I32 52480; scale BF16 4096; zero BF16 4096; shape I64 16; packing U8 7; unpack_view_dtype U8 11; compute_dtype U8 14; " + hqqSwitches},
		{"HQQ for some modules, by their names", `{"quant_method":"hqq","quant_config":{"mlp.up_proj":{"weight_quant_params":{"nbits":8,"group_size":256,"axis":1}},"self_attn.q_proj":{"weight_quant_params":{"nbits":4,"group_size":64,"axis":1}}}}`,
			"W_q U8 131072; scale BF16 1024; zero BF16 1024; shape I64 16; packing U8 7; unpack_view_dtype U8 11; compute_dtype U8 14; " + hqqSwitches},
		{"ModelOpt's mixed precision, module by module", `{"quant_method":"modelopt","quant_algo":"MIXED_PRECISION","quantized_layers":{"model.layers.0.mlp.up_proj":{"quant_algo":"NVFP4","group_size":16},"model.layers.0.mlp.down_proj":{"quant_algo":"FP8"}}}`,
			"weight F4 65536; weight_scale F8_E4M3 8192; weight_scale_2 F32 4; input_scale F32 4"},
		{"torchao's Int8Tensor: a scale and a zero point for each row", `{"quant_method":"torchao","quant_type":{"default":{"_type":"Int8WeightOnlyConfig","_version":2,"_data":{"group_size":null,"granularity":{"_type":"PerRow","_version":1,"_data":{"dim":-1}}}}}}`,
			"_weight_qdata I8 131072; _weight_scale F32 2048; _weight_zero_point I8 512"},
		{"torchao's Float8Tensor", `{"quant_method":"torchao","quant_type":{"default":{"_type":"Float8WeightOnlyConfig","_version":2,"_data":{}}}}`,
			"_weight_qdata F8_E4M3 131072; _weight_scale F32 2048"},
		{"the same with one scale, for activations too", `{"quant_method":"torchao","quant_type":{"default":{"_type":"Float8DynamicActivationFloat8WeightConfig","_version":2,"_data":{"granularity":[{"_type":"PerTensor","_data":{}},{"_type":"PerTensor","_data":{}}]}}}}`,
			"_weight_qdata F8_E4M3 131072; _weight_scale F32 4"},
		{"torchao's Int4Tensor", `{"quant_method":"torchao","quant_type":{"default":{"_type":"Int4WeightOnlyConfig","_version":2,"_data":{"group_size":128}}}}`,
			"_weight_qdata U4 65536; _weight_scale BF16 2048; _weight_zero_point BF16 2048"},
		// 256 columns are padded to 1024: 8 groups of 128
		{"and in tiles", `{"quant_method":"torchao","quant_type":{"default":{"_type":"Int4WeightOnlyConfig","_version":2,"_data":{"group_size":128,"int4_packing_format":{"_type":"Int4PackingFormat","_data":"TILE_PACKED_TO_4D"}}}}}`,
			"_weight_qdata I32 262144; _weight_scale_and_zero BF16 16384"},
		{"quanto in 8 bits", `{"quant_method":"quanto","weights":"int8","activations":null}`,
			"weight._data I8 131072; weight._scale BF16 1024; input_scale BF16 2; output_scale BF16 2"},
		{"quanto in 8-bit floats", `{"quant_method":"quanto","weights":"float8","activations":null}`,
			"weight._data F8_E4M3 131072; weight._scale BF16 1024; input_scale BF16 2; output_scale BF16 2"},
		{"quanto in 4 bits: 1,024 groups of 128", `{"quant_method":"quanto","weights":"int4","activations":null}`,
			"weight._data._data U4 65536; weight._scale BF16 2048; weight._shift BF16 2048; input_scale BF16 2; output_scale BF16 2"},
		{"quanto in 2 bits", `{"quant_method":"quanto","weights":"int2","activations":null}`,
			"weight._data._data U8 32768; weight._scale BF16 2048; weight._shift BF16 2048; input_scale BF16 2; output_scale BF16 2"},
		{"MXFP4 as compressed-tensors stores it: a scale for 32", `{"quant_method":"compressed-tensors","format":"mxfp4-pack-quantized",` + group + `{"num_bits":4,"type":"float","strategy":"group","group_size":32}}}}`,
			"weight_packed F4 65536; weight_scale U8 4096"},
		{"NVFP4 as compressed-tensors stores it", `{"quant_method":"compressed-tensors","format":"nvfp4-pack-quantized",` + group + `{"num_bits":4,"type":"float","strategy":"tensor_group","group_size":16}}}}`,
			"weight_packed F4 65536; weight_scale F8_E4M3 8192; weight_global_scale F32 4; input_global_scale F32 4"},
		{"FP8 by tensor", `{"quant_method":"fp8","activation_scheme":"static"}`,
			"weight F8_E4M3 131072; weight_scale_inv F32 4; input_scale F32 4"},
		{"MLX in MXFP4: 8-bit scales for 32", `{"group_size":32,"bits":4,"mode":"mxfp4"}`, "weight U4 65536; scales U8 4096"},
		{"MLX in NVFP4: 8-bit scales for 16", `{"group_size":16,"bits":4,"mode":"nvfp4"}`, "weight U4 65536; scales U8 8192"},
		{"MLX in MXFP8", `{"group_size":32,"bits":8,"mode":"mxfp8"}`, "weight U32 131072; scales U8 4096"},
		{"FP8 by blocks of 128×128: 4×2 scales", `{"quant_method":"fp8","weight_block_size":[128,128]}`,
			"weight F8_E4M3 131072; weight_scale_inv F32 32"},
		{"compressed-tensors, FP8 by channel", `{"quant_method":"compressed-tensors","format":"float-quantized",` + group + `{"num_bits":8,"type":"float","strategy":"channel"},"input_activations":{"dynamic":true}}}}`,
			"weight F8_E4M3 131072; weight_scale BF16 1024"},
		{"compressed-tensors, 4 bits in groups of 32", `{"quant_method":"compressed-tensors","format":"pack-quantized",` + group + `{"num_bits":4,"type":"int","strategy":"group","group_size":32,"symmetric":true}}}}`,
			"weight_packed U4 65536; weight_scale BF16 8192; weight_shape I64 16"},
		{"the same with zero points", `{"quant_method":"compressed-tensors","format":"pack-quantized",` + group + `{"num_bits":4,"type":"int","strategy":"group","group_size":32,"symmetric":false}}}}`,
			"weight_packed U4 65536; weight_scale BF16 8192; weight_shape I64 16; weight_zero_point I32 2048"},
		{"ModelOpt's NVFP4: an 8-bit scale for 16", `{"quant_method":"modelopt","quant_algo":"NVFP4","ignore":["lm_head"]}`,
			"weight F4 65536; weight_scale F8_E4M3 8192; weight_scale_2 F32 4; input_scale F32 4"},
		{"ModelOpt's FP8", `{"quant_method":"modelopt","quant_algo":"FP8","ignore":["lm_head"]}`,
			"weight F8_E4M3 131072; weight_scale F32 4; input_scale F32 4"},
		{"ModelOpt's MXFP8: an 8-bit scale for 32", `{"quant_method":"modelopt","quant_algo":"MXFP8","ignore":["lm_head"]}`,
			"weight F8_E4M3 131072; weight_scale U8 4096"},
		{"MLX: scales and biases for 64", `{"group_size":64,"bits":4}`,
			"weight U4 65536; scales BF16 4096; biases BF16 4096"},
	} {
		m := packedModel(t, `,"quantization_config":`+c.quantisation)
		if got := describe(m, "model.layers.0.mlp.up_proj"); got != c.want || len(m.Unknown) > 0 {
			t.Errorf("%s:\n got %s\nwant %s\nunknown %v", c.name, got, c.want, m.Unknown)
		}
		if m.Quantised == nil {
			t.Errorf("%s: the model does not say that it is quantised", c.name)
		}
		const logical = 4*256*256 + 3*256*512 + 2*256 + 2*256_000 + 256
		if got := m.Parameters().Low(); got != logical && !strings.Contains(c.name, "AutoGPTQ") {
			t.Errorf("%s: %d parameters, want %d as without quantisation", c.name, got, int64(logical))
		}
	}
}

// TestKept shows what stays as it is: the head, norms and embeddings always
// but in MLX; the rest by lists.
func TestKept(t *testing.T) {
	fp8 := func(list string) string {
		return `,"quantization_config":{"quant_method":"fp8","weight_block_size":[128,128],"modules_to_not_convert":[` + list + `]}`
	}
	compressed := func(list string) string {
		return `,"quantization_config":{"quant_method":"compressed-tensors","format":"float-quantized","ignore":[` + list + `],"config_groups":{"group_0":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"channel"}}}}`
	}
	up, q := "model.layers.0.mlp.up_proj", "model.layers.0.self_attn.q_proj"
	for _, c := range []struct {
		name, quantisation string
		kept, packed       []string
	}{
		{"nothing listed", fp8(``), []string{"lm_head", "model.embed_tokens", "model.norm"}, []string{up, q}},
		{"an exact name", fp8(`"model.layers.0.mlp.up_proj"`), []string{up}, []string{q, "model.layers.0.mlp.down_proj"}},
		{"the name of what holds it", fp8(`"model.layers.0.mlp"`), []string{up, "model.layers.0.mlp.down_proj"}, []string{q}},
		{"a word of its path", fp8(`"self_attn"`), []string{q}, []string{up}},
		{"but no part of a word", fp8(`"attn"`), nil, []string{q, up}},
		{"a glob", fp8(`"model.layers.0.self_attn*"`), []string{q}, []string{up}},
		{"a glob over everything inside", fp8(`"*.mlp.*"`), []string{up}, []string{q}},
		{"a regular expression", compressed(`"re:.*self_attn.*","lm_head"`), []string{q, "lm_head"}, []string{up}},
		{"a regular expression begins at the start", compressed(`"re:self_attn","lm_head"`), []string{"lm_head"}, []string{q, up}},
		{"a wrapper's name before it", compressed(`"language_model.model.layers.0.mlp.up_proj","lm_head"`), []string{up}, []string{q}},
		{"compressed-tensors packs the head that is not listed", compressed(``), nil, []string{"lm_head", up}},
		{"a class", compressed(`"Linear"`), []string{"lm_head", up, q}, nil},
		{"MLX packs embeddings too", `,"quantization":{"group_size":64,"bits":4}`, []string{"model.norm"}, []string{"model.embed_tokens", "lm_head", up}},
	} {
		m := packedModel(t, c.quantisation)
		for _, module := range c.kept {
			if got := describe(m, module); !strings.HasPrefix(got, "weight BF16") {
				t.Errorf("%s: %s is packed: %s", c.name, module, got)
			}
		}
		for _, module := range c.packed {
			if got := describe(m, module); strings.HasPrefix(got, "weight BF16") || got == "" {
				t.Errorf("%s: %s is not packed: %s", c.name, module, got)
			}
		}
	}
}

// TestBeside reads the settings from a file beside the configuration.
func TestBeside(t *testing.T) {
	opt := source.Bytes("hf_quant_config.json", []byte(`{"producer":{"name":"modelopt"},"quantization":{"quant_algo":"FP8","kv_cache_quant_algo":"FP8","exclude_modules":["lm_head"]}}`))
	m := packedModel(t, "", opt)
	if got := describe(m, "model.layers.0.self_attn.k_proj"); got != "weight F8_E4M3 65536; weight_scale F32 4; input_scale F32 4; k_scale F32 4" {
		t.Errorf("ModelOpt: %s", got)
	}
	gptq := source.Bytes("quantize_config.json", []byte(`{"bits":4,"group_size":128,"desc_act":false}`))
	if m := packedModel(t, "", gptq); m.Quantised == nil || m.Quantised.Method != "gptq" || m.Quantised.Group != 128 {
		t.Errorf("GPTQ: %+v", m.Quantised)
	}
}

// TestDoubleQuantised shows a length that no configuration fixes: each tensor
// stores its offset as text. The total is then an interval of that width.
func TestDoubleQuantised(t *testing.T) {
	m := packedModel(t, `,"quantization_config":{"quant_method":"bitsandbytes","load_in_4bit":true,"bnb_4bit_quant_type":"nf4","bnb_4bit_use_double_quant":true}`)
	// 2048 maxima of one byte, 8 of theirs, a table of 256
	want := "weight U4 65536; weight.quant_map F32 64; weight.absmax U8 2048; weight.nested_absmax F32 32; weight.nested_quant_map F32 1024"
	if got := describe(m, "model.layers.0.mlp.up_proj"); !strings.HasPrefix(got, want) {
		t.Errorf("%s", got)
	}
	f := m.WeightsBytes()
	if high, known := f.High(); !known || high-f.Low() != 7*19 {
		t.Errorf("between %d and %d, known %v", f.Low(), high, known)
	}
}

// TestFusedExperts packs experts that one parameter holds: as blocks in MXFP4,
// one by one in other methods.
func TestFusedExperts(t *testing.T) {
	config := small("gpt_oss", "GptOssForCausalLM", `,"num_local_experts":2,"num_experts_per_tok":1,"quantization_config":{"quant_method":"mxfp4","modules_to_not_convert":["model.layers.*.self_attn"]}`)
	m := read(t, config)
	// 2 experts of 256×64: 16,384 bytes of blocks, a scale for 32
	if got := describe(m, "model.layers.0.mlp.experts.gate_up_proj"); got != "blocks F4 16384; scales U8 1024" {
		t.Errorf("MXFP4: %s", got)
	}
	config = small("granitemoe", "GraniteMoeForCausalLM", `,"num_local_experts":2,"num_experts_per_tok":1,"quantization_config":{"quant_method":"modelopt","quant_algo":"NVFP4","ignore":["lm_head"]}`)
	m = read(t, config)
	// 2 experts of 128×64, each with its own scales
	if got := describe(m, "model.layers.0.block_sparse_moe.*.gate_proj"); got != "weight F4 8192; weight_scale F8_E4M3 1024; weight_scale_2 F32 8; input_scale F32 8" {
		t.Errorf("NVFP4: %s", got)
	}
}

// Settings that no library writes are not understood: the weights are then a
// lower bound, and the field is named.
func TestQuantisationNotUnderstood(t *testing.T) {
	for _, c := range []struct{ config, field string }{
		{`"gptq"`, "quantization_config"},
		{`[]`, "quantization_config"},
		{`4`, "quantization_config"},
		{`{"quant_method":"gptq","bits":0,"group_size":32}`, "quantization_config.bits"},
		{`{"quant_method":"gptq","bits":64,"group_size":32}`, "quantization_config.bits"},
		{`{"quant_method":"gptq","group_size":32}`, "quantization_config.bits"},
		{`{"quant_method":"gptq","bits":4}`, "quantization_config.group_size"},
		{`{"quant_method":"awq","bits":4,"group_size":0}`, "quantization_config.group_size"},
		{`{"quant_method":"awq","bits":4,"group_size":7}`, "quantization_config.group_size"},
		{`{"quant_method":"awq","bits":0,"group_size":32}`, "quantization_config.bits"},
		{`{"quant_method":"fp8","weight_block_size":[0,0]}`, "quantization_config.weight_block_size"},
		{`{"quant_method":"fp8","weight_block_size":[128]}`, "quantization_config.weight_block_size"},
		{`{"quant_method":"fp8","weight_block_size":"x"}`, "quantization_config.weight_block_size"},
		{`{"quant_method":"fp8","weight_block_size":["x","y"]}`, "quantization_config.weight_block_size"},
		{`{"quant_method":"compressed-tensors","format":"float-quantized","config_groups":{"g":{"targets":["Linear"],"weights":{"num_bits":8,"type":"float","strategy":"block","block_structure":[128,0]}}}}`,
			"quantization_config.config_groups.g.weights.block_structure"},
	} {
		m := read(t, small("llama", "LlamaForCausalLM", `,"quantization_config":`+c.config))
		found := false
		for _, u := range m.Unknown {
			found = found || u.Field == c.field
		}
		if _, exact := m.WeightsBytes().IsExact(); !found || exact {
			t.Errorf("%s: %v, unknown %+v", c.config, m.WeightsBytes(), m.Unknown)
		}
	}
}
