package hfmodel

import (
	"strings"

	"floodmark/dtype"
)

// compressed reads the groups of compressed-tensors.
func (b *builder) compressed(q section) *scheme {
	sch := &scheme{method: "compressed-tensors", kept: q.texts("ignore")}
	groups, _ := q.sub("config_groups")
	for _, name := range groups.object.keys {
		g, ok := groups.sub(name)
		if !ok {
			continue
		}
		w, ok := g.sub("weights")
		if !ok {
			continue
		}
		format := g.text("format")
		if format == "" {
			format = q.text("format")
		}
		sch.rules = append(sch.rules, rule{targets: g.texts("targets"), packing: b.groupOf(w, g, format)})
	}
	return sch
}

// groupOf is the form of one group.
func (b *builder) groupOf(w, g section, format string) packing {
	p := packing{bits: w.or("num_bits", 8), group: positive(w.real("group_size")), strategy: w.text("strategy"),
		symmetric: w.is("symmetric=true"), scale: b.model.Compute, suffix: "weight_scale"}
	p.block, _ = b.square(w, "block_structure")
	if p.strategy == "block" && p.block[0] <= 0 {
		b.doubt(w.path+"block_structure", "absent", "the size of the blocks that share a scale is not stated")
		p.block = [2]int64{1, 1}
	}
	p.ordered = w.text("actorder") == "group"
	if in, ok := g.sub("input_activations"); ok {
		p.staticInput = !in.is("dynamic") && in.text("dynamic_") == ""
	}
	switch {
	case strings.HasPrefix(format, "nvfp4"):
		p.form, p.group = nvBlocks, 16
	case strings.HasPrefix(format, "mxfp4"):
		p.form, p.group = mxPacked, 32
	case format == "pack-quantized":
		p.form = packedWords
	case format == "float-quantized", format == "naive-quantized" && w.text("type") == "float":
		p.form = floatScaled
	case format == "int-quantized", format == "naive-quantized":
		p.form = intScaled
	default:
		b.doubt(g.path+"format", format, "how this format packs weights is not known here")
		p.form = unknownForm
	}
	return p
}

// modelopt reads NVIDIA ModelOpt's settings, which stand in the configuration
// or in hf_quant_config.json.
func (b *builder) modelopt(q section) *scheme {
	sch := &scheme{method: "modelopt", kept: q.texts("exclude_modules|ignore"),
		cacheScale: q.text("kv_cache_quant_algo") == "FP8"}
	if kv, ok := q.sub("kv_cache_scheme"); ok && kv.or("num_bits", 0) == 8 {
		sch.cacheScale = true
	}
	algo := q.text("quant_algo")
	if !strings.EqualFold(algo, "MIXED_PRECISION") {
		sch.rules = []rule{{packing: b.algorithm(q, algo)}}
		return sch
	}
	layers, _ := q.sub("quantized_layers")
	layers.members(func(name string, l section) {
		sch.add(name, b.algorithm(l, l.text("quant_algo")))
	})
	return sch
}

// add gives one more module a form. Thousands of modules share a few forms, and
// a rule is one form.
func (sch *scheme) add(target string, p packing) {
	for i := range sch.rules {
		if sch.rules[i].packing == p {
			sch.rules[i].targets = append(sch.rules[i].targets, target)
			return
		}
	}
	sch.rules = append(sch.rules, rule{targets: []string{target}, packing: p})
}

func (b *builder) algorithm(q section, name string) packing {
	p := packing{bits: 8, strategy: "tensor", scale: dtype.F32, suffix: "weight_scale", staticInput: true, form: floatScaled}
	switch strings.ToUpper(name) {
	case "FP8":
	case "MXFP8": // 8-bit scales for 32 elements (vLLM, model_executor/layers/quantization/modelopt.py)
		p.strategy, p.group, p.scale, p.staticInput = "group", 32, dtype.U8, false
	case "NVFP4":
		p.form, p.bits, p.group, p.modelopt = nvBlocks, 4, q.or("group_size", 16), true
	case "W4A16_NVFP4":
		p.form, p.bits, p.group, p.modelopt, p.staticInput = nvBlocks, 4, q.or("group_size", 16), true, false
	default:
		b.doubt(q.path+"quant_algo", name, "how this algorithm packs weights is not known here")
		p.form = unknownForm
	}
	return p
}
