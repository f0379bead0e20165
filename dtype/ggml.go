package dtype

// ggmlBlock is the block of each quantised format: the type_traits table of
// ggml (ggml/src/ggml.c and the block structs of ggml-common.h in llama.cpp).
func (f Format) ggmlBlock() (elements, bytes int64) {
	switch f {
	case MXFP4:
		return 32, 17
	case Q4_0, IQ4_NL:
		return 32, 18
	case Q4_1:
		return 32, 20
	case Q5_0:
		return 32, 22
	case Q5_1:
		return 32, 24
	case Q8_0:
		return 32, 34
	case Q8_1:
		return 32, 36
	case Q2_0:
		return 64, 18
	case NVFP4:
		return 64, 36
	case Q1_0:
		return 128, 18
	case IQ1_S:
		return 256, 50
	case TQ1_0:
		return 256, 54
	case IQ1_M:
		return 256, 56
	case IQ2_XXS, TQ2_0:
		return 256, 66
	case IQ2_XS:
		return 256, 74
	case IQ2_S:
		return 256, 82
	case Q2_K:
		return 256, 84
	case IQ3_XXS:
		return 256, 98
	case Q3_K, IQ3_S:
		return 256, 110
	case IQ4_XS:
		return 256, 136
	case Q4_K:
		return 256, 144
	case Q5_K:
		return 256, 176
	case Q6_K:
		return 256, 210
	case Q8_K:
		return 256, 292
	}
	return 0, 0
}

// ggmlName is the name of a quantised format as ggml prints it, in capitals.
func (f Format) ggmlName() string {
	switch f {
	case Q4_0:
		return "Q4_0"
	case Q4_1:
		return "Q4_1"
	case Q5_0:
		return "Q5_0"
	case Q5_1:
		return "Q5_1"
	case Q8_0:
		return "Q8_0"
	case Q8_1:
		return "Q8_1"
	case Q2_K:
		return "Q2_K"
	case Q3_K:
		return "Q3_K"
	case Q4_K:
		return "Q4_K"
	case Q5_K:
		return "Q5_K"
	case Q6_K:
		return "Q6_K"
	case Q8_K:
		return "Q8_K"
	case IQ2_XXS:
		return "IQ2_XXS"
	case IQ2_XS:
		return "IQ2_XS"
	case IQ3_XXS:
		return "IQ3_XXS"
	case IQ1_S:
		return "IQ1_S"
	case IQ4_NL:
		return "IQ4_NL"
	case IQ3_S:
		return "IQ3_S"
	case IQ2_S:
		return "IQ2_S"
	case IQ4_XS:
		return "IQ4_XS"
	case IQ1_M:
		return "IQ1_M"
	case TQ1_0:
		return "TQ1_0"
	case TQ2_0:
		return "TQ2_0"
	case MXFP4:
		return "MXFP4"
	case NVFP4:
		return "NVFP4"
	case Q1_0:
		return "Q1_0"
	case Q2_0:
		return "Q2_0"
	}
	return "unknown"
}
