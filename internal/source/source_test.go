package source_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"floodmark/internal/source"
)

// A message may quote a file that somebody sent; it must not reach the terminal
// as commands.
func TestErrorsEscapeControlCharacters(t *testing.T) {
	for _, c := range []struct {
		name string
		err  *source.FormatError
		want string
	}{
		{"all parts", source.AtByte("a.gguf", 8, "is cut off"), "a.gguf: at byte 8: is cut off"},
		{"a field", source.InField("config.json", "hidden_size", "is negative"), "config.json: hidden_size: is negative"},
		{"colours in a field", source.InField("f", "a\x1b[31mb", "is odd"), `f: a\x1b[31mb: is odd`},
		{"a line break in a message", source.InField("f", "", "is %s", "x\r\ny"), `f: is x\r\ny`},
		{"text turned around", source.InField("f", "a\u202eb", "is odd"), `f: a\u202eb: is odd`},
		{"a file's name", source.AtByte("a\n\nFITS", 0, "is odd"), `a\n\nFITS: at byte 0: is odd`},
		{"letters stay", source.InField("f", "größe", "是"), "f: größe: 是"},
	} {
		if got := c.err.Error(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestRefusePointer(t *testing.T) {
	pointer := "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"
	err := source.RefusePointer(source.Bytes("model.safetensors", []byte(pointer)))
	var f *source.FormatError
	if !errors.As(err, &f) || !strings.Contains(f.Hint, "git lfs pull") {
		t.Errorf("a pointer: %v", err)
	}
	for _, text := range []string{"", "version 1", "GGUF"} {
		if err := source.RefusePointer(source.Bytes("f", []byte(text))); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestDir(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{"config.json", "a.safetensors"} {
		if err := os.WriteFile(filepath.Join(root, name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(root, "original"), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, d := context.Background(), source.Dir(root)
	files, err := d.Files(ctx)
	if err != nil || !slices.Equal(files, []string{"a.safetensors", "config.json"}) {
		t.Errorf("files %v, %v", files, err)
	}
	if _, err := d.Open(ctx, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if _, err := d.Open(ctx, "../config.json"); err == nil {
		t.Error("a file outside the folder was opened")
	}
	if _, err := source.Dir(filepath.Join(root, "none")).Files(ctx); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// Every read is bounded by what the file has and by what the reader wants.
func TestReads(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := source.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Name() != path || s.Size() != 5 {
		t.Errorf("%s has %d bytes", s.Name(), s.Size())
	}
	if data, err := source.ReadAll(s, 5); err != nil || string(data) != "hello" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := source.ReadAll(s, 4); err == nil || !strings.Contains(err.Error(), "more than the 4") {
		t.Errorf("a file that is too large: %v", err)
	}
	if head, err := source.Head(s, 9); err != nil || string(head) != "hello" {
		t.Errorf("%q, %v", head, err)
	}
	if _, err := source.Open(filepath.Dir(path)); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := source.Open(path + "b"); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "open ") {
		t.Errorf("a file that is not there: %v", err)
	}
	in, err := source.Input("-", strings.NewReader("hello"), 5)
	if err != nil || in.Size() != 5 || in.Name() != "-" {
		t.Errorf("from a stream: %v", err)
	}
	var f *source.FormatError
	if _, err := source.Input("-", strings.NewReader("hello"), 4); !errors.As(err, &f) || f.Hint == "" {
		t.Errorf("a stream that is too long: %v", err)
	}
}

// What is shown of foreign text cannot steer a terminal or begin a line.
func TestVisible(t *testing.T) {
	for text, want := range map[string]string{
		"":                           "",
		"größe 是 🙂 a\u00a0b":         "größe 是 🙂 a\u00a0b",
		"a\nb\r\tc":                  `a\nb\r\tc`,
		"\x00\x1b[2J\x7f":            `\x00\x1b[2J\x7f`,
		"\u009b31m\u202e\ufeff":      `\u009b31m\u202e\ufeff`,
		"a\u2028b\u2066c":            `a\u2028b\u2066c`,
		"\U000e0041":                 `\U000e0041`,
		"a\xffb\xc3":                 `a\xffb\xc3`,
		"a replacement \ufffd stays": "a replacement \ufffd stays",
	} {
		got := source.Visible(text)
		if got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
		if again := source.Visible(got); again != got {
			t.Errorf("%q is shown as %q the second time", got, again)
		}
	}
}

// The words of the system, without the call and with the name once.
func TestFileError(t *testing.T) {
	_, err := source.Open(filepath.Join(t.TempDir(), "none"))
	var f *source.FileError
	if !errors.As(err, &f) || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a file that is not there: %v", err)
	}
	if want := f.File + ": no such file or directory"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	written := source.OfFile("full/a.json", &fs.PathError{Op: "write", Path: "full/a.json", Err: errors.New("no space left on device")})
	if want := "full/a.json: no space left on device"; written.Error() != want {
		t.Errorf("%q, want %q", written, want)
	}
	if source.OfFile("f", nil) != nil {
		t.Error("nothing is an error")
	}
}
