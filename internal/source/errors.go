package source

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
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
// hint is apart, for the edge to print on a line of its own. Field and message
// may quote the file, so control characters in them, which could rewrite a
// terminal, are escaped as Go does.
func (e *FormatError) Error() string {
	var b strings.Builder
	if e.File != "" {
		fmt.Fprintf(&b, "%s: ", e.File)
	}
	if e.Offset >= 0 {
		fmt.Fprintf(&b, "at byte %d: ", e.Offset)
	}
	if e.Field != "" {
		fmt.Fprintf(&b, "%s: ", visible(e.Field))
	}
	b.WriteString(visible(e.Msg))
	// The sentinel is for programs; the message says it in words.
	if e.Err != nil && !errors.Is(e.Err, ErrNotThisFormat) {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// visible escapes what is not meant to be seen: control characters, and the
// marks that turn the direction of text around.
func visible(text string) string {
	hidden := func(r rune) bool { return unicode.Is(unicode.C, r) }
	if strings.IndexFunc(text, hidden) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if hidden(r) {
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		b.WriteRune(r)
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
