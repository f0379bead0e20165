package dtype

import (
	"strings"

	"floodmark/bytesize"
)

// Format is how the elements of a tensor are stored: one by one, or in blocks
// along the last dimension.
type Format uint8

// Plain element types. Names are those of safetensors, which PyTorch's own
// names map to one to one.
const (
	Unknown Format = iota
	F64
	F32
	F16
	BF16
	F8E4M3
	F8E5M2
	F8E8M0
	I64
	U64
	I32
	U32
	I16
	U16
	I8
	U8
	Bool
	C64
	C128
	// U4 is two elements packed in a byte.
	U4
	// F4 is two FP4 (E2M1) elements packed in a byte.
	F4
)

// Quantised blocks of GGUF: a block holds the elements and their scales.
const (
	Q4_0 Format = F4 + 1 + iota
	Q4_1
	Q5_0
	Q5_1
	Q8_0
	Q8_1
	Q2_K
	Q3_K
	Q4_K
	Q5_K
	Q6_K
	Q8_K
	IQ2_XXS
	IQ2_XS
	IQ3_XXS
	IQ1_S
	IQ4_NL
	IQ3_S
	IQ2_S
	IQ4_XS
	IQ1_M
	TQ1_0
	TQ2_0
	MXFP4
	NVFP4
	Q1_0
	Q2_0
	formatCount
)

// Blocked reports a format of GGUF in which elements and their scales share a
// block; a row of it must be a whole number of blocks.
func (f Format) Blocked() bool { return f >= Q4_0 && f < formatCount }

// Block is how many elements a block holds and how many bytes it takes, both 0
// for an unknown format. The sizes of plain types are those of the safetensors
// format's dtype list. Worked number: Q4_K is 256 elements in 144 bytes.
func (f Format) Block() (elements, bytes int64) {
	if f.Blocked() {
		return f.ggmlBlock()
	}
	switch f {
	case C128:
		return 1, 16
	case F64, I64, U64, C64:
		return 1, 8
	case F32, I32, U32:
		return 1, 4
	case F16, BF16, I16, U16:
		return 1, 2
	case F8E4M3, F8E5M2, F8E8M0, I8, U8, Bool:
		return 1, 1
	case U4, F4:
		return 2, 1
	}
	return 0, 0
}

// String is the name as safetensors writes it, and for blocks as GGUF does.
func (f Format) String() string {
	switch f {
	case F64:
		return "F64"
	case F32:
		return "F32"
	case F16:
		return "F16"
	case BF16:
		return "BF16"
	case F8E4M3:
		return "F8_E4M3"
	case F8E5M2:
		return "F8_E5M2"
	case F8E8M0:
		return "F8_E8M0"
	case I64:
		return "I64"
	case U64:
		return "U64"
	case I32:
		return "I32"
	case U32:
		return "U32"
	case I16:
		return "I16"
	case U16:
		return "U16"
	case I8:
		return "I8"
	case U8:
		return "U8"
	case Bool:
		return "BOOL"
	case C64:
		return "C64"
	case C128:
		return "C128"
	case U4:
		return "U4"
	case F4:
		return "F4"
	}
	return f.ggmlName()
}

// Parse finds a format by its name in safetensors ("BF16"), PyTorch
// ("torch.bfloat16", "bfloat16", "half"), GGUF ("Q4_K") or on the command line
// ("bf16").
// Its second result is false for a name that it does not know.
func Parse(name string) (Format, bool) {
	key := strings.ToLower(strings.TrimPrefix(strings.TrimSpace(name), "torch."))
	for f := F64; f < formatCount; f++ {
		if strings.EqualFold(f.String(), key) {
			return f, true
		}
	}
	switch key {
	case "float64", "double":
		return F64, true
	case "float32", "float", "fp32":
		return F32, true
	case "float16", "half", "fp16":
		return F16, true
	case "bfloat16":
		return BF16, true
	case "float8_e4m3fn", "float8_e4m3", "fp8", "fp8_e4m3":
		return F8E4M3, true
	case "float8_e5m2", "fp8_e5m2":
		return F8E5M2, true
	case "float8_e8m0fnu":
		return F8E8M0, true
	case "int64", "long":
		return I64, true
	case "int32", "int":
		return I32, true
	case "int16", "short":
		return I16, true
	case "int8":
		return I8, true
	case "uint64":
		return U64, true
	case "uint32":
		return U32, true
	case "uint16":
		return U16, true
	case "uint8", "byte":
		return U8, true
	case "bool":
		return Bool, true
	case "complex64":
		return C64, true
	case "complex128":
		return C128, true
	}
	return Unknown, false
}

// Size is the bytes of a tensor of that shape (a scalar has none). Blocks run
// along the last dimension, and a last block is charged whole. The second
// result is false when the format is unknown, a dimension is negative, or the
// count does not fit in 63 bits.
//
// Worked number: BF16 of [4096, 4096] is 33,554,432 bytes.
func (f Format) Size(shape []int64) (int64, bool) {
	elements, bytes := f.Block()
	if elements == 0 {
		return 0, false
	}
	rows, last := int64(1), int64(1)
	if n := len(shape); n > 0 {
		var fits bool
		if rows, fits = bytesize.Mul(shape[:n-1]...); !fits {
			return 0, false
		}
		last = shape[n-1]
	}
	if last < 0 {
		return 0, false
	}
	return bytesize.Mul(rows, bytesize.CeilDiv(last, elements), bytes)
}

// Bits is the average number of bits an element takes in a full block; 0 for
// an unknown format. Worked number: BF16 is 16, U4 is 4.
func (f Format) Bits() float64 {
	elements, bytes := f.Block()
	if elements == 0 {
		return 0
	}
	return float64(bytes) * 8 / float64(elements)
}
