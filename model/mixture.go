package model

import (
	"strings"

	"floodmark/dtype"
)

// Mixtures lists the file types of llama.cpp that [Model.WithFormat] knows.
// Most name the usual format of a matrix and raise that of some: what
// src/llama-quant.cpp (llama_tensor_get_type) does without an importance
// matrix. Norms, biases, routers and convolutions stay in 32 bits.
func Mixtures() []string {
	return strings.Fields("q8_0 q6_k q5_k_m q5_k_s q5_1 q5_0 q4_k_m q4_k_s q4_1 q4_0 iq4_xs iq4_nl q3_k_l q3_k_m q3_k_s q2_k gguf_f16 gguf_bf16 gguf_f32")
}

// mix is one file type.
type mix struct {
	name  string
	usual dtype.Format
}

func mixture(key string) (mix, bool) {
	for _, name := range Mixtures() {
		if key != name {
			continue
		}
		stem := strings.TrimPrefix(name, "gguf_")
		for _, size := range []string{"_k_s", "_k_m", "_k_l"} {
			if cut, has := strings.CutSuffix(stem, size); has {
				stem = cut + "_k"
			}
		}
		f, ok := dtype.Parse(stem)
		return mix{name, f}, ok
	}
	return mix{}, false
}

// mixed stores the model as a file type of llama.cpp does.
func (m *Model) mixed(x mix) *Model {
	s := mixer(x, m)
	values := int32(0)
	return m.copyWith(func(t Tensor) []Tensor {
		if t.Role == RoleBuffer {
			return []Tensor{t}
		}
		f := s.format(t, values)
		if t.Role == RoleValue || t.Role == RoleQKV {
			values++
		}
		return []Tensor{t.in(f)}
	})
}

// stacking is what the choice of a format looks at beside the tensor itself.
type stacking struct {
	mix
	layers  int32 // of the text stack
	values  int32 // matrices that make values
	experts int64
	shared  int // query heads for each head of keys and values
	head    bool
}

func mixer(x mix, m *Model) stacking {
	s := stacking{mix: x, shared: 1}
	for _, stack := range m.Stacks {
		if stack.Kind == Decoder && s.layers == 0 {
			s.layers = int32(len(stack.Layers))
		}
		for _, l := range stack.Layers {
			if e, ok := l.FeedForward.(Experts); ok {
				s.experts = int64(e.Count)
			}
			for _, mixer := range l.Mixers {
				if a, ok := mixer.(Attention); ok && a.KVHeads > 0 {
					s.shared = a.QueryHeads / a.KVHeads
				}
			}
		}
	}
	for _, t := range m.Tensors {
		switch t.Role {
		case RoleValue, RoleQKV:
			s.values++
		case RoleHead:
			s.head = s.head || t.TiedTo == NotTied
		}
	}
	return s
}

// format is the format of one tensor; value is how many matrices that make
// values came before it.
func (s stacking) format(t Tensor, value int32) dtype.Format {
	if len(t.Shape) < 2 || !t.Role.isQuantised() {
		return dtype.F32
	}
	if !s.usual.Blocked() {
		return s.usual
	}
	f := s.usual
	switch {
	case t.Role == RoleHead || t.Role == RoleTokenEmbedding && !s.head:
		if f != dtype.Q8_0 {
			f = dtype.Q6_K
		}
	case t.Role == RoleTokenEmbedding:
	case t.Role == RoleValue:
		f = s.forValues(value)
	case t.Role == RoleQKV:
		f = s.raised("q3_k_m:Q4_K q3_k_l:Q4_K q4_k_m:Q5_K q5_k_m:Q6_K")
	case t.Role == RoleKey && s.experts == 8:
		f = dtype.Q8_0
	case t.Role == RoleAttentionOutput:
		f = s.forOutput()
	case t.Role == RoleDown || t.Role == RoleExpertDown || t.Role == RoleSharedExpertDown:
		f = s.forDown(t.Layer)
	}
	return fitting(f, t.Shape[len(t.Shape)-1])
}

