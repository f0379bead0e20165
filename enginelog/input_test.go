package enginelog

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"strings"
	"testing"

	"floodmark/internal/source"
)

// hole is a file of NUL bytes with something at its end. It counts what is read.
type hole struct {
	size int64
	end  string
	read int64
}

func (h *hole) ReadAt(p []byte, at int64) (int, error) {
	n := int(min(int64(len(p)), h.size-at))
	clear(p[:n])
	if from := h.size - int64(len(h.end)); at+int64(n) > from {
		for i := range p[:n] {
			if pos := at + int64(i); pos >= from {
				p[i] = h.end[pos-from]
			}
		}
	}
	h.read += int64(n)
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}
func (h *hole) Close() error { return nil }
func (h *hole) Name() string { return "hole.log" }
func (h *hole) Size() int64  { return h.size }

// A sparse file of gigabytes is no text, and that is seen at its beginning. One
// that ends in text is a log that was emptied while a program wrote it.
func TestHoles(t *testing.T) {
	empty := &hole{size: 3 << 30}
	if _, err := Read(empty); !errors.Is(err, source.ErrNotThisFormat) || empty.read > 4<<20 {
		t.Errorf("%v, after %d bytes", err, empty.read)
	}
	log, err := Read(&hole{size: 4 << 20, end: "\n" + modern + "\n"})
	if err != nil || len(log.OutOfMemory) != 1 {
		t.Errorf("a log after a hole: %v", err)
	}
}

func zipped(t *testing.T, text string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := io.WriteString(z, text); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestGzip(t *testing.T) {
	log, err := Read(source.Bytes("log.gz", zipped(t, "step 1\n"+modern+"\n")))
	if err != nil || len(log.OutOfMemory) != 1 || log.OutOfMemory[0].Line != 2 || len(log.Warnings) > 0 {
		t.Fatalf("%+v, %v", log, err)
	}
	if _, err := Read(source.Bytes("x.gz", zipped(t, "hello"))); !errors.Is(err, source.ErrNotThisFormat) {
		t.Errorf("a gzip of another text: %v", err)
	}
	if _, err := Read(source.Bytes("x.gz", []byte{0x1f, 0x8b, 1})); !errors.Is(err, source.ErrNotThisFormat) {
		t.Errorf("no gzip at all: %v", err)
	}
	// A gzip that another program still writes: what is there is read.
	random := make([]byte, 200_000) // does not repeat, so that it fills many blocks
	for i, x := 0, uint32(1); i < len(random); i++ {
		x = x*1664525 + 1013904223
		random[i] = "0123456789abcdef"[x>>28]
	}
	whole := zipped(t, modern+"\n"+string(random))
	cut := whole[:len(whole)/2]
	if log, err = Read(source.Bytes("x.gz", cut)); err != nil || len(log.OutOfMemory) != 1 || log.Warnings[0].Code != "damaged" {
		t.Errorf("a gzip that ends early: %+v, %v", log, err)
	}
	var f *source.FormatError
	whole = zipped(t, string(random))
	if _, err = Read(source.Bytes("x.gz", whole[:len(whole)/2])); !errors.As(err, &f) {
		t.Errorf("a damaged gzip in which nothing was found: %v", err)
	}
	// What expands without end is read up to the bound.
	log, err = Read(source.Bytes("x.gz", zipped(t, modern+"\n"+strings.Repeat(strings.Repeat("x", 99)+"\n", expandsTo/100))))
	if err != nil || len(log.OutOfMemory) != 1 || len(log.Warnings) != 1 || log.Warnings[0].Code != "cut_short" {
		t.Errorf("a gzip that expands too far: %+v, %v", log, err)
	}
}
