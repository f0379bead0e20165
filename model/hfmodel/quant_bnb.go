package hfmodel

import (
	"fmt"
	"strings"

	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/model"
)

// offsetText bounds the spelling of a double-quantised tensor's offset, a
// 32-bit float as Python prints it: from "0.1" to sixteen or seventeen digits
// after "0.0".
const (
	shortestOffset = 3
	longestOffset  = 22
)

// fourBit adds bitsandbytes' 4-bit weights: two elements a byte, an absolute
// maximum for every 64 elements, the code table, and the state as a JSON text,
// whose length follows from the shape (bitsandbytes/functional.py,
// QuantState.as_dict).
//
// Worked number: [4096, 4096] is 8,388,608 bytes of weights, 262,144 maxima of
// 4 bytes, and a table of 64 bytes.
func (m *maker) fourBit(p packing, b *builder) {
	elements := m.out * m.in
	blocks := bytesize.CeilDiv(elements, p.group)
	m.words("weight", dtype.U4, dtype.U8, bytesize.CeilDiv(elements, 2), 1)
	m.add(model.RoleQuantised, "weight.quant_map", dtype.F32, 16)
	state := fmt.Sprintf(`{"quant_type": "%s", "blocksize": %d, "dtype": "%s", "shape": [%d, %d]`, p.kind, p.group, torchName(b.model.Compute), m.out, m.in)
	if p.double {
		m.add(model.RoleScale, "weight.absmax", dtype.U8, blocks)
		m.add(model.RoleScale, "weight.nested_absmax", dtype.F32, bytesize.CeilDiv(blocks, 256))
		m.add(model.RoleQuantised, "weight.nested_quant_map", dtype.F32, 256)
		state += `, "nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": ` + strings.Repeat("0", shortestOffset)
		b.model.Loose += longestOffset - shortestOffset
	} else {
		m.add(model.RoleScale, "weight.absmax", dtype.F32, blocks)
	}
	m.add(model.RoleQuantised, "weight.quant_state.bitsandbytes__"+p.kind, dtype.U8, int64(len(state)+1))
}

// torchName is a format as PyTorch spells it.
func torchName(f dtype.Format) string {
	switch f {
	case dtype.F16:
		return "float16"
	case dtype.F32:
		return "float32"
	}
	return "bfloat16"
}
