package ggufmodel_test

import (
	"encoding/binary"
	"testing"

	"floodmark/internal/gguf"
	"floodmark/internal/source"
	"floodmark/model"
	"floodmark/model/ggufmodel"
)

// matrix is a tensor of a file: its name, and its shape with rows first as the
// model has it. All are stored in 16 bits.
type matrix struct {
	name  string
	shape []int64
}

// file writes the beginning of a GGUF file, after docs/gguf.md of ggml.
func file(t testing.TB, architecture string, keys map[string]any, tensors []matrix) *gguf.File {
	t.Helper()
	var text []byte
	number := func(n uint64) { text = binary.LittleEndian.AppendUint64(text, n) }
	short := func(n uint32) { text = binary.LittleEndian.AppendUint32(text, n) }
	str := func(s string) { number(uint64(len(s))); text = append(text, s...) }
	text = append(text, "GGUF\x03\x00\x00\x00"...)
	number(uint64(len(tensors)))
	number(uint64(len(keys) + 1))
	str("general.architecture")
	short(8)
	str(architecture)
	for key, value := range keys {
		str(key)
		switch v := value.(type) {
		case int:
			short(4)
			short(uint32(v))
		case string:
			short(8)
			str(v)
		case bool:
			short(7)
			text = append(text, map[bool]byte{false: 0, true: 1}[v])
		case []int:
			short(9)
			short(5)
			number(uint64(len(v)))
			for _, n := range v {
				short(uint32(n))
			}
		}
	}
	offset := int64(0)
	for _, m := range tensors {
		str(m.name)
		short(uint32(len(m.shape)))
		n := int64(1)
		for i := range m.shape {
			d := m.shape[len(m.shape)-1-i]
			number(uint64(d))
			n *= d
		}
		short(1)
		number(uint64(offset))
		offset += (2*n + 31) / 32 * 32
	}
	f, err := gguf.ReadHead(source.Bytes("model.gguf", text))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// read reads the model of such a file.
func read(t testing.TB, architecture string, keys map[string]any, tensors []matrix) *model.Model {
	t.Helper()
	named := map[string]any{}
	for key, value := range keys {
		named[architecture+"."+key] = value
	}
	m, err := ggufmodel.Read([]*gguf.File{file(t, architecture, named, tensors)})
	if err != nil {
		t.Fatal(err)
	}
	return m
}
