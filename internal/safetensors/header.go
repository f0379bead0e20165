package safetensors

import (
	"cmp"
	"encoding/binary"
	"io"
	"math"
	"strings"

	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/sorting"
	"floodmark/internal/source"
)

// MaxHeader is the longest JSON header that is read. The reference library
// stops near it, at 100,000,000 bytes (MAX_HEADER_SIZE in its tensor.rs).
const MaxHeader = 100 << 20

// lengthBytes is the header's length, which stands before it.
const lengthBytes = 8

// Tensor is one tensor of a file.
type Tensor struct {
	Name   string
	DType  string       // as the file writes it, "F8_E4M3"
	Format dtype.Format // Unknown for a dtype that is newer than this program
	Shape  []int64      // outermost first; a scalar has none
	Begin  int64        // of its bytes, from the start of the data
	End    int64        // one past its last byte
}

// Bytes is what the tensor takes in the file, by its offsets. They hold where
// shape and dtype do not say it: packed words, dtypes that are not known yet.
func (t Tensor) Bytes() int64 { return t.End - t.Begin }

// Header is what a file says of itself.
type Header struct {
	Length   int64             // of the JSON, in bytes
	Data     int64             // all tensors together, in bytes
	Tensors  []Tensor          // in the order of their data
	Metadata map[string]string // the __metadata__ of the file; often {"format": "pt"}
}

// ReadHeader reads the header of a whole .safetensors file: eight bytes of
// length (little-endian), the JSON, and data that must end where the last
// tensor does. No tensor data is read.
//
// A file that does not begin so is [source.ErrNotThisFormat]; one that does and
// breaks the format's rules is a [source.FormatError].
func ReadHeader(s source.Source) (*Header, error) {
	length, err := headerLength(s)
	if err != nil {
		return nil, err
	}
	text, err := readText(io.NewSectionReader(s, lengthBytes, length), length)
	if err != nil {
		return nil, source.AtByte(s.Name(), lengthBytes, "the header cannot be read: %v", err)
	}
	h, err := parseHeader(s.Name(), lengthBytes, text)
	if err != nil {
		return nil, err
	}
	if end := lengthBytes + length + h.Data; end != s.Size() {
		return nil, wrongEnd(s, end)
	}
	return h, nil
}

// wrongEnd says that the last tensor ends elsewhere than the file.
func wrongEnd(s source.Source, end int64) error {
	err := source.AtByte(s.Name(), min(end, s.Size()), "the last tensor ends at byte %d and the file at byte %d", end, s.Size())
	if end > s.Size() {
		return err.WithHint("the file is cut off: fetch it again")
	}
	return err.WithHint("bytes follow the last tensor, which the format does not allow")
}

// ParseHeader reads a JSON header without the data that belongs to it. name
// stands for the file in errors, and their offsets count from the JSON.
func ParseHeader(name, text string) (*Header, error) {
	if len(text) > MaxHeader {
		return nil, source.InField(name, "", "the header has %d bytes, more than the %d that it may have", len(text), MaxHeader)
	}
	return parseHeader(name, 0, text)
}

// headerLength reads and checks the eight bytes in front of the header.
func headerLength(s source.Source) (int64, error) {
	if err := source.RefusePointer(s); err != nil {
		return 0, err
	}
	head, err := source.Head(s, lengthBytes+1)
	if err != nil {
		return 0, err
	}
	if len(head) <= lengthBytes || head[lengthBytes] != '{' {
		return 0, notThis(s.Name(), "is not a safetensors file: byte 8 must be '{'")
	}
	length, left := binary.LittleEndian.Uint64(head), s.Size()-lengthBytes
	switch {
	case length > MaxHeader:
		return 0, source.AtByte(s.Name(), 0, "the header is said to have %d bytes, more than the %d that it may have", length, MaxHeader)
	case int64(length) > left:
		return 0, source.AtByte(s.Name(), 0, "the header is said to have %d bytes, but %d are left", length, left).
			WithHint("the file is cut off: fetch it again")
	}
	return int64(length), nil
}

// notThis is a message that also lets the caller try another format.
func notThis(file, msg string) error {
	return &source.FormatError{File: file, Offset: 0, Msg: msg, Err: source.ErrNotThisFormat}
}

// readText reads a known number of bytes into a string without a second copy.
func readText(r io.Reader, size int64) (string, error) {
	var b strings.Builder
	b.Grow(int(size))
	n, err := io.Copy(&b, r)
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return b.String(), err
}

// headerParser holds what tensors share while a header is read.
type headerParser struct {
	scanner
	header  Header
	names   map[string]struct{}
	formats map[string]dtype.Format
	sizes   []int64 // backs the shapes
}

func parseHeader(file string, base int64, text string) (*Header, error) {
	p := &headerParser{
		scanner: scanner{file: file, base: base, text: text},
		header:  Header{Length: int64(len(text))},
		names:   map[string]struct{}{},
		formats: map[string]dtype.Format{},
	}
	if err := p.object(p.member); err != nil {
		return nil, err
	}
	if p.space(); p.pos < len(text) {
		return nil, p.fail(p.pos, "has %d bytes after the end of the header's JSON", len(text)-p.pos)
	}
	sorting.By(p.header.Tensors, func(i, j int) int {
		a, b := p.header.Tensors[i], p.header.Tensors[j]
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End), strings.Compare(a.Name, b.Name))
	})
	return &p.header, p.tile()
}

