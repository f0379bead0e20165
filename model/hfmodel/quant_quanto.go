package hfmodel

import (
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/model"
)

// quanto reads optimum-quanto's settings. Weights are packed, and the head is
// left alone, whatever is said of activations.
func (b *builder) quanto(q section) *scheme {
	sch := &scheme{method: "quanto", routers: true, modules: true, keepHead: true, kept: q.texts("modules_to_not_convert")}
	p := packing{form: quantoBytes, bits: 8, kind: q.text("weights")}
	switch p.kind {
	case "int8", "float8":
	case "int4":
		p.form, p.bits, p.group = quantoBits, 4, quantoGroup
	case "int2":
		p.form, p.bits, p.group = quantoBits, 2, quantoGroup
	default:
		b.doubt(q.path+"weights", p.kind, "how these weights of quanto are stored is not known here")
		p.form = unknownForm
	}
	sch.rules = []rule{{packing: p}}
	return sch
}

// quantoGroup is the widest group; narrower matrices have groups of a row, and
// widths that it does not divide the largest of 96, 64 and 32 that does
// (optimum/quanto/nn/qmodule.py, QModuleMixin.__init__).
const quantoGroup = 128

func quantoGroupOf(in int64) int64 {
	for group := int64(quantoGroup); group >= 32 && in > quantoGroup; group -= 32 {
		if in%group == 0 {
			return group
		}
	}
	return in
}

// quanto adds one matrix as a frozen QLinear saves it: the elements, a scale
// and, below 8 bits, a shift for each group, and the scales of activations,
// which are there even when they are not used (QModuleMixin._save_to_state_dict;
// tensor/packed.py, pack_weights).
//
// Worked number: [512, 256] in 4 bits is 1,024 groups of 128: 65,536 bytes, and
// 1,024 scales and as many shifts.
func (m *maker) quanto(p packing, compute dtype.Format) {
	if p.form == quantoBytes {
		f := dtype.I8
		if p.kind == "float8" {
			f = dtype.F8E4M3
		}
		m.words("weight._data", f, f, m.out, m.in)
		m.add(model.RoleScale, "weight._scale", compute, m.out, 1)
	} else {
		group := quantoGroupOf(m.in)
		groups := bytesize.CeilDiv(m.out*m.in, max(1, group))
		f := dtype.Unknown
		if p.bits == 4 {
			f = dtype.U4
		}
		m.words("weight._data._data", f, dtype.U8, bytesize.CeilDiv(groups, 8/p.bits), group)
		m.add(model.RoleScale, "weight._scale", compute, groups, 1)
		m.add(model.RoleZeroPoint, "weight._shift", compute, groups, 1)
	}
	m.add(model.RoleScale, "input_scale", compute)
	m.add(model.RoleScale, "output_scale", compute)
}
