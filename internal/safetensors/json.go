package safetensors

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"floodmark/internal/source"
)

// maxDepth bounds the nesting of a value that is skipped. Headers and indexes
// nest three deep.
const maxDepth = 64

// Bounds of what a text may make this program remember. The largest checkpoints
// known list some 200,000 tensors, all files together.
const (
	maxTensors  = 500_000 // in a header or an index
	maxMetadata = 1 << 16 // keys in __metadata__ and metadata
	maxDims     = 64      // PyTorch's own limit (kMaxDim)
)

// scanner walks a JSON text once, from left to right, and holds no tree. Texts
// here have a hundred thousand keys of a fixed form, so each key is a part of
// the text, not a copy. It accepts RFC 8259 and nothing else: no NaN, no
// comments.
type scanner struct {
	file string
	base int64 // the offset in the file of text[0]
	text string
	pos  int
}

// fail is an error at an offset of the text.
func (s *scanner) fail(at int, format string, args ...any) *source.FormatError {
	return source.AtByte(s.file, s.base+int64(at), format, args...)
}

// space moves over white space and returns the byte that follows; 0 at the end.
func (s *scanner) space() byte {
	for s.pos < len(s.text) {
		switch c := s.text[s.pos]; c {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return c
		}
	}
	return 0
}

// take moves over the byte c, after white space.
func (s *scanner) take(c byte) error {
	if got := s.space(); got != c || s.pos >= len(s.text) {
		return s.unexpected(strconv.QuoteRune(rune(c)))
	}
	s.pos++
	return nil
}

// unexpected says what stands at the present position instead of what was
// expected. Two spellings that people really write get their own words.
func (s *scanner) unexpected(expected string) error {
	rest := s.text[s.pos:]
	switch {
	case rest == "":
		return s.fail(s.pos, "the JSON text ends where %s was expected", expected).
			WithHint("the file is cut off: fetch it again")
	case strings.HasPrefix(rest, "//"), strings.HasPrefix(rest, "/*"):
		return s.fail(s.pos, "has a comment, which JSON does not allow; expected %s", expected).
			WithHint("remove the comments from the file")
	case strings.HasPrefix(strings.TrimPrefix(rest, "-"), "NaN"), strings.HasPrefix(strings.TrimPrefix(rest, "-"), "Infinity"):
		return s.fail(s.pos, "has %s, which is not a JSON number; expected %s", word(rest), expected)
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return s.fail(s.pos, "found %q, expected %s", r, expected)
}

// word is the run of letters at the start of a text, with its sign.
func word(text string) string {
	end := 0
	for end < len(text) && (text[end] == '-' || text[end] >= 'A' && text[end] <= 'Z' || text[end] >= 'a' && text[end] <= 'z') {
		end++
	}
	return text[:end]
}

// object walks the members of an object; member must consume each value.
func (s *scanner) object(member func(key string, at int) error) error {
	if err := s.take('{'); err != nil {
		return err
	}
	if s.space() == '}' {
		s.pos++
		return nil
	}
	for {
		s.space()
		at := s.pos
		key, err := s.str()
		if err != nil {
			return err
		}
		if err := s.take(':'); err != nil {
			return err
		}
		if err := member(key, at); err != nil {
			return err
		}
		if s.space() == '}' {
			s.pos++
			return nil
		}
		if s.space() != ',' {
			return s.unexpected("',' or '}'")
		}
		s.pos++
	}
}

// once notes the key of an object, and refuses one that stands twice or is one
// too many.
func (s *scanner) once(seen map[string]struct{}, key string, at, limit int) error {
	before := len(seen)
	seen[key] = struct{}{}
	switch {
	case len(seen) == before:
		return s.fail(at, "the key %q stands twice", clip(key))
	case len(seen) > limit:
		return s.fail(at, "has more than %d keys in one object", limit)
	}
	return nil
}

// array walks the elements of an array; element must consume each value.
func (s *scanner) array(element func() error) error {
	if err := s.take('['); err != nil {
		return err
	}
	if s.space() == ']' {
		s.pos++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		if s.space() == ']' {
			s.pos++
			return nil
		}
		if s.space() != ',' {
			return s.unexpected("',' or ']'")
		}
		s.pos++
	}
}

// str reads a string. Without escapes it is a part of the text.
func (s *scanner) str() (string, error) {
	if s.space() != '"' {
		return "", s.unexpected("a string")
	}
	start := s.pos + 1
	ascii := true
	for i := start; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			s.pos = i + 1
			part := s.text[start:i]
			if !ascii && !utf8.ValidString(part) {
				return "", s.fail(start, "a string is not valid UTF-8")
			}
			return part, nil
		case c == '\\':
			return s.escaped(start, i)
		case c < ' ':
			return "", s.fail(i, "a string holds the control byte 0x%02x, expected an escape", c)
		case c >= utf8.RuneSelf:
			ascii = false
		}
	}
	return "", s.fail(start-1, "a string does not end").WithHint("the file is cut off: fetch it again")
}

