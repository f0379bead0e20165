package dtype

import "testing"

// TestBlocks is the block table of GGUF: elements and bytes of a block and the
// bits per weight that follow. Source: the block structs in ggml-common.h of
// llama.cpp, whose comments print the bits per weight. (The Python package gguf
// still has the 40 bytes of an older Q8_1; block_q8_1 has two halves and 32 bytes.)
func TestBlocks(t *testing.T) {
	for _, c := range []struct {
		format          Format
		name            string
		elements, bytes int64
		bits            float64
	}{
		{Q4_0, "Q4_0", 32, 18, 4.5},
		{Q4_1, "Q4_1", 32, 20, 5},
		{Q5_0, "Q5_0", 32, 22, 5.5},
		{Q5_1, "Q5_1", 32, 24, 6},
		{Q8_0, "Q8_0", 32, 34, 8.5},
		{Q8_1, "Q8_1", 32, 36, 9},
		{Q2_K, "Q2_K", 256, 84, 2.625},
		{Q3_K, "Q3_K", 256, 110, 3.4375},
		{Q4_K, "Q4_K", 256, 144, 4.5},
		{Q5_K, "Q5_K", 256, 176, 5.5},
		{Q6_K, "Q6_K", 256, 210, 6.5625},
		{Q8_K, "Q8_K", 256, 292, 9.125},
		{IQ1_S, "IQ1_S", 256, 50, 1.5625},
		{IQ1_M, "IQ1_M", 256, 56, 1.75},
		{IQ2_XXS, "IQ2_XXS", 256, 66, 2.0625},
		{IQ2_XS, "IQ2_XS", 256, 74, 2.3125},
		{IQ2_S, "IQ2_S", 256, 82, 2.5625},
		{IQ3_XXS, "IQ3_XXS", 256, 98, 3.0625},
		{IQ3_S, "IQ3_S", 256, 110, 3.4375},
		{IQ4_NL, "IQ4_NL", 32, 18, 4.5},
		{IQ4_XS, "IQ4_XS", 256, 136, 4.25},
		{TQ1_0, "TQ1_0", 256, 54, 1.6875},
		{TQ2_0, "TQ2_0", 256, 66, 2.0625},
		{MXFP4, "MXFP4", 32, 17, 4.25},
		{NVFP4, "NVFP4", 64, 36, 4.5},
		{Q1_0, "Q1_0", 128, 18, 1.125},
		{Q2_0, "Q2_0", 64, 18, 2.25},
	} {
		elements, bytes := c.format.Block()
		if elements != c.elements || bytes != c.bytes || c.format.Bits() != c.bits || c.format.String() != c.name || !c.format.Blocked() {
			t.Errorf("%s: %d elements in %d bytes, %v bits", c.format, elements, bytes, c.format.Bits())
		}
	}
	// A row of 4096 is 16 blocks of 144 bytes.
	if n, ok := Q4_K.Size([]int64{11008, 4096}); !ok || n != 25_362_432 {
		t.Errorf("Q4_K[11008 4096] = %d, %v; want 25362432", n, ok)
	}
	if BF16.Blocked() || U4.Blocked() || Unknown.Blocked() {
		t.Error("a plain format was called blocked")
	}
}
