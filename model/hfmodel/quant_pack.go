package hfmodel

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/model"
)

// form is a way of storing a packed matrix [out, in].
type form uint8

const (
	unknownForm   form = iota
	int8Rows           // bitsandbytes: 8 bits, a scale for each row
	fourBit            // bitsandbytes: 4 bits, a scale for each 64 elements of the flattened matrix
	gptqWords          // 32-bit words along the input, scales and zero points by group, an index of groups
	awqWords           // the same along the output, without the index
	floatScaled        // 8-bit floats with scales by tensor, channel or block
	intScaled          // 8-bit integers with scales by tensor, channel or group
	packedWords        // compressed-tensors: 32-bit words along the input, scales by group
	mxBlocks           // MXFP4 of fused experts: blocks of 32 with a scale
	mxPacked           // MXFP4 as compressed-tensors stores it
	nvBlocks           // NVFP4: blocks of 16 with an 8-bit scale, and a scale for the tensor
	affine             // MLX: 32-bit words, scales and biases by group
	hqqWords           // HQQ: packed elements, scales and zero points by group, every setting as a tensor
	torchaoInt8        // torchao: 8-bit integers, scales and zero points by row or tensor
	torchaoFloat8      // torchao: 8-bit floats, scales by row or tensor
	torchaoInt4        // torchao: 4 bits, scales and zero points by group
	quantoBytes        // quanto: 8 bits, scales by row
	quantoBits         // quanto: 4 or 2 bits, scales and shifts by group
)

// packing is a form with its settings.
type packing struct {
	form        form
	bits, group int64
	strategy    string   // "tensor", "channel", "group", "block"
	block       [2]int64 // rows and columns that share a scale
	symmetric   bool
	scale       dtype.Format
	suffix      string // of the scale's name
	staticInput bool   // the scale of the input is stored
	ordered     bool   // an index of groups is stored
	forceBias   bool   // every packed layer has a bias
	modelopt    bool
	kind        string // "nf4", "fp4" of bitsandbytes; the version, mode or weights of other libraries
	rows        bool   // HQQ: groups run along the first axis
	double      bool   // bitsandbytes: the scales are quantised again
}

// quantise replaces every packed matrix by its words and what goes with them.
func (b *builder) quantise(sch *scheme) {
	c := b.chooser(sch)
	before := b.drafts
	b.drafts = make([]draft, 0, 2*len(before))
	moved := make([]int32, len(before))
	for i, d := range before {
		moved[i] = int32(len(b.drafts))
		p, packed := c.choose(d, b.model.Stacks)
		if !packed {
			b.drafts = append(b.drafts, d)
			continue
		}
		biased := i+1 < len(before) && before[i+1].module() == d.module() && before[i+1].class == parameter
		for _, m := range d.matrices(p) {
			b.drafts = append(b.drafts, m.packed(p, b, biased)...)
		}
	}
	for i := range b.drafts {
		if to := b.drafts[i].TiedTo; to != model.NotTied {
			b.drafts[i].TiedTo = moved[to]
		}
	}
	if sch.cacheScale {
		b.cacheScales()
	}
}

// matrices is the matrices of a tensor: fused experts are unfused where the
// form packs linear layers one by one.
func (d draft) matrices(p packing) []draft {
	if d.class != expertFused && d.class != expertStacked || p.form == mxBlocks {
		return []draft{d}
	}
	experts, in, out := d.Shape[0], d.Shape[1], d.Shape[2]
	if d.class == expertStacked {
		in, out = out, in
	}
	parts := []draft{d}
	roles, names := []model.Role{d.Role}, []string{"down_proj"}
	if d.Role == model.RoleExpertGateUp {
		roles, names = []model.Role{model.RoleExpertGate, model.RoleExpertUp}, []string{"gate_proj", "up_proj"}
		parts, out = []draft{d, d}, out/2
	}
	at := strings.TrimSuffix(d.Name, ".weight")
	at = at[:strings.LastIndexByte(at, '.')+1]
	for i := range parts {
		parts[i].Role, parts[i].class, parts[i].Shape = roles[i], expertLinear, []int64{experts, out, in}
		parts[i].Name = at + "*." + names[i] + ".weight"
	}
	return parts
}

// maker builds the tensors that stand for one matrix, or for one of each
// expert.
type maker struct {
	from    draft
	base    string
	experts []int64 // the leading dimension, where there is one
	out, in int64
	made    []draft
}

func (d draft) maker() *maker {
	m := &maker{from: d, base: d.module()}
	shape := d.Shape
	if len(shape) == 3 {
		m.experts, shape = shape[:1], shape[1:]
	}
	m.out, m.in = shape[0], shape[1]
	if d.class == conv1D || d.class == expertFused {
		m.out, m.in = m.in, m.out
	}
	return m
}

// add puts a tensor beside the words; its shape is that for one expert.
func (m *maker) add(role model.Role, name string, f dtype.Format, shape ...int64) {
	d := m.from
	d.Role, d.Name, d.Stored, d.class, d.Packed = role, m.base+"."+name, f, parameter, nil
	d.Shape = append(slices.Clone(m.experts), shape...)
	m.made = append(m.made, d)
}

// words adds the matrix itself. Its shape stays that of the model; where the
// stored words take other bytes than the format of that shape, their own
// shape is kept beside it.
func (m *maker) words(name string, f dtype.Format, word dtype.Format, stored ...int64) {
	d := m.from
	d.Name, d.Stored, d.class = m.base+"."+name, f, parameter
	stored = append(slices.Clone(m.experts), stored...)
	n, fits := word.Size(stored)
	if have, ok := f.Size(d.Shape); !fits || !ok || have != n {
		d.Stored, d.Packed = word, stored
	}
	m.made = append(m.made, d)
}

