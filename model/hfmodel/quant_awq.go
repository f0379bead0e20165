package hfmodel

import (
	"strings"

	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/model"
)

// awq reads AutoAWQ's settings. Its versions store the same elements in words
// of other shapes, and pad what goes with the groups (awq/modules/linear).
func (b *builder) awq(q section) *scheme {
	p := b.words(q, packing{form: awqWords, bits: 4, scale: dtype.F16}, "bits|w_bit", "group_size|q_group_size")
	p.kind = strings.ToLower(q.text("version"))
	switch p.kind {
	case "", "gemm", "gemv", "gemv_fast", "marlin":
	default:
		b.doubt(q.path+"version", p.kind, "how this version of AWQ packs weights is not known here")
		p.form = unknownForm
	}
	return &scheme{method: "awq", inLayers: true, keepHead: true, kept: q.texts("modules_to_not_convert"), rules: []rule{{packing: p}}}
}

// awq adds one matrix as a version of AutoAWQ stores it.
func (m *maker) awq(p packing, groups int64) {
	words := bytesize.CeilDiv(m.in*p.bits, 32)
	padded := paddedGroups(groups, p.group)
	switch p.kind {
	case "gemv":
		m.words("qweight", dtype.U4, dtype.I32, m.out, words)
		m.add(model.RoleZeroPoint, "qzeros", dtype.I32, m.out, padded/8)
		m.add(model.RoleScale, "scales", p.scale, m.out, padded)
	case "gemv_fast":
		m.words("qweight", dtype.U4, dtype.I16, bytesize.CeilDiv(m.out, 4), m.in)
		m.add(model.RoleScale, "scales", p.scale, padded, m.out)
		m.add(model.RoleZeroPoint, "scaled_zeros", p.scale, padded, m.out)
	case "marlin":
		m.words("qweight", dtype.U4, dtype.I32, bytesize.CeilDiv(m.in, 16), 2*m.out)
		m.add(model.RoleScale, "scales", p.scale, groups, m.out)
	default:
		m.words("qweight", dtype.U4, dtype.I32, m.in, bytesize.CeilDiv(m.out*p.bits, 32))
		m.add(model.RoleZeroPoint, "qzeros", dtype.I32, groups, bytesize.CeilDiv(m.out*p.bits, 32))
		m.add(model.RoleScale, "scales", p.scale, groups, m.out)
	}
}

// paddedGroups is how many groups a row of scales has room for: words of eight
// zero points, in twos for groups of 64 and in fours for groups of 32
// (calculate_zeros_width). Worked number: 2 groups of 128 have room for 8.
func paddedGroups(groups, size int64) int64 {
	multiple := int64(1)
	switch size {
	case 64:
		multiple = 2
	case 32:
		multiple = 4
	}
	words := bytesize.CeilDiv(groups, 8)
	return 8 * multiple * bytesize.CeilDiv(words, multiple)
}
