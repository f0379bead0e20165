package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Source is a named run of bytes of known size that can be read anywhere.
type Source interface {
	io.ReaderAt
	io.Closer
	Name() string // as a person should read it in a message
	Size() int64  // in bytes
}

// Open opens a local file. A folder, a pipe or a device is refused: their size
// is not known before they are read.
func Open(path string) (Source, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, plain(path, err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, plain(path, err)
	}
	if !info.Mode().IsRegular() {
		f.Close()
		return nil, InField(path, "", "is not a regular file (%s)", info.Mode().Type())
	}
	return &file{File: f, name: path, size: info.Size()}, nil
}

// plain takes the system call's name out of an error about a path.
func plain(path string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

type file struct {
	*os.File
	name string
	size int64
}

func (f *file) Name() string { return f.name }
func (f *file) Size() int64  { return f.size }

// Bytes is a source over a slice, for text from standard input and for tests.
func Bytes(name string, data []byte) Source {
	return &memory{Reader: bytes.NewReader(data), name: name}
}

type memory struct {
	*bytes.Reader
	name string
}

func (m *memory) Name() string { return m.name }
func (m *memory) Size() int64  { return m.Reader.Size() }
func (m *memory) Close() error { return nil }

// ReadAll reads a whole source of at most limit bytes; a larger one is refused
// before any memory is taken.
func ReadAll(s Source, limit int64) ([]byte, error) {
	if s.Size() > limit {
		return nil, InField(s.Name(), "", "has %d bytes, more than the %d that such a file may have", s.Size(), limit)
	}
	data := make([]byte, s.Size())
	if _, err := io.ReadFull(io.NewSectionReader(s, 0, s.Size()), data); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name(), err)
	}
	return data, nil
}

// Head reads the first n bytes, or all of them when there are fewer.
func Head(s Source, n int64) ([]byte, error) {
	n = min(n, s.Size())
	data := make([]byte, n)
	if _, err := io.ReadFull(io.NewSectionReader(s, 0, n), data); err != nil {
		return nil, fmt.Errorf("%s: %w", s.Name(), err)
	}
	return data, nil
}

// Stream is the source from its first byte on.
func Stream(s Source) io.Reader { return io.NewSectionReader(s, 0, s.Size()) }

// Input reads a stream without a size (standard input) up to limit bytes.
func Input(name string, r io.Reader, limit int64) (Source, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if int64(len(data)) > limit {
		return nil, InField(name, "", "is longer than the %d bytes that may come this way", limit).
			WithHint("write it to a file and name the file")
	}
	return Bytes(name, data), nil
}
