package model

import (
	"fmt"
	"slices"
	"strings"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
)

// WithFormat is the model with its weights stored in another way, and all else
// as it is. What a way leaves alone follows from its source:
//
//   - fp32, fp16, bf16: every floating-point tensor is cast, as
//     torch.nn.Module.to does (https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html).
//   - fp8: the matrices of linear layers in 8-bit floats with one F32 scale
//     each; head, embeddings, norms and biases stay, as vLLM's online fp8 does
//     (https://docs.vllm.ai/en/latest/features/quantization/fp8/).
//   - int8: the same matrices in integers with one F32 scale a row, as
//     bitsandbytes' Linear8bitLt stores them.
//   - int4, nf4, fp4: the same matrices in 4 bits with one F32 scale for each
//     64 elements, as bitsandbytes' Linear4bit stores them. transformers skips
//     the head (integrations/bitsandbytes.py, get_keys_to_not_convert).
//   - nf4-double, fp4-double: the same, with the scales in 8 bits and one F32
//     scale for each 256 of them, and with the tables and the offset that a
//     matrix has beside them (functional.py, quantize_4bit, of
//     https://github.com/bitsandbytes-foundation/bitsandbytes). Worked number:
//     [4096, 4096] is 8,388,608 bytes, 262,144 scales of a byte, 1,024 of four,
//     and 1,092 bytes of tables.
//   - a file type of llama.cpp, as q4_k_m or q8_0: see [Mixtures].
//
// A matrix that is packed already is taken for what it stands for, and its
// scales go. A name that is none of these is an error that lists them.
func (m *Model) WithFormat(name string) (*Model, error) {
	if mix, ok := mixture(key(name)); ok {
		return m.mixed(mix), nil
	}
	way, ok := wayOf(key(name))
	if !ok {
		return nil, fmt.Errorf("%q is no format for weights: use fp32, bf16, fp16, fp8, int8, int4, nf4, nf4-double, or a file type of llama.cpp (%s)", name, strings.Join(Mixtures(), ", "))
	}
	return m.rewrite(way), nil
}

// WithEveryLinear is [Model.WithFormat] of software that packs the head too, as
// Lightning Fabric packs every torch.nn.Linear (BitsandbytesPrecision,
// https://github.com/Lightning-AI/pytorch-lightning/blob/2.2.0/src/lightning/fabric/plugins/precision/bitsandbytes.py).
func (m *Model) WithEveryLinear(name string) (*Model, error) {
	way, ok := wayOf(key(name))
	if !ok {
		return m.WithFormat(name)
	}
	way.head = true
	return m.rewrite(way), nil
}

// key is the one spelling of a format's name.
func key(name string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "-", "_")
}

// way is how a kind of packing stores a matrix.
type way struct {
	head   bool // the head is packed too
	format dtype.Format
	all    bool // norms, biases and embeddings too
	rows   bool // a scale a row
	block  int64
	double bool // the scales are quantised again
	whole  bool // a scale a matrix
}

func wayOf(key string) (way, bool) {
	switch key {
	case "int8":
		return way{format: dtype.I8, rows: true}, true
	case "int4", "nf4", "fp4", "4bit":
		return way{format: dtype.U4, block: 64}, true
	case "nf4_double", "fp4_double":
		return way{format: dtype.U4, block: 64, double: true}, true
	case "fp8", "float8_e4m3fn", "f8_e4m3":
		return way{format: dtype.F8E4M3, whole: true}, true
	}
	f, ok := dtype.Parse(key)
	switch {
	case ok && (f == dtype.F32 || f == dtype.F16 || f == dtype.BF16):
		return way{format: f, all: true}, true
	default:
		return way{}, false
	}
}

// isLinear reports whether a role is the matrix of a linear layer, which
// packing replaces. Routers stay: their few bytes decide much.
func (r Role) isLinear() bool {
	switch r.Module() {
	case AttentionModule, FeedForwardModule, ExpertsModule, SharedModule, MixerModule:
		return true
	}
	return false
}

