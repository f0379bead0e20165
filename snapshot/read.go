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
	// maxDeflate is how much deflate can expand: 1032 to 1.
	maxDeflate = 1032
	// maxExpanded bounds what comes out of a gzip, which names no size that can
	// be trusted.
	maxExpanded = 16 << 30
)

// Read reads a snapshot. It returns source.ErrNotThisFormat, wrapped, when the
// first bytes are not those of one, and a *source.FormatError when they are and
// the rest breaks the rules.
func Read(src source.Source) (*Snapshot, error) {
	layer := layer{r: source.Stream(src), name: src.Name(), size: src.Size()}
	if err := layer.unwrap(); err != nil {
		return nil, err
	}
	return layer.read()
}

// layer is a stream of bytes, with what wraps it taken off.
type layer struct {
	r    io.Reader
	name string
	size int64 // at most; exact where nothing is wrapped
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
		l.size = min(l.size, maxExpanded/maxDeflate) * maxDeflate
		b = bufio.NewReaderSize(&damage{r: unzipped, name: l.name}, headSize)
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
		l.r, l.size = &damage{r: embedded, name: l.name}, l.size/4*3+3
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
	return n, &source.FormatError{File: d.name, Offset: -1, Msg: "what wraps the snapshot is damaged", Err: err}
}

func notThis(name string) error {
	return fmt.Errorf("%s: %w", name, source.ErrNotThisFormat)
}

// read decides between pickle and JSON by the first key.
func (l *layer) read() (*Snapshot, error) {
	progress := &counter{r: l.r}
	b := bufio.NewReaderSize(progress, headSize)
	head, err := peek(b)
	if err != nil {
		return nil, err
	}
	build := newBuilder(l.name, pickle.NewStrings(), func() float64 {
		return float64(progress.read) / float64(max(l.size, 1))
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
		return nil, err
	}
	return build.finish(root)
}
