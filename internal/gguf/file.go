package gguf

import (
	"cmp"
	"slices"

	"floodmark/dtype"
	"floodmark/internal/source"
)

// defaultAlignment is what data is aligned to when general.alignment is absent.
const defaultAlignment = 32

// maxDims is GGML_MAX_DIMS.
const maxDims = 4

// maxBytes bounds offsets and sizes so that a sum of a few cannot overflow.
const maxBytes = 1 << 61

// Tensor is one tensor of a file.
type Tensor struct {
	Name   string
	Format dtype.Format
	Shape  []int64 // outermost first, the file's order reversed; a row is last
	Offset int64   // of its bytes, from the start of the data
	Bytes  int64   // without the padding that follows
}

// File is what a file says of itself.
type File struct {
	Name       string // of the source
	Version    uint32 // 2 or 3
	Keys       []string
	Alignment  int64
	DataOffset int64 // where the data begins in the file
	Data       int64 // all tensors together, in bytes, without padding
	Tensors    []Tensor
	Split      Split
	values     map[string]Value
}

// Value is the metadata under a key; its Type is [Absent] when there is none.
func (f *File) Value(key string) Value { return f.values[key] }

// Read reads a whole file: its metadata and tensors, whose data must lie inside
// it. Another file is [source.ErrNotThisFormat]; a malformed one, one of
// version 1, and a big-endian one are each a [source.FormatError].
func Read(s source.Source) (*File, error) {
	f, err := ReadHead(s)
	if err != nil {
		return nil, err
	}
	for _, t := range f.Tensors {
		if end := f.DataOffset + t.Offset + t.Bytes; end > s.Size() {
			err := source.AtByte(s.Name(), s.Size(), "its data ends at byte %d and the file at byte %d", end, s.Size())
			err.Field = t.Name
			return nil, err.WithHint("the file is cut off: fetch it again")
		}
	}
	return f, nil
}

// ReadHead is [Read] for the beginning of a file, as a partial download has it:
// the data need not be there.
func ReadHead(s source.Source) (*File, error) {
	r := newReader(s)
	f := &File{Name: s.Name(), Alignment: defaultAlignment, values: map[string]Value{}}
	tensors, keys, err := r.opening(f)
	if err != nil {
		return nil, err
	}
	r.metadata(f, keys)
	r.alignment(f)
	r.tensors(f, tensors)
	f.DataOffset = align(r.pos, f.Alignment)
	r.layout(f)
	r.split(f)
	if r.err != nil {
		return nil, r.err
	}
	return f, nil
}

// opening reads magic, version and the two counts.
func (r *reader) opening(f *File) (tensors, keys int64, err error) {
	if err := source.RefusePointer(r.source); err != nil {
		return 0, 0, err
	}
	magic, err := source.Head(r.source, 4)
	if err != nil {
		return 0, 0, err
	}
	if string(magic) != "GGUF" {
		return 0, 0, &source.FormatError{File: f.Name, Msg: "is not a GGUF file: it must begin with GGUF", Err: source.ErrNotThisFormat}
	}
	r.skip(4, "the magic")
	f.Version = r.u32("the version")
	r.version(f.Version)
	tensors = r.count("the number of tensors", maxTensors, 24)
	keys = r.count("the number of metadata keys", maxKeys, 14)
	return tensors, keys, r.err
}

// version refuses the versions that are laid out otherwise.
func (r *reader) version(v uint32) {
	if r.err != nil || v == 2 || v == 3 {
		return
	}
	err := source.AtByte(r.source.Name(), 4, "is GGUF version %d, expected 2 or 3", v)
	switch {
	case v != 0 && v&0xffff == 0:
		// The version is small, so a big-endian file has its low bytes empty.
		err = source.AtByte(r.source.Name(), 4, "is a big-endian GGUF file, which only big-endian machines read").
			WithHint("convert it with gguf_convert_endian.py of llama.cpp")
	case v == 1:
		err = err.WithHint("version 1 was in use for some weeks of 2023: fetch a newer conversion of the model")
	}
	r.fail(err)
}

// count reads a number of things that take at least so many bytes each.
func (r *reader) count(what string, limit, each int64) int64 {
	at := r.pos
	n := r.u64(what)
	switch {
	case r.err != nil:
		return 0
	case n > uint64(limit):
		r.failAt(at, "", "%s is %d, more than the %d that are read", what, n, limit)
		return 0
	case n > uint64(r.left()/each):
		r.fail(source.AtByte(r.source.Name(), at, "%s is %d, but %d bytes are left", what, n, r.left()).
			WithHint("the file is cut off: fetch it again"))
		return 0
	}
	return int64(n)
}

// metadata reads the keys and their values.
func (r *reader) metadata(f *File, n int64) {
	for int64(len(f.Keys)) < n && r.err == nil {
		at := r.pos
		key := r.text(maxKey, "a metadata key")
		if _, twice := f.values[key]; twice {
			r.failAt(at, key, "stands twice in the metadata")
		}
		if key == "" {
			r.failAt(at, "", "a metadata key is empty")
		}
		if r.err != nil {
			return
		}
		f.Keys = append(f.Keys, key)
		f.values[key] = r.value(key)
	}
}