// escaped reads on from the first escape of a string into a copy.
func (s *scanner) escaped(start, i int) (string, error) {
	var b strings.Builder
	b.WriteString(s.text[start:i])
	for i < len(s.text) {
		switch c := s.text[i]; {
		case c == '"':
			s.pos = i + 1
			if !utf8.ValidString(b.String()) {
				return "", s.fail(start, "a string is not valid UTF-8")
			}
			return b.String(), nil
		case c == '\\':
			r, width := escape(s.text[i:])
			if width == 0 {
				return "", s.fail(i, "a string has an escape that JSON does not know")
			}
			b.WriteRune(r)
			i += width
		case c < ' ':
			return "", s.fail(i, "a string holds the control byte 0x%02x, expected an escape", c)
		default:
			b.WriteByte(c)
			i++
		}
	}
	return "", s.fail(start-1, "a string does not end").WithHint("the file is cut off: fetch it again")
}

// escape decodes the escape at the start of a text; its width is 0 when it is
// none. A surrogate counts only with its other half.
func escape(text string) (rune, int) {
	if len(text) < 2 {
		return 0, 0
	}
	if at := strings.IndexByte(`"\/bfnrt`, text[1]); at >= 0 {
		return rune("\"\\/\b\f\n\r\t"[at]), 2
	}
	r, ok := hexEscape(text)
	if !ok {
		return 0, 0
	}
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	low, ok := hexEscape(text[6:])
	if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
		return pair, 12
	}
	return 0, 0
}

// hexEscape decodes \uXXXX.
func hexEscape(text string) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(text[2:6], 16, 16)
	return rune(n), err == nil
}

// number reads a JSON number as it is written.
func (s *scanner) number() (string, error) {
	s.space()
	start := s.pos
	i := start
	if i < len(s.text) && s.text[i] == '-' {
		i++
	}
	whole := s.digits(i)
	if whole == i || (s.text[i] == '0' && whole > i+1) {
		return "", s.unexpected("a number")
	}
	i = whole
	if i < len(s.text) && s.text[i] == '.' {
		end := s.digits(i + 1)
		if end == i+1 {
			return "", s.fail(start, "a number ends with its point")
		}
		i = end
	}
	if i < len(s.text) && (s.text[i] == 'e' || s.text[i] == 'E') {
		i++
		if i < len(s.text) && (s.text[i] == '+' || s.text[i] == '-') {
			i++
		}
		end := s.digits(i)
		if end == i {
			return "", s.fail(start, "a number has an exponent without digits")
		}
		i = end
	}
	s.pos = i
	return s.text[start:i], nil
}

// digits is the end of the run of digits that starts at i.
func (s *scanner) digits(i int) int {
	for i < len(s.text) && s.text[i] >= '0' && s.text[i] <= '9' {
		i++
	}
	return i
}

// count reads a whole number from 0 to 2⁶³−1.
func (s *scanner) count() (int64, error) {
	s.space()
	at := s.pos
	text, err := s.number()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || text[0] == '-' {
		return 0, s.fail(at, "%s is not a whole number from 0 to 2⁶³−1", clip(text))
	}
	return n, nil
}

// clip shortens a text from a file for a message.
func clip(text string) string {
	if len(text) > 80 {
		return strings.ToValidUTF8(text[:80], "") + "…"
	}
	return text
}

// skip moves over any value without building it and without recursion: open
// holds the closing bytes that are still due.
func (s *scanner) skip() error {
	var open []byte
	for {
		opened, err := s.token(&open)
		if err != nil {
			return err
		}
		if opened {
			continue
		}
		for len(open) > 0 {
			closing := open[len(open)-1]
			c := s.space()
			if c == ',' {
				s.pos++
				break
			}
			if c != closing {
				return s.unexpected(fmt.Sprintf("',' or %q", closing))
			}
			s.pos++
			open = open[:len(open)-1]
		}
		if len(open) == 0 {
			return nil
		}
		if err := s.key(open); err != nil {
			return err
		}
	}
}

// token moves over one scalar, or opens a container that has something in it.
func (s *scanner) token(open *[]byte) (opened bool, err error) {
	c := s.space()
	switch c {
	case '{', '[':
		closing := c + 2 // '{' and '}', '[' and ']' are two apart in ASCII
		s.pos++
		if s.space() == closing {
			s.pos++
			return false, nil
		}
		if len(*open) == maxDepth {
			return false, s.fail(s.pos, "nests deeper than %d", maxDepth)
		}
		*open = append(*open, closing)
		return true, s.key(*open)
	case '"':
		_, err = s.str()
		return false, err
	}
	for _, literal := range [...]string{"true", "false", "null"} {
		if strings.HasPrefix(s.text[s.pos:], literal) {
			s.pos += len(literal)
			return false, nil
		}
	}
	_, err = s.number()
	return false, err
}

// key moves over a member's key when the innermost container is an object.
func (s *scanner) key(open []byte) error {
	if open[len(open)-1] != '}' {
		return nil
	}
	if _, err := s.str(); err != nil {
		return err
	}
	return s.take(':')
}

// null moves over a null and reports whether there was one.
func (s *scanner) null() bool {
	s.space()
	if strings.HasPrefix(s.text[s.pos:], "null") {
		s.pos += len("null")
		return true
	}
	return false
}
