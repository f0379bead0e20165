package snapshot

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"

	"floodmark/internal/pickle"
	"floodmark/internal/source"
)

const (
	// headSize is what is looked at before a file is taken for a snapshot.
	headSize = 4096
	// A gzip names no size that can be trusted. It may unpack to so many times
	// its own length, and a little more; of 30 public snapshots the most
	// compressible shrinks to a thirty-seventh.
	maxExpansion  = 64
	freeExpansion = 16 << 20
	maxExpanded   = 4 << 30
)

// Read reads a snapshot. It returns source.ErrNotThisFormat, wrapped, when the
// first bytes are not those of one, and a *source.FormatError when they are and
// the rest breaks the rules.
func Read(src source.Source) (*Snapshot, error) {
	file := &counter{r: source.Stream(src)}
	layer := layer{r: file, file: file, name: src.Name(), size: src.Size(), onDisk: src.Size()}
	if err := layer.unwrap(); err != nil {
		return nil, err
	}
	return layer.read()
}

// layer is a stream of bytes, with what wraps it taken off.
type layer struct {
	r      io.Reader
	file   *counter // what was read of the file
	name   string
	size   int64 // at most; exact where nothing is wrapped
	onDisk int64 // of the file
	padded bool  // NULs may fill up the end
}

// unwrap takes off a gzip and an HTML page.
func (l *layer) unwrap() error {
	b := bufio.NewReaderSize(l.r, headSize)
	head, err := peek(b)
	if err != nil {
		return fmt.Errorf("%s: %w", l.name, err)
	}
	l.r = b
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(b)
		if err != nil {
			return notThis(l.name)
		}
		l.size = min(l.size, maxExpanded/maxExpansion)*maxExpansion + freeExpansion
		b = bufio.NewReaderSize(&expansion{r: &damage{r: unzipped, name: l.name}, name: l.name, left: l.size}, headSize)
		l.r = b
		if head, err = peek(b); err != nil {
			return err
		}
	}
	if bytes.HasPrefix(bytes.TrimLeft(head, " \t\r\n\ufeff"), []byte("<")) {
		embedded, err := findEmbedded(b)
		if err != nil {
			return notThis(l.name)
		}
		l.r, l.size, l.padded = &damage{r: embedded, name: l.name}, l.size/4*3+3, true
	}
	return nil
}

func peek(b *bufio.Reader) ([]byte, error) {
	head, err := b.Peek(headSize)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return head, err
}

// damage makes a decoder's error a FormatError.
type damage struct {
	r    io.Reader
	name string
}

func (d *damage) Read(p []byte) (int, error) {
	n, err := d.r.Read(p)
	if err == nil || errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return n, err
	}
	var own *source.FormatError
	if errors.As(err, &own) {
		return n, own
	}
	return n, &source.FormatError{File: d.name, Offset: -1, Msg: "what wraps the snapshot is damaged", Err: err}
}

// expansion is a stream of at most so many bytes.
type expansion struct {
	r    io.Reader
	name string
	left int64
}

func (e *expansion) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if e.left -= int64(n); e.left < 0 {
		return 0, source.InField(e.name, "", "unpacks to more than %d times its own length, which no snapshot does", maxExpansion).
			WithHint("if the file is yours, unpack it with gunzip and read what comes out")
	}
	return n, err
}

func notThis(name string) error {
	return fmt.Errorf("%s: %w", name, source.ErrNotThisFormat)
}

// read decides between pickle and JSON by the first key.
func (l *layer) read() (*Snapshot, error) {
	b := bufio.NewReaderSize(l.r, headSize)
	head, err := peek(b)
	if err != nil {
		return nil, err
	}
	build := newBuilder(l.name, l.onDisk, pickle.NewStrings(), func() float64 {
		return float64(l.file.read) / float64(max(l.onDisk, 1))
	})
	var root pickle.Value
	if key, ok := pickle.FirstString(head); ok && opens(key) {
		root, err = pickle.Read(b, l.name, l.size, build.strings, build, build.options())
	} else if key, ok := firstJSONKey(head); ok && opens(key) {
		root, err = readJSON(b, l.name, build)
	} else {
		return nil, notThis(l.name)
	}
	if err != nil {
		return nil, cause(err)
	}
	s, err := build.finish(root)
	if err != nil {
		return nil, err
	}
	return s, l.readOn(b, build.beyond, s)
}

// cause is what a wrapping says of itself, where reading on failed for it.
func cause(err error) error {
	var outer, inner *source.FormatError
	if errors.As(err, &outer) && errors.As(outer.Err, &inner) {
		return inner
	}
	return err
}

// readOn reads what follows the snapshot, for a gzip has its checksum there, and
// says how much that was.
func (l *layer) readOn(rest io.Reader, beyond int64, s *Snapshot) error {
	n, err := io.Copy(io.Discard, rest)
	if err != nil {
		return err
	}
	if n += beyond; n > 2 || n > 0 && !l.padded {
		s.warn("trailing_bytes", "%d bytes follow the end of the snapshot: they were not read", n)
	}
	return nil
}
