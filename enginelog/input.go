package enginelog

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/internal/source"
)

const (
	// blank is how many NUL bytes at its beginning make a file no text. UTF-16
	// has no two of them in a row.
	blank = 1 << 20
	// What comes out of a gzip is at most so many times its size, though a small
	// one may have some megabytes, and at most so many bytes: its own word on its
	// size cannot be trusted.
	expansion   = 64
	expandsTo   = 64 << 20
	maxExpanded = 4 << 30
)

// input is the text of a source, with a gzip around it taken off.
type input struct {
	r       io.Reader
	zipped  bool
	left    int64 // what may still come out of a gzip
	taken   int64
	more    bool  // the gzip has more than may come out
	damaged error // why the gzip ended
}

// openText gives the text of a source; [source.ErrNotThisFormat] where it is none.
func openText(src source.Source) (*input, error) {
	in := &input{r: source.Stream(src)}
	magic, err := source.Head(src, 2)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(in.r)
		if err != nil {
			return nil, source.ErrNotThisFormat
		}
		bound := min(src.Size(), maxExpanded/expansion) * expansion
		in.zipped, in.r, in.left = true, unzipped, max(bound, expandsTo)
	}
	head := bufio.NewReaderSize(in.expanded(), blank)
	first, err := head.Peek(blank)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", src.Name(), err)
	}
	if len(first) == blank && empty(first) && !in.endsInText(src) {
		return nil, source.ErrNotThisFormat
	}
	in.r = head
	return in, nil
}

// endsInText reports a file that begins with a hole and ends with text: the log
// of a program that writes on where it was, after its log was emptied.
func (in *input) endsInText(src source.Source) bool {
	if in.zipped {
		return false
	}
	end := make([]byte, 4096)
	n, err := src.ReadAt(end, src.Size()-int64(len(end)))
	return (err == nil || errors.Is(err, io.EOF)) && !empty(end[:n])
}

// empty reports bytes that are all NUL.
func empty(data []byte) bool { return len(bytes.Trim(data, "\x00")) == 0 }

// expanded is the reader within the bounds of a gzip.
func (in *input) expanded() io.Reader {
	if !in.zipped {
		return in.r
	}
	return &bounded{in: in, r: in.r}
}

// bounded ends a gzip where it is damaged or becomes too long: what came before
// is still worth reading.
type bounded struct {
	in *input
	r  io.Reader
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.in.left <= 0 {
		n, _ := b.r.Read(make([]byte, 1))
		b.in.more = n > 0
		return 0, io.EOF
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.in.left)])
	b.in.left -= int64(n)
	b.in.taken += int64(n)
	if err != nil && err != io.EOF {
		b.in.damaged, err = err, io.EOF
	}
	return n, err
}

// warnings says what of a gzip was not read.
func (in *input) warnings() []account.Warning {
	size := bytesize.Group(in.taken)
	switch {
	case in.damaged != nil:
		return []account.Warning{{Code: "damaged", Text: fmt.Sprintf("the gzip is damaged after %s bytes of text, and the rest was not read (%v)", size, in.damaged)}}
	case in.more:
		return []account.Warning{{Code: "cut_short", Text: fmt.Sprintf("the gzip expands too far: only its first %s bytes of text were read", size)}}
	}
	return nil
}

// nothing is the error of a text in which nothing was recognised.
func (in *input) nothing(name string) error {
	if in.damaged == nil {
		return source.ErrNotThisFormat
	}
	return &source.FormatError{File: name, Offset: -1, Msg: "the gzip is damaged, and before that is nothing about memory", Err: in.damaged}
}
