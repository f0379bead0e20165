package ggufmodel_test

import (
	"os"
	"testing"

	"floodmark/internal/gguf"
	"floodmark/internal/source"
	"floodmark/model/ggufmodel"
)

// FuzzRead: whatever the metadata and the names of a file say, a model comes
// out or an error.
func FuzzRead(f *testing.F) {
	seed, err := os.ReadFile("../../internal/gguf/testdata/python.gguf")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.ReadHead(source.Bytes("fuzz.gguf", data))
		if err != nil {
			return
		}
		m, err := ggufmodel.Read([]*gguf.File{file})
		if err != nil {
			return
		}
		for _, x := range m.Tensors {
			if x.Stack >= 0 && int(x.Layer) >= len(m.Stacks[x.Stack].Layers) {
				t.Errorf("%s stands in layer %d of %d", x.Name, x.Layer, len(m.Stacks[x.Stack].Layers))
			}
		}
		m.WeightsBytes()
		m.ByLayer()
	})
}