// copyWith is the model with each tensor replaced by others, the first of which
// has its place; ties follow.
func (m *Model) copyWith(replace func(Tensor) []Tensor) *Model {
	c := *m
	c.Tensors, c.Quantised, c.Loose = make([]Tensor, 0, len(m.Tensors)), nil, 0
	c.FormatOrigin, c.Listed, c.FileBytes = account.Assumed, m.Listed, 0
	c.Unknown = slices.DeleteFunc(slices.Clone(m.Unknown), func(u Unknown) bool { return u.FormatOnly })
	moved := make([]int32, len(m.Tensors))
	for i, t := range m.Tensors {
		moved[i] = int32(len(c.Tensors))
		if t.Role.Category() == account.CategoryQuantisationMetadata {
			continue
		}
		c.Tensors = append(c.Tensors, replace(t)...)
	}
	for i, t := range c.Tensors {
		if t.TiedTo != NotTied {
			c.Tensors[i].TiedTo = moved[t.TiedTo]
			c.Tensors[i].Stored = c.Tensors[moved[t.TiedTo]].Stored
		}
	}
	return &c
}

// rewrite stores the tensors in another way.
func (m *Model) rewrite(w way) *Model {
	return m.copyWith(func(t Tensor) []Tensor {
		packed := t.Packed != nil || t.Stored.Blocked() || t.Stored == dtype.U4 || t.Stored == dtype.F4
		switch {
		case t.Role == RoleBuffer:
			return []Tensor{t}
		case w.all:
			return []Tensor{t.in(w.format)}
		case !t.Role.isLinear() && !(w.head && t.Role == RoleHead) || len(t.Shape) < 2:
			if packed {
				return []Tensor{t.in(dtype.F16)}
			}
			return []Tensor{t}
		}
		return append([]Tensor{t.in(w.format)}, w.scales(t)...)
	})
}

// Unpacked is the model with every packed tensor in one format and nothing beside
// it, as software makes it that has no kernels for what a checkpoint packs.
func (m *Model) Unpacked(f dtype.Format) *Model {
	return m.copyWith(func(t Tensor) []Tensor {
		if t.Role != RoleBuffer && (t.Packed != nil || t.Stored.Blocked() || t.Stored != dtype.Unknown && t.Stored.Bits() < 16) {
			return []Tensor{t.in(f)}
		}
		return []Tensor{t}
	})
}

// in is the tensor in a format, nothing packed.
func (t Tensor) in(f dtype.Format) Tensor {
	t.Stored, t.Packed, t.Opaque = f, nil, false
	return t
}

// scales is the scales that a way stores beside a matrix, or beside the matrix
// of each expert.
func (w way) scales(t Tensor) []Tensor {
	rows, fits := bytesize.Mul(t.Shape[:len(t.Shape)-1]...)
	elements, whole := t.Parameters()
	if !fits || !whole || t.TiedTo != NotTied {
		return nil
	}
	s := t.in(dtype.F32)
	s.Role = RoleScale
	if w.double {
		return twice(t, s, bytesize.CeilDiv(elements, w.block))
	}
	switch {
	case w.rows:
		s.Name, s.Shape = t.Name+".scale", []int64{rows}
	case w.block > 0:
		s.Name, s.Shape = t.Name+".absmax", []int64{bytesize.CeilDiv(elements, w.block)}
	default:
		experts := int64(1)
		if len(t.Shape) > 2 {
			experts = t.Shape[0]
		}
		s.Name, s.Shape = t.Name+".scale", []int64{experts}
	}
	return []Tensor{s}
}

// twice is scales that are quantised again, and the tables that turn them back.
func twice(t, scale Tensor, blocks int64) []Tensor {
	const nested, table, code = 256, 16, 256
	part := func(name string, role Role, f dtype.Format, n int64) Tensor {
		p := scale
		p.Name, p.Role, p.Stored, p.Shape = t.Name+"."+name, role, f, []int64{n}
		return p
	}
	return []Tensor{
		part("absmax", RoleScale, dtype.U8, blocks),
		part("nested_absmax", RoleScale, dtype.F32, bytesize.CeilDiv(blocks, nested)),
		part("quant_map", RoleQuantised, dtype.F32, table),
		part("nested_quant_map", RoleQuantised, dtype.F32, code),
		part("nested_offset", RoleQuantised, dtype.F32, 1),
	}
}