// packed is the tensors that a matrix is stored as.
func (d draft) packed(p packing, b *builder, biased bool) []draft {
	m := d.maker()
	groups := int64(1)
	if p.group > 0 {
		groups = bytesize.CeilDiv(m.in, p.group)
	}
	switch p.form {
	case int8Rows:
		m.words("weight", dtype.I8, dtype.I8, m.out, m.in)
		m.add(model.RoleScale, "SCB", dtype.F32, m.out)
		m.add(model.RoleQuantised, "weight_format", dtype.U8)
	case fourBit:
		m.fourBit(p, b)
	case gptqWords:
		m.words("qweight", dtype.U4, dtype.I32, bytesize.CeilDiv(m.in*p.bits, 32), m.out)
		m.add(model.RoleZeroPoint, "qzeros", dtype.I32, groups, bytesize.CeilDiv(m.out*p.bits, 32))
		m.add(model.RoleScale, "scales", p.scale, groups, m.out)
		m.add(model.RoleQuantised, "g_idx", dtype.I32, m.in)
		if p.forceBias && !biased {
			m.add(model.RoleQuantised, "bias", p.scale, m.out)
		}
	case awqWords:
		if p.group > 0 && m.in%p.group != 0 {
			b.doubt("quantization_config.group_size", strconv.FormatInt(p.group, 10), fmt.Sprintf("AWQ packs whole groups, and %d inputs of %s are none", m.in, shorten(m.base)))
		}
		m.awq(p, groups)
	case floatScaled, intScaled:
		m.scaled(p, groups)
	case packedWords:
		m.packedWords(p, groups)
	case mxBlocks:
		m.words("blocks", dtype.F4, dtype.U8, m.out, bytesize.CeilDiv(m.in, 32), 16)
		m.add(model.RoleScale, "scales", dtype.U8, m.out, groups)
	case mxPacked:
		if p.suffix == "scale" { // as DeepSeek stores it
			m.words("weight", dtype.F4, dtype.I8, m.out, bytesize.CeilDiv(m.in, 2))
			m.add(model.RoleScale, "scale", p.scale, m.out, groups)
			break
		}
		m.words("weight_packed", dtype.F4, dtype.U8, m.out, bytesize.CeilDiv(m.in, 2))
		m.add(model.RoleScale, "weight_scale", dtype.U8, m.out, groups)
	case nvBlocks:
		m.nvBlocks(p, groups)
	case affine:
		m.affine(p, b.model.Compute, groups)
	case hqqWords:
		m.hqq(p, b.model.Compute)
	case torchaoInt8, torchaoFloat8, torchaoInt4:
		m.torchao(p, b.model.Compute, groups)
	case quantoBytes, quantoBits:
		m.quanto(p, b.model.Compute)
	default:
		d.Stored = dtype.Unknown
		return []draft{d}
	}
	return m.made
}

func (m *maker) scaled(p packing, groups int64) {
	f := dtype.F8E4M3
	if p.form == intScaled {
		f = dtype.I8
	}
	m.words("weight", f, f, m.out, m.in)
	switch p.strategy {
	case "block":
		m.add(model.RoleScale, p.suffix, p.scale, bytesize.CeilDiv(m.out, p.block[0]), bytesize.CeilDiv(m.in, p.block[1]))
	case "channel":
		m.add(model.RoleScale, p.suffix, p.scale, m.out, 1)
	case "group":
		m.add(model.RoleScale, p.suffix, p.scale, m.out, groups)
	default:
		m.add(model.RoleScale, p.suffix, p.scale)
	}
	if p.staticInput {
		m.add(model.RoleScale, "input_scale", p.scale)
	}
}

func (m *maker) packedWords(p packing, groups int64) {
	m.words("weight_packed", dtype.U4, dtype.I32, m.out, bytesize.CeilDiv(m.in*p.bits, 32))
	if p.strategy == "channel" || p.group == 0 {
		groups = 1
	}
	m.add(model.RoleScale, "weight_scale", p.scale, m.out, groups)
	m.add(model.RoleQuantised, "weight_shape", dtype.I64, 2)
	if !p.symmetric {
		m.add(model.RoleZeroPoint, "weight_zero_point", dtype.I32, bytesize.CeilDiv(m.out*p.bits, 32), groups)
	}
	if p.ordered {
		m.add(model.RoleQuantised, "weight_g_idx", dtype.I32, m.in)
	}
}

// nvBlocks adds NVFP4: compressed-tensors and ModelOpt call its tensors
// differently and store the same.
func (m *maker) nvBlocks(p packing, groups int64) {
	weight, whole, input := "weight_packed", "weight_global_scale", "input_global_scale"
	if p.modelopt {
		weight, whole, input = "weight", "weight_scale_2", "input_scale"
	}
	m.words(weight, dtype.F4, dtype.U8, m.out, bytesize.CeilDiv(m.in, 2))
	m.add(model.RoleScale, "weight_scale", dtype.F8E4M3, m.out, groups)
	m.add(model.RoleScale, whole, dtype.F32)
	if p.staticInput || !p.modelopt {
		m.add(model.RoleScale, input, dtype.F32)
	}
}

// cacheScales adds the scales of keys and values that a checkpoint for an
// 8-bit cache stores, one number each for a layer of attention.
func (b *builder) cacheScales() {
	for _, d := range b.drafts {
		name := ""
		switch d.Role {
		case model.RoleKey:
			name = ".k_scale"
		case model.RoleValue:
			name = ".v_scale"
		default:
			continue
		}
		s := d
		s.Name, s.Role, s.Stored, s.Shape, s.Packed, s.class = d.module()+name, model.RoleScale, dtype.F32, nil, nil, parameter
		b.drafts = append(b.drafts, s)
	}
}
