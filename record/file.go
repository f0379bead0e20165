package record

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"

	"floodmark/internal/source"
)

// ErrExists says that a result file is already there. It is never overwritten.
var ErrExists = errors.New("already exists and is never overwritten")

// MaxBytes bounds a record that is read back.
const MaxBytes = 256 << 20

// Encode writes a record as indented JSON with a final newline. Lists that are
// nil become empty ones.
func Encode(w io.Writer, record any) error {
	v := reflect.ValueOf(record)
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	c := reflect.New(v.Type()).Elem()
	c.Set(v)
	fillLists(c)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(c.Interface())
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
		return fmt.Errorf("%s: %w", path, ErrExists)
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Create writes a record to a file that must not exist. A record that cannot be
// written whole leaves no file.
func Create(path string, record any) error {
	return CreateFile(path, func(w io.Writer) error { return Encode(w, record) })
}

// CreateFile is [Create] for any content, which it holds in memory until it is
// whole.
func CreateFile(path string, write func(io.Writer) error) error {
	var b bytes.Buffer
	if err := write(&b); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s: %w", path, ErrExists)
	}
	if err != nil {
		return err
	}
	_, err = f.Write(b.Bytes())
	err = errors.Join(err, f.Sync(), f.Close())
	if err != nil {
		os.Remove(path)
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Read reads a record of any kind and returns a pointer to its type. It returns
// [source.ErrNotThisFormat] for JSON that is no record.
func Read(src source.Source) (any, error) {
	head, err := source.Head(src, 64)
	if err != nil {
		return nil, err
	}
	if trimmed := bytes.TrimLeft(head, " \t\r\n"); len(trimmed) == 0 || trimmed[0] != '{' {
		return nil, source.ErrNotThisFormat
	}
	data, err := source.ReadAll(src, MaxBytes)
	if err != nil {
		return nil, err
	}
	var envelope struct {
		Schema        string `json:"schema"`
		SchemaVersion int    `json:"schema_version"`
		Kind          Kind   `json:"kind"`
	}
	if err := json.Unmarshal(data, &envelope); err != nil || envelope.Schema != Schema {
		return nil, source.ErrNotThisFormat
	}
	if envelope.SchemaVersion > Version {
		return nil, source.InField(src.Name(), "schema_version", "is %d, and this program reads up to %d", envelope.SchemaVersion, Version).
			WithHint("use a newer floodmark")
	}
	document := New(envelope.Kind)
	if document == nil {
		return nil, source.InField(src.Name(), "kind", "%q is not a kind of record that this version reads", envelope.Kind)
	}
	if err := json.Unmarshal(data, document); err != nil {
		return nil, malformed(src.Name(), err)
	}
	return document, nil
}

func malformed(file string, err error) error {
	e := &source.FormatError{File: file, Offset: -1, Msg: "is not a well-formed record", Err: err}
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		e.Field, e.Offset, e.Err = wrong.Field, wrong.Offset, nil
		e.Msg = fmt.Sprintf("is %s, expected %s", wrong.Value, wrong.Type)
	}
	return e
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
	case KindComparison:
		return &Comparison{}
	case KindGPUs:
		return &GPUs{}
	case KindError:
		return &Error{}
	}
	return nil
}

// Kinds lists the kinds that this version writes.
func Kinds() []Kind {
	return []Kind{KindEstimate, KindSolve, KindSnapshot, KindReplay, KindLog, KindComparison, KindGPUs, KindError}
}
