package hfmodel

import (
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/model"
)

// torchao reads the settings of torchao's tensor subclasses, as transformers
// writes them: the name, the version and the fields of a configuration class
// (torchao/quantization/quant_api.py). The head stays as it is unless embeddings
// are packed too.
func (b *builder) torchao(q section) *scheme {
	all := q.is("include_input_output_embeddings")
	sch := &scheme{method: "torchao", routers: true, modules: true, keepHead: !all, embeddings: all, kept: q.texts("modules_to_not_convert")}
	p := packing{form: unknownForm}
	name := ""
	if kinds, ok := q.sub("quant_type"); ok {
		if kind, ok := kinds.sub("default"); ok {
			name = kind.text("_type")
			p = torchaoOf(kind, name)
		}
	} else {
		// The words of older releases stand for tensors of the first version.
		name = q.text("quant_type")
	}
	if p.form == unknownForm {
		b.doubt(q.path+"quant_type", name, "how this kind of torchao's tensors is stored is not known here: "+shorten(name))
	}
	sch.rules = []rule{{packing: p}}
	return sch
}

func torchaoOf(kind section, name string) packing {
	fields, _ := kind.sub("_data")
	p := packing{form: unknownForm, strategy: "channel"}
	if kind.or("_version", 1) != 2 {
		return p
	}
	grain := ""
	if g, ok := fields.sub("granularity"); ok {
		grain = g.text("_type")
	} else if list := fields.list("granularity"); len(list) == 2 {
		grain = section{ledger: kind.ledger, object: list[1], layer: -1}.text("_type")
	}
	switch grain {
	case "", "PerRow":
	case "PerTensor":
		p.strategy = "tensor"
	default:
		return p
	}
	switch name {
	case "Int8WeightOnlyConfig", "Int8DynamicActivationInt8WeightConfig":
		p.form, p.bits = torchaoInt8, 8
	case "Float8WeightOnlyConfig", "Float8DynamicActivationFloat8WeightConfig":
		p.form, p.bits = torchaoFloat8, 8
		if name == "Float8DynamicActivationFloat8WeightConfig" && grain == "" {
			p.strategy = "tensor"
		}
	case "Int4WeightOnlyConfig":
		p.form, p.bits, p.group, p.kind = torchaoInt4, 4, fields.or("group_size", 128), "PLAIN"
		if packing, ok := fields.sub("int4_packing_format"); ok {
			p.kind = packing.text("_data")
		}
		if p.kind != "PLAIN" && p.kind != "TILE_PACKED_TO_4D" || p.group == 0 {
			p.form = unknownForm
		}
	}
	return p
}

// torchao adds one matrix as torchao flattens its tensor subclasses for
// safetensors (torchao/prototype/safetensors/safetensors_support.py, and the
// classes under torchao/quantization/quantize_/workflows).
//
// Worked number: [512, 256] as Int4Tensor in groups of 128 is 65,536 bytes, and
// 2·512 scales and as many zero points in the weight's own format.
func (m *maker) torchao(p packing, compute dtype.Format, groups int64) {
	rows := m.out
	if p.strategy == "tensor" {
		rows = 1
	}
	switch p.form {
	case torchaoInt8:
		m.words("_weight_qdata", dtype.I8, dtype.I8, m.out, m.in)
		m.add(model.RoleScale, "_weight_scale", dtype.F32, rows, 1)
		m.add(model.RoleZeroPoint, "_weight_zero_point", dtype.I8, rows, 1)
	case torchaoFloat8:
		m.words("_weight_qdata", dtype.F8E4M3, dtype.F8E4M3, m.out, m.in)
		m.add(model.RoleScale, "_weight_scale", dtype.F32, rows, 1)
	case torchaoInt4:
		if p.kind == "TILE_PACKED_TO_4D" { // padded to tiles of 8 rows and 1024 columns
			out, in := 8*bytesize.CeilDiv(m.out, 8), 1024*bytesize.CeilDiv(m.in, 1024)
			m.words("_weight_qdata", dtype.U4, dtype.I32, out/8, in/128, 32, 4)
			m.add(model.RoleScale, "_weight_scale_and_zero", compute, bytesize.CeilDiv(in, p.group), out, 2)
			return
		}
		m.words("_weight_qdata", dtype.U4, dtype.U8, m.out, bytesize.CeilDiv(m.in, 2))
		m.add(model.RoleScale, "_weight_scale", compute, groups, m.out)
		m.add(model.RoleZeroPoint, "_weight_zero_point", compute, groups, m.out)
	}
}