// alignment reads general.alignment, a power of two that ggml wants as uint32.
func (r *reader) alignment(f *File) {
	v := f.Value("general.alignment")
	if v.Type == Absent {
		return
	}
	n, _ := v.Int()
	if v.Type != Uint32 || n == 0 || n&(n-1) != 0 {
		r.fail(source.InField(f.Name, "general.alignment", "is %d of type %s, expected a power of two of type uint32", n, v.Type))
		return
	}
	f.Alignment = n
}

// align is the next multiple of an alignment, which is a power of two. Offsets
// are checked to be far from 2⁶³ before they come here.
func align(n, alignment int64) int64 { return (n + alignment - 1) &^ (alignment - 1) }

// tensors reads the list of tensors.
func (r *reader) tensors(f *File, n int64) {
	names := map[string]struct{}{}
	for int64(len(f.Tensors)) < n && r.err == nil {
		at := r.pos
		t := r.tensor()
		if _, twice := names[t.Name]; twice {
			r.failAt(at, t.Name, "stands twice in the list of tensors")
		}
		names[t.Name] = struct{}{}
		if t.Offset%f.Alignment != 0 {
			r.failAt(at, t.Name, "its data begins at %d, which is no multiple of the alignment %d", t.Offset, f.Alignment)
		}
		f.Tensors = append(f.Tensors, t)
	}
}

// tensor reads name, dimensions, type and offset.
func (r *reader) tensor() Tensor {
	at := r.pos
	t := Tensor{Name: r.text(maxName, "a tensor's name")}
	dims := r.u32("a number of dimensions")
	if dims > maxDims {
		r.failAt(at, t.Name, "has %d dimensions, more than ggml's %d", dims, maxDims)
		return t
	}
	t.Shape = make([]int64, dims)
	for i := range t.Shape {
		n := r.u64("a dimension")
		if n > maxBytes {
			r.failAt(at, t.Name, "has a dimension of %d", n)
		}
		t.Shape[len(t.Shape)-1-i] = int64(n)
	}
	t.Format = r.format(t.Name, at)
	t.Bytes = r.bytes(t, at)
	offset := r.u64("a tensor's offset")
	if offset > maxBytes {
		r.failAt(at, t.Name, "its data begins at %d, which no file can hold", offset)
	}
	t.Offset = int64(offset)
	return t
}

// format reads a tensor's type.
func (r *reader) format(name string, at int64) dtype.Format {
	id := r.u32("a tensor's type")
	f := format(id)
	if r.err != nil || f != dtype.Unknown {
		return f
	}
	if old := removed(id); old != "" {
		r.fail(source.AtByte(r.source.Name(), at, "%s is of type %d (%s), which llama.cpp has removed", name, id, old).
			WithHint("quantise the model again with a current llama.cpp, or fetch a newer conversion"))
	} else {
		r.fail(source.AtByte(r.source.Name(), at, "%s is of type %d, which is none of ggml's 0 to 42", name, id).
			WithHint("forks of llama.cpp number types of their own from there on; their block sizes are not known here"))
	}
	return dtype.Unknown
}

// bytes is what a tensor takes. A row is a whole number of blocks.
func (r *reader) bytes(t Tensor, at int64) int64 {
	if r.err != nil {
		return 0
	}
	elements, _ := t.Format.Block()
	row := int64(1)
	if len(t.Shape) > 0 {
		row = t.Shape[len(t.Shape)-1]
	}
	if row%elements != 0 {
		r.failAt(at, t.Name, "has rows of %d elements, which is no multiple of the %d in a block of %s", row, elements, t.Format)
		return 0
	}
	n, fits := t.Format.Size(t.Shape)
	if !fits || n > maxBytes {
		r.failAt(at, t.Name, "the shape %v has more bytes than a file can hold", t.Shape)
		return 0
	}
	return n
}

// layout checks, in the order of the data, that no two tensors share a byte,
// and adds them up.
func (r *reader) layout(f *File) {
	if r.err != nil {
		return
	}
	order := make([]int, len(f.Tensors))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		x, y := f.Tensors[a], f.Tensors[b]
		return cmp.Or(cmp.Compare(x.Offset, y.Offset), cmp.Compare(x.Bytes, y.Bytes), a-b)
	})
	end, last := int64(0), ""
	for _, i := range order {
		t := f.Tensors[i]
		if t.Offset < end {
			r.fail(source.InField(f.Name, t.Name, "its data begins at %d, inside %q, which ends at %d", t.Offset, last, end))
			return
		}
		end, last = t.Offset+t.Bytes, t.Name
	}
	for _, t := range f.Tensors {
		f.Data += t.Bytes // cannot overflow: the tensors lie side by side
	}
}
