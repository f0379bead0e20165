package pickle

import (
	"bytes"
	"errors"
	"io"

	"floodmark/internal/source"
)

// maxString bounds one string, which has to fit in the buffer. The longest in a
// real file, the name of a C++ template, has some kilobytes.
const maxString = 1 << 20

// lookahead is what the longest opcode without a payload takes, and more.
const lookahead = 16

// input is a buffered stream that knows where it is. Its size is an upper
// bound: what claims to be longer is refused before memory is taken.
type input struct {
	r     io.Reader
	name  string
	buf   []byte // what has been read; buf[pos:] is still to be consumed
	pos   int
	start int64 // offset of buf[0]
	size  int64
	eof   bool
}

func newInput(r io.Reader, name string, size int64) *input {
	room := min(max(size, 0), maxString) + 2*lookahead
	return &input{r: r, name: name, size: size, buf: make([]byte, 0, room)}
}

func (in *input) offset() int64 { return in.start + int64(in.pos) }

// ensure makes n bytes available, n ≤ maxString + lookahead.
func (in *input) ensure(n int) error {
	if len(in.buf)-in.pos >= n {
		return nil
	}
	if n > cap(in.buf) {
		return in.truncated(n)
	}
	in.start += int64(in.pos)
	kept := copy(in.buf[:cap(in.buf)], in.buf[in.pos:])
	in.buf, in.pos = in.buf[:kept], 0
	for len(in.buf) < n && !in.eof {
		got, err := in.r.Read(in.buf[len(in.buf):cap(in.buf)])
		in.buf = in.buf[:len(in.buf)+got]
		if errors.Is(err, io.EOF) {
			in.eof = true
		} else if err != nil {
			return &source.FormatError{File: in.name, Offset: in.offset(), Msg: "cannot be read on", Err: err}
		}
	}
	if len(in.buf) < n {
		return in.truncated(n)
	}
	return nil
}

func (in *input) truncated(n int) error {
	have := len(in.buf) - in.pos
	return source.AtByte(in.name, in.offset(), "the file ends after %d of the next %d bytes", have, n).
		WithHint("the file is truncated: write or copy it again")
}

// take consumes n bytes. The slice is good until the next call.
func (in *input) take(n int) ([]byte, error) {
	if err := in.ensure(n); err != nil {
		return nil, err
	}
	b := in.buf[in.pos : in.pos+n]
	in.pos += n
	return b, nil
}

// payload consumes n bytes whose number the file itself gave.
func (in *input) payload(n uint64) ([]byte, error) {
	if rest := in.size - in.offset(); rest < 0 || n > uint64(rest) {
		return nil, source.AtByte(in.name, in.offset(), "a length of %d bytes is claimed, but at most %d are left", n, max(rest, 0)).
			WithHint("the file is truncated or damaged")
	}
	if n > maxString {
		return nil, source.AtByte(in.name, in.offset(), "a string of %d bytes is longer than the %d that one may have", n, maxString)
	}
	return in.take(int(n))
}

// line consumes a line of at most limit bytes and gives it without its end.
func (in *input) line(limit int) ([]byte, error) {
	for want := lookahead; ; want *= 2 {
		want = min(want, limit+1)
		// The end of the file may come before want bytes; the line may still
		// end there.
		err := in.ensure(want)
		seen := in.buf[in.pos:min(len(in.buf), in.pos+limit+1)]
		if end := bytes.IndexByte(seen, '\n'); end >= 0 {
			in.pos += end + 1
			return seen[:end], nil
		}
		if err != nil {
			return nil, err
		}
		if want > limit {
			return nil, source.AtByte(in.name, in.offset(), "a line is longer than the %d bytes that it may have", limit)
		}
	}
}
