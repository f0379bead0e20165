package gguf

import (
	"encoding/binary"
	"math"
)

// writer builds a file as docs/gguf.md of ggml lays it out: magic, version,
// counts, metadata, tensors, padding, data. All integers are little-endian.
type writer struct {
	version uint32
	keys    []byte
	nKeys   uint64
	infos   []byte
	nInfos  uint64
	data    int64 // bytes of the data section so far
}

func le32(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }
func le64(n uint64) []byte { return binary.LittleEndian.AppendUint64(nil, n) }

// str is a string: length and bytes.
func str(s string) []byte { return append(le64(uint64(len(s))), s...) }

// list is the body of an array: element type, length, elements.
func list(element uint32, elements ...[]byte) []byte {
	return join(append([][]byte{le32(element), le64(uint64(len(elements)))}, elements...)...)
}

func join(parts ...[]byte) []byte {
	var out []byte
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// raw adds a key with a value of the type that the file numbers so.
func (w *writer) raw(key string, valueType uint32, value []byte) *writer {
	w.keys = join(w.keys, str(key), le32(valueType), value)
	w.nKeys++
	return w
}

func (w *writer) text(key, value string) *writer { return w.raw(key, 8, str(value)) }
func (w *writer) u32(key string, value uint32) *writer {
	return w.raw(key, 4, le32(value))
}
func (w *writer) u16(key string, value uint16) *writer {
	return w.raw(key, 2, binary.LittleEndian.AppendUint16(nil, value))
}
func (w *writer) i32(key string, value int32) *writer { return w.raw(key, 5, le32(uint32(value))) }
func (w *writer) f32(key string, value float32) *writer {
	return w.raw(key, 6, le32(math.Float32bits(value)))
}

// info adds a tensor by its raw fields; dims are in the file's order, rows
// first.
func (w *writer) info(name string, ggmlType uint32, offset uint64, dims ...uint64) *writer {
	w.infos = join(w.infos, str(name), le32(uint32(len(dims))))
	for _, d := range dims {
		w.infos = append(w.infos, le64(d)...)
	}
	w.infos = join(w.infos, le32(ggmlType), le64(offset))
	w.nInfos++
	return w
}

// tensor adds a tensor of that many bytes at the next multiple of 32.
func (w *writer) tensor(name string, ggmlType uint32, bytes int64, dims ...uint64) *writer {
	w.data = (w.data + 31) / 32 * 32
	w.info(name, ggmlType, uint64(w.data), dims...)
	w.data += bytes
	return w
}

// head is the file without its data.
func (w *writer) head() []byte {
	version := w.version
	if version == 0 {
		version = 3
	}
	return join([]byte("GGUF"), le32(version), le64(w.nInfos), le64(w.nKeys), w.keys, w.infos)
}

// file is the whole file, aligned to 32.
func (w *writer) file() []byte {
	head := w.head()
	padding := (32 - len(head)%32) % 32
	return join(head, make([]byte, int64(padding)+w.data))
}
