package source

import (
	"errors"
	"fmt"
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
// hint is apart, for the edge to print on a line of its own.
func (e *FormatError) Error() string {
	var b strings.Builder
	if e.File != "" {
		fmt.Fprintf(&b, "%s: ", e.File)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, "at byte %d: ", e.Offset)
	}
	if e.Field != "" {
		fmt.Fprintf(&b, "%s: ", e.Field)
	}
	b.WriteString(e.Msg)
	if e.Err != nil {
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