// isQuantised reports whether llama.cpp packs tensors of that role.
func (r Role) isQuantised() bool {
	switch r {
	case RoleRouter, RolePositionEmbedding, RoleTypeEmbedding, RoleMixerConv, RoleMixerState, RoleRelativeBias:
		return false
	}
	return r.Module() != NormModule && r.Category() == RoleOther.Category()
}

// raised looks the file type up in a list of "file type:format".
func (s stacking) raised(list string) dtype.Format {
	for entry := range strings.FieldsSeq(list) {
		if name, format, _ := strings.Cut(entry, ":"); name == s.name {
			if f, ok := dtype.Parse(format); ok {
				return f
			}
		}
	}
	return s.usual
}

// moreBits picks an eighth of the layers at each end, and each third between.
func moreBits(i, n int32) bool { return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2 }

// forValues is the format of a matrix that makes values: most of what a model
// loses, it loses there.
func (s stacking) forValues(i int32) dtype.Format {
	f := s.usual
	switch {
	case s.name == "q2_k" && s.shared >= 4:
		f = dtype.Q4_K
	case s.name == "q2_k":
		f = dtype.Q3_K
	case s.name == "q3_k_m" && i < 2:
		f = dtype.Q5_K
	case s.name == "q3_k_m":
		f = dtype.Q4_K
	case s.name == "q3_k_l", (s.name == "iq4_xs" || s.name == "iq4_nl") && s.shared >= 4, s.name == "q4_k_s" && i < 4:
		f = dtype.Q5_K
	case (s.name == "q4_k_m" || s.name == "q5_k_m") && moreBits(i, s.values):
		f = dtype.Q6_K
	}
	if s.layers == 80 && s.shared == 8 && (f == dtype.Q3_K || f == dtype.Q4_K) {
		f = dtype.Q5_K
	}
	if s.experts == 8 {
		f = dtype.Q8_0
	}
	return f
}

func (s stacking) forOutput() dtype.Format {
	if s.experts == 8 {
		return s.raised("q2_k:Q5_K q3_k_s:Q5_K q3_k_m:Q5_K q4_k_s:Q5_K q4_k_m:Q5_K iq4_nl:Q5_K iq4_xs:Q5_K")
	}
	return s.raised("q2_k:Q3_K q3_k_m:Q4_K q3_k_l:Q5_K")
}

// forDown is the format of the matrix that leads back to the residual stream.
func (s stacking) forDown(layer int32) dtype.Format {
	switch early := layer < s.layers/8; {
	case s.name == "q2_k":
		return dtype.Q3_K
	case s.name == "q3_k_m" && layer < s.layers/16:
		return dtype.Q5_K
	case s.name == "q3_k_m":
		return dtype.Q4_K
	case s.name == "q3_k_l", early && (s.name == "q4_k_s" || s.name == "iq4_xs" || s.name == "iq4_nl"):
		return dtype.Q5_K
	case (s.name == "q4_k_m" || s.name == "q5_k_m") && moreBits(layer, s.layers):
		return dtype.Q6_K
	}
	return s.usual
}

// fitting is the format for rows that are no whole number of its blocks.
func fitting(f dtype.Format, row int64) dtype.Format {
	elements, _ := f.Block()
	if elements == 0 || row%elements == 0 {
		return f
	}
	switch f {
	case dtype.Q4_K:
		f = dtype.Q5_0
	case dtype.Q5_K:
		f = dtype.Q5_1
	case dtype.Q6_K:
		f = dtype.Q8_0
	case dtype.Q2_K, dtype.Q3_K, dtype.IQ4_XS:
		f = dtype.IQ4_NL
	default:
		return dtype.F16
	}
	if elements, _ := f.Block(); row%elements != 0 {
		return dtype.F16
	}
	return f
}
