package load_test

import (
	"context"
	"strings"
	"testing"

	"floodmark/bytesize"
	"floodmark/internal/checklist"
	"floodmark/model/load"
)

// Files of llama.cpp as its tools print their sizes: the configuration of a
// model, stored as a file type, is that large. Sizes are those in the README of
// https://github.com/gpustack/gguf-parser-go.
func TestMixtures(t *testing.T) {
	for _, c := range []struct{ name, format, size string }{
		{"qwen2.5-7b", "q4_k_m", "4.36"},
		{"qwen2.5-7b", "q8_0", "7.54"},
		{"qwen2.5-7b", "gguf-f16", "14.19"},
		{"llama-3.1-70b", "q4_k_m", "39.59"},
	} {
		m, err := load.Model(context.Background(), c.name, load.Options{})
		if err != nil {
			t.Fatal(err)
		}
		m, err = m.WithFormat(c.format)
		if err != nil {
			t.Fatal(err)
		}
		if n, exact := m.WeightsBytes().IsExact(); !exact || bytesize.Fixed(n, bytesize.GiB, 2) != c.size {
			t.Errorf("%s as %s has %s GiB, exact %v; want %s", c.name, c.format, bytesize.Fixed(n, bytesize.GiB, 4), exact, c.size)
		}
	}
}

// Another format for the weights changes what is stored, and nothing of what
// the layers compute.
func TestWithFormatChangesWeightsOnly(t *testing.T) {
	checklist.Covers(t, 225)
	m, err := load.Model(context.Background(), "llama-3.2-1b", load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	half, err := m.WithFormat("int8")
	if err != nil {
		t.Fatal(err)
	}
	before, _ := m.WeightsBytes().IsExact()
	after, _ := half.WeightsBytes().IsExact()
	if after >= before || half.Compute != m.Compute || half.Vocab != m.Vocab || len(half.Stacks) != len(m.Stacks) || half.Parameters() != m.Parameters() {
		t.Errorf("%d bytes became %d, and more changed", before, after)
	}
	kept := 0
	for i, x := range half.Tensors {
		if strings.Contains(x.Name, "norm") || strings.Contains(x.Name, "embed") {
			kept++
			if x.Stored != m.Compute {
				t.Errorf("%d %s is stored in %s", i, x.Name, x.Stored)
			}
		}
	}
	if kept == 0 {
		t.Error("the model has no norms")
	}
}
