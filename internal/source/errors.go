package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// ErrNotThisFormat says that a file is of another format: the caller tries the
// next reader. A file of this format that is malformed is a [FormatError].
var ErrNotThisFormat = errors.New("not this format")

// FormatError is a file that claims a format and breaks its rules.
type FormatError struct {
	File   string
	Offset int64  // in bytes; -1 where an offset means nothing
	Field  string // "segments[3].blocks", "num_hidden_layers"; may be empty
	Msg    string // what was found, and what was expected
	Hint   string // what the reader of the message can do; may be empty
	Err    error  // the cause; may be nil
}

// Error is "file: at byte N: field: message", leaving out what is unknown. The
// hint is apart, for the edge to print on a line of its own. Every part may
// quote a file, and is made [Visible].
func (e *FormatError) Error() string {
	var b strings.Builder
	if e.File != "" {
		fmt.Fprintf(&b, "%s: ", Visible(e.File))
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, "at byte %d: ", e.Offset)
	}
	if e.Field != "" {
		fmt.Fprintf(&b, "%s: ", Visible(e.Field))
	}
	b.WriteString(Visible(e.Msg))
	// The sentinel is for programs; the message says it in words.
	if e.Err != nil && !errors.Is(e.Err, ErrNotThisFormat) {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap is the cause.
func (e *FormatError) Unwrap() error { return e.Err }

// AtByte is a [FormatError] at an offset.
func AtByte(file string, offset int64, format string, args ...any) *FormatError {
	return &FormatError{File: file, Offset: offset, Msg: fmt.Sprintf(format, args...)}
}

// InField is a [FormatError] about a named field.
func InField(file, field, format string, args ...any) *FormatError {
	return &FormatError{File: file, Offset: -1, Field: field, Msg: fmt.Sprintf(format, args...)}
}

// WithHint is the same error with a hint.
func (e *FormatError) WithHint(format string, args ...any) *FormatError {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// FileError is a file that the system would not open, read or write.
type FileError struct {
	File string
	Err  error // what the system said, without the name of the call
}

// Error is "file: what the system said".
func (e *FileError) Error() string { return Visible(e.File) + ": " + e.Err.Error() }

// Unwrap is what the system said.
func (e *FileError) Unwrap() error { return e.Err }

// OfFile is an error of the system as a [*FileError] about that file: the
// system call and the path that it was given are taken out. It is nil for nil.
func OfFile(file string, err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &path):
		err = path.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return &FileError{File: file, Err: err}
}
