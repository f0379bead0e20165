package gguf

import "floodmark/dtype"

// format is the element format of a ggml type (enum ggml_type in ggml.h of
// llama.cpp), Unknown for a number that it does not have.
func format(id uint32) dtype.Format {
	switch {
	case id >= 10 && id <= 23:
		// Q2_K to IQ4_XS stand in this order in both lists.
		return dtype.Q2_K + dtype.Format(id-10)
	case id >= 39 && id <= 42:
		return dtype.MXFP4 + dtype.Format(id-39)
	}
	switch id {
	case 0:
		return dtype.F32
	case 1:
		return dtype.F16
	case 2:
		return dtype.Q4_0
	case 3:
		return dtype.Q4_1
	case 6:
		return dtype.Q5_0
	case 7:
		return dtype.Q5_1
	case 8:
		return dtype.Q8_0
	case 9:
		return dtype.Q8_1
	case 24:
		return dtype.I8
	case 25:
		return dtype.I16
	case 26:
		return dtype.I32
	case 27:
		return dtype.I64
	case 28:
		return dtype.F64
	case 29:
		return dtype.IQ1_M
	case 30:
		return dtype.BF16
	case 34:
		return dtype.TQ1_0
	case 35:
		return dtype.TQ2_0
	}
	return dtype.Unknown
}

// removed is the name of a ggml type that llama.cpp no longer reads; "" for
// another.
func removed(id uint32) string {
	switch id {
	case 4:
		return "Q4_2"
	case 5:
		return "Q4_3"
	case 31:
		return "Q4_0_4_4"
	case 32:
		return "Q4_0_4_8"
	case 33:
		return "Q4_0_8_8"
	case 36:
		return "IQ4_NL_4_4"
	case 37:
		return "IQ4_NL_4_8"
	case 38:
		return "IQ4_NL_8_8"
	}
	return ""
}
