package source

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
)

// ByteOrderMark is what some editors put before a text in UTF-8; it says nothing.
const ByteOrderMark = "\xef\xbb\xbf"

// Source is a named run of bytes of known size that can be read anywhere.
type Source interface {
	io.ReaderAt
	io.Closer
	Name() string // as a person should read it in a message
	Size() int64  // in bytes
}

// Open opens a local file. A folder, a pipe or a device is refused before it is
// opened, because opening a pipe waits for whoever writes into it: their size is
// not known before they are read.
func Open(path string) (Source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, OfFile(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, irregular(path, info.Mode())
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, OfFile(path, err)
	}
	// The file that was opened, whatever the name meant before.
	if info, err = f.Stat(); err != nil {
		f.Close()
		return nil, OfFile(path, err)
	}
	if !info.Mode().IsRegular() {
		f.Close()
		return nil, irregular(path, info.Mode())
	}
	return &file{File: f, name: path, size: info.Size()}, nil
}

// irregular refuses what is not a regular file, in words.
func irregular(path string, mode fs.FileMode) error {
	if mode.IsDir() {
		return InField(path, "", "is not a regular file (a folder)").WithHint("name a file in it")
	}
	return InField(path, "", "is not a regular file (%s)", kindOf(mode)).
		WithHint("write its bytes to a file and name that; evidence goes to standard input too: floodmark explain -")
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "of a special kind"
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
	return data, fill(s, data)
}

// Head reads the first n bytes, or all of them when there are fewer.
func Head(s Source, n int64) ([]byte, error) {
	data := make([]byte, min(n, s.Size()))
	return data, fill(s, data)
}

// fill reads the first bytes of a source.
func fill(s Source, data []byte) error {
	_, err := io.ReadFull(io.NewSectionReader(s, 0, int64(len(data))), data)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return InField(s.Name(), "", "became shorter while it was read")
	}
	return OfFile(s.Name(), err)
}

// Stream is the source from its first byte on.
func Stream(s Source) io.Reader { return io.NewSectionReader(s, 0, s.Size()) }

// Input reads a stream without a size (standard input) up to limit bytes.
func Input(name string, r io.Reader, limit int64) (Source, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, OfFile(name, err)
	}
	if int64(len(data)) > limit {
		return nil, InField(name, "", "is longer than the %d bytes that may come this way", limit).
			WithHint("write it to a file and name the file")
	}
	return Bytes(name, data), nil
}