// member reads one entry of the header: the metadata or a tensor.
func (p *headerParser) member(name string, at int) error {
	if err := p.once(p.names, name, at, maxTensors); err != nil {
		return err
	}
	if name == "__metadata__" {
		return p.metadata()
	}
	t, err := p.tensor(name)
	if err != nil {
		return err
	}
	p.header.Tensors = append(p.header.Tensors, t)
	return nil
}

// metadata reads the free map of texts. The reference library lets it be null.
func (p *headerParser) metadata() error {
	if p.null() {
		return nil
	}
	p.header.Metadata = map[string]string{}
	seen := map[string]struct{}{}
	return p.object(func(key string, at int) error {
		if err := p.once(seen, key, at, maxMetadata); err != nil {
			return err
		}
		text, err := p.str()
		p.header.Metadata[key] = text
		return err
	})
}

// tensor reads {"dtype": …, "shape": […], "data_offsets": [begin, end]}.
func (p *headerParser) tensor(name string) (Tensor, error) {
	t := Tensor{Name: name}
	p.space()
	start := p.pos
	var hasType, hasShape, hasOffsets bool
	err := p.object(func(key string, at int) (err error) {
		var twice bool
		switch key {
		case "dtype":
			twice, hasType = hasType, true
			t.DType, err = p.str()
		case "shape":
			twice, hasShape = hasShape, true
			t.Shape, err = p.shape()
		case "data_offsets":
			twice, hasOffsets = hasOffsets, true
			t.Begin, t.End, err = p.offsets()
		default:
			err = p.skip()
		}
		if twice {
			return p.about(name, at, "%s stands twice", key)
		}
		return err
	})
	switch {
	case err != nil:
		return t, err
	case !hasType || !hasShape || !hasOffsets:
		return t, p.about(name, start, "lacks one of dtype, shape and data_offsets")
	}
	t.Format = p.format(t.DType)
	return t, p.size(t, start)
}

// about is an error that names its tensor.
func (p *headerParser) about(name string, at int, format string, args ...any) error {
	err := p.fail(at, format, args...)
	err.Field = clip(name)
	return err
}

// shape reads dimensions into the slice that backs all shapes.
func (p *headerParser) shape() ([]int64, error) {
	first := len(p.sizes)
	err := p.array(func() error {
		if len(p.sizes)-first == maxDims {
			return p.fail(p.pos, "a shape has more than %d dimensions", maxDims)
		}
		n, err := p.count()
		p.sizes = append(p.sizes, n)
		return err
	})
	return p.sizes[first:len(p.sizes):len(p.sizes)], err
}

// offsets reads a tensor's two offsets.
func (p *headerParser) offsets() (begin, end int64, err error) {
	var pair [2]int64
	p.space()
	at, n := p.pos, 0
	err = p.array(func() error {
		offset, err := p.count()
		if n < len(pair) {
			pair[n] = offset
		}
		n++
		return err
	})
	if err == nil && n != len(pair) {
		err = p.fail(at, "data_offsets has %d numbers, expected 2", n)
	}
	return pair[0], pair[1], err
}

// format finds a dtype by its exact name; a file has a few at most.
func (p *headerParser) format(name string) dtype.Format {
	f, known := p.formats[name]
	if !known {
		f, _ = dtype.Parse(name)
		if f.String() != name || f.Blocked() {
			f = dtype.Unknown
		}
		p.formats[name] = f
	}
	return f
}

// size checks a tensor's offsets against its shape and dtype. Elements smaller
// than a byte are packed over the whole tensor, not row by row.
func (p *headerParser) size(t Tensor, at int) error {
	if t.End < t.Begin {
		return p.about(t.Name, at, "its data ends at %d, before it begins at %d", t.End, t.Begin)
	}
	elements, fits := bytesize.Mul(t.Shape...)
	if !fits {
		return p.about(t.Name, at, "the shape %v has more elements than 63 bits count", t.Shape)
	}
	if t.Format == dtype.Unknown {
		return nil
	}
	bytes, fits := t.Format.Size([]int64{elements})
	if !fits {
		return p.about(t.Name, at, "the shape %v has more bytes than 63 bits count", t.Shape)
	}
	if bytes != t.Bytes() {
		return p.about(t.Name, at, "has %d bytes by its data_offsets and %d by %s%v", t.Bytes(), bytes, t.DType, t.Shape)
	}
	return nil
}

// tile checks that the tensors, in the order of their data, leave no byte out
// and share none.
func (p *headerParser) tile() error {
	end, last := int64(0), ""
	for _, t := range p.header.Tensors {
		switch {
		case t.Begin < end:
			return source.InField(p.file, clip(t.Name), "its data begins at %d, inside %q, which ends at %d", t.Begin, clip(last), end)
		case t.Begin > end:
			return source.InField(p.file, clip(t.Name), "its data begins at %d, but what is before it ends at %d", t.Begin, end)
		}
		end, last = t.End, t.Name
	}
	// Header and data together must be a size that a file can have.
	if end > math.MaxInt64-lengthBytes-p.header.Length {
		return source.InField(p.file, clip(last), "its data ends at %d, which no file can hold", end)
	}
	p.header.Data = end
	return nil
}
