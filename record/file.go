package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"time"
	"unicode"
	"unicode/utf16"

	"floodmark/internal/source"
)

// ErrExists says that a result file is already there. It is never overwritten.
var ErrExists = errors.New("already exists and is never overwritten")

// Encode writes a record as indented JSON with a final newline, in one call.
// Lists that are nil become empty ones, and what could steer a terminal is
// escaped.
func Encode(w io.Writer, record any) error {
	v := reflect.ValueOf(record)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	fillLists(c)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(c.Interface()); err != nil {
		return err
	}
	_, err := w.Write(escapeHidden(b.Bytes()))
	return err
}

// escapeHidden escapes the characters of valid JSON that are not meant to be
// seen and that encoding/json leaves as they are: DEL, the controls of C1 and
// the marks that turn text around. They can only stand within strings.
func escapeHidden(data []byte) []byte {
	hidden := func(r rune) bool { return r != '\n' && !unicode.IsGraphic(r) }
	if bytes.IndexFunc(data, hidden) < 0 {
		return data
	}
	var b bytes.Buffer
	for _, r := range string(data) {
		if !hidden(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.Bytes()
}

// fillLists gives every nil slice and map of an addressable value an empty one.
func fillLists(v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fillLists(v.Field(i))
		}
	case reflect.Slice:
		if v.IsNil() {
			v.Set(reflect.MakeSlice(v.Type(), 0, 0))
		}
		for i := range v.Len() {
			fillLists(v.Index(i))
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			fillLists(v.Elem())
		}
	}
}

// Free reports whether a record could be created under that name, with
// [ErrExists] when something is there. It is for asking before a long run;
// [Create] asks again.
func Free(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return source.OfFile(path, ErrExists)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return source.OfFile(path, err)
	}
	return nil
}

// Create writes a record to a file that must not exist. A record that cannot be
// written whole leaves no file.
func Create(path string, record any) error {
	return CreateFile(path, func(w io.Writer) error { return Encode(w, record) })
}

// CreateFile is [Create] for any content, which it holds in memory until it is
// whole. The content is written beside the file and gets its name when it is
// there, so that a program that is killed leaves no part of it under that name.
func CreateFile(path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return err
	}
	if err := Free(path); err != nil {
		return err
	}
	beside := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d.%d", filepath.Base(path), os.Getpid(), time.Now().UnixNano()))
	if err := createHere(beside, b.Bytes()); err != nil {
		return source.OfFile(path, err)
	}
	defer os.Remove(beside)
	err := os.Link(beside, path) // which takes no name that is there, as a rename does
	switch {
	case errors.Is(err, fs.ErrExist):
		return source.OfFile(path, ErrExists)
	case err != nil: // no links on this file system
		return source.OfFile(path, createHere(path, b.Bytes()))
	}
	return nil
}

// createHere writes a file under its name at once.
func createHere(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return ErrExists
	}
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = cmp.Or(err, f.Sync(), f.Close()); err != nil {
		os.Remove(path)
	}
	return err
}

// New is an empty record of a kind; nil for a kind that this version does not
// know.
func New(kind Kind) any {
	switch kind {
	case KindEstimate:
		return &Estimate{}
	case KindSolve:
		return &Solve{}
	case KindSnapshot:
		return &Snapshot{}
	case KindReplay:
		return &Replay{}
	case KindLog:
		return &Log{}
	case KindMeasurement:
		return &Measurement{}
	case KindComparison:
		return &Comparison{}
	case KindSweep:
		return &Sweep{}
	case KindDecision:
		return &Decision{}
	case KindGPUs:
		return &GPUs{}
	case KindEnvironment:
		return &Environment{}
	case KindError:
		return &Error{}
	}
	return nil
}

// Kinds lists the kinds that this version writes.
func Kinds() []Kind {
	return []Kind{KindEstimate, KindSolve, KindSnapshot, KindReplay, KindLog, KindMeasurement, KindSweep, KindComparison, KindDecision, KindGPUs, KindEnvironment, KindError}
}
