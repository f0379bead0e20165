package hfmodel

import (
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/model"
)

// mlx reads MLX's settings, with those of single modules under their names. A
// mode other than affine has 8-bit scales and no biases (mlx_lm/utils.py).
func (b *builder) mlx(q section) *scheme {
	sch := &scheme{method: "mlx", embeddings: true, routers: true}
	usual := packing{form: affine, bits: q.or("bits", 4), group: q.or("group_size", 64), kind: q.text("mode")}
	switch usual.kind {
	case "", "affine":
		usual.kind = "affine"
	case "mxfp4", "nvfp4", "mxfp8":
	default:
		b.doubt(q.path+"mode", usual.kind, "how this mode of MLX packs weights is not known here")
		usual.form = unknownForm
	}
	for i, key := range q.object.keys {
		v := q.object.items[i]
		switch {
		case v.kind == isBool && v.text == "false":
			sch.kept = append(sch.kept, key)
		case v.kind == isObject:
			own := section{ledger: q.ledger, object: v, path: q.path + key + ".", layer: -1}
			p := usual
			p.bits, p.group = own.or("bits", usual.bits), own.or("group_size", usual.group)
			if mode := own.text("mode"); mode != "" {
				p.kind = mode
			}
			sch.rules = append(sch.rules, rule{targets: []string{key}, packing: p})
		}
	}
	sch.rules = append(sch.rules, rule{packing: usual})
	return sch
}

// affine adds MLX's words, 32 bits along the input, and what goes with each
// group. Worked number: [512, 256] in 4 bits and groups of 64 is 65,536 bytes
// of words, and 2,048 scales and as many biases.
func (m *maker) affine(p packing, compute dtype.Format, groups int64) {
	m.words("weight", dtype.U4, dtype.U32, m.out, bytesize.CeilDiv(m.in*p.bits, 32))
	if p.kind != "affine" {
		m.add(model.RoleScale, "scales", dtype.U8, m.out, groups)
		return
	}
	m.add(model.RoleScale, "scales", compute, m.out, groups)
	m.add(model.RoleZeroPoint, "biases", compute, m.out, groups)
}
