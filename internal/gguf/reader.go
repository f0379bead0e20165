package gguf

import (
	"bufio"
	"encoding/binary"
	"io"
	"strings"
	"unicode/utf8"

	"floodmark/internal/source"
)

// Bounds of what a file may make this program remember. Real files stay a
// factor of ten below them.
const (
	maxKeys    = 1 << 16
	maxTensors = 1 << 20
	maxKey     = 1<<16 - 1 // bytes of a key, by the format
	maxName    = 255       // bytes of a tensor's name; ggml reads 63, forks 127
	maxKept    = 64 << 20  // bytes of texts and lists together
	maxList    = 4096      // elements of a list that is kept; layers are counted in hundreds
)

const bufferSize = 64 << 10

// reader reads little-endian values in order and knows how many bytes are left.
// After its first error it returns zeros, so that only loops need to look.
type reader struct {
	source source.Source
	buffer *bufio.Reader
	pos    int64
	kept   int64 // bytes that texts and lists take in memory so far
	err    error
}

func newReader(s source.Source) *reader {
	return &reader{source: s, buffer: bufio.NewReaderSize(source.Stream(s), bufferSize)}
}

// left is how many bytes of the file have not been read.
func (r *reader) left() int64 { return r.source.Size() - r.pos }

// fail keeps the first error, which is the one at the place where reading went
// wrong.
func (r *reader) fail(err *source.FormatError) {
	if r.err == nil {
		r.err = err
	}
}

// failAt is fail for a message about a field at an offset.
func (r *reader) failAt(at int64, field, format string, args ...any) {
	err := source.AtByte(r.source.Name(), at, format, args...)
	err.Field = field
	r.fail(err)
}

// has checks that n bytes are left.
func (r *reader) has(n uint64, what string) bool {
	if r.err == nil && n > uint64(r.left()) {
		r.fail(source.AtByte(r.source.Name(), r.pos, "%s takes %d bytes, but %d are left", what, n, r.left()).
			WithHint("the file is cut off: fetch it again"))
	}
	return r.err == nil
}

// fixed reads the next n bytes, n at most 8, as a little-endian number.
func (r *reader) fixed(n int, what string) uint64 {
	if !r.has(uint64(n), what) {
		return 0
	}
	head, err := r.buffer.Peek(n)
	if err != nil {
		r.failAt(r.pos, "", "%s cannot be read: %v", what, err)
		return 0
	}
	var word [8]byte
	copy(word[:], head)
	r.skip(int64(n), what)
	return binary.LittleEndian.Uint64(word[:])
}

func (r *reader) u32(what string) uint32 { return uint32(r.fixed(4, what)) }
func (r *reader) u64(what string) uint64 { return r.fixed(8, what) }

// text reads a string: its length in eight bytes, then its bytes. Bytes that
// are not UTF-8 read back as U+FFFD: names of old files have them.
func (r *reader) text(limit int64, what string) string {
	at := r.pos
	n := r.u64(what)
	if !r.has(n, what) {
		return ""
	}
	if n > uint64(limit) {
		r.failAt(at, "", "%s has %d bytes, more than the %d that it may have", what, n, limit)
		return ""
	}
	if !r.keep(int64(n), at) {
		return ""
	}
	data := make([]byte, n)
	if _, err := io.ReadFull(r.buffer, data); err != nil {
		r.failAt(r.pos, "", "%s cannot be read: %v", what, err)
		return ""
	}
	r.pos += int64(n)
	if !utf8.Valid(data) {
		return strings.ToValidUTF8(string(data), "\uFFFD")
	}
	return string(data)
}

// keep counts bytes that stay in memory.
func (r *reader) keep(n, at int64) bool {
	r.kept += n
	if r.kept > maxKept {
		r.failAt(at, "", "metadata and names take more than the %d bytes that they may take", int64(maxKept))
		return false
	}
	return true
}

// skip moves over n bytes, which must be there.
func (r *reader) skip(n int64, what string) {
	if !r.has(uint64(n), what) {
		return
	}
	if n > bufferSize {
		r.pos += n
		r.buffer.Reset(io.NewSectionReader(r.source, r.pos, r.left()))
		return
	}
	if _, err := r.buffer.Discard(int(n)); err != nil {
		r.failAt(r.pos, "", "%s cannot be read: %v", what, err)
		return
	}
	r.pos += n
}

// skipTexts moves over n strings.
func (r *reader) skipTexts(n int64, what string) {
	for i := int64(0); i < n && r.err == nil; i++ {
		length := r.u64(what)
		if r.has(length, what) {
			r.skip(int64(length), what)
		}
	}
}
