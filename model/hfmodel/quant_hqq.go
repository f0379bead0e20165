package hfmodel

import (
	"strconv"

	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/model"
)

// hqq reads HQQ's settings: one for all modules, or one for each kind of module
// by its name, where a kind that is not named stays as it is
// (transformers, integrations/hqq.py).
func (b *builder) hqq(q section) *scheme {
	sch := &scheme{method: "hqq", routers: true, modules: true, kept: q.texts("skip_modules")}
	settings, ok := q.sub("quant_config")
	if !ok {
		b.doubt(q.path+"quant_config", "absent", "how the weights are packed is not stated")
		sch.rules = []rule{{packing: packing{form: unknownForm}}}
		return sch
	}
	if settings.has("weight_quant_params") {
		sch.rules = []rule{{packing: b.hqqOf(settings)}}
		return sch
	}
	settings.members(func(tag string, own section) { sch.add(tag, b.hqqOf(own)) })
	return sch
}

func (b *builder) hqqOf(s section) packing {
	w, _ := s.sub("weight_quant_params")
	p := packing{form: hqqWords, bits: int64(w.real("nbits")), group: positive(w.real("group_size")), scale: b.model.Compute}
	p.rows = w.or("axis", 1) == 0
	_, scales := s.sub("scale_quant_params")
	_, zeros := s.sub("zero_quant_params")
	switch p.bits {
	case 1, 2, 3, 4, 5, 6, 8:
	default:
		p.form = unknownForm
	}
	if w.real("nbits") != float64(p.bits) || p.group == 0 || scales || zeros || s.is("offload_meta") {
		p.form = unknownForm
	}
	if p.form == unknownForm {
		b.doubt(s.path+"weight_quant_params", "", "how these settings of HQQ are stored is not known here")
	}
	return p
}

// hqq adds one matrix as HQQLinear's state dictionary holds it: the packed
// elements, a scale and a zero point for each group, and every setting as a
// tensor of its own, texts letter by letter (hqq/core/quantize.py,
// HQQLinear.state_dict; hqq/core/utils.py, encode_safetensor_type).
//
// Worked number: [512, 256] in 4 bits and groups of 64 is 65,536 bytes of
// elements, and 2,048 scales and as many zero points.
func (m *maker) hqq(p packing, compute dtype.Format) {
	groups := bytesize.CeilDiv(m.out*m.in, p.group)
	rows, columns := groups, p.group
	if p.rows {
		rows, columns = columns, rows
	}
	packing := strconv.FormatInt(p.bits, 10) + "bit_u8"
	switch p.bits {
	case 3:
		packing = "3bit_32"
		m.words("W_q", dtype.Unknown, dtype.I32, bytesize.CeilDiv(rows, 10), columns)
	case 4:
		m.words("W_q", dtype.U4, dtype.U8, bytesize.CeilDiv(rows, 2), columns)
	case 1, 2:
		m.words("W_q", dtype.Unknown, dtype.U8, bytesize.CeilDiv(rows, 8/p.bits), columns)
	default:
		packing = "8bit_u8"
		m.words("W_q", dtype.Unknown, dtype.U8, rows, columns)
	}
	m.add(model.RoleScale, "scale", compute, groups)
	m.add(model.RoleZeroPoint, "zero", compute, groups)
	m.add(model.RoleQuantised, "shape", dtype.I64, 2)
	m.add(model.RoleQuantised, "packing", dtype.U8, int64(len(packing)))
	m.add(model.RoleQuantised, "unpack_view_dtype", dtype.U8, int64(len("torch.uint8"))) // "torch.int32" has as many letters
	m.add(model.RoleQuantised, "compute_dtype", dtype.U8, int64(len("torch."+torchName(compute))))
	for _, name := range []string{"nbits", "group_size", "axis", "view_as_float", "quant_scale", "quant_zero", "offload_meta",
		"encoded_state_dict", "stores_quant_config", "channel_wise", "optimize", "round_zero"} {
		m.add(model.RoleQuantised, name, dtype.U8)
	}
}
