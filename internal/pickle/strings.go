package pickle

import "strings"

// Strings is a table of distinct strings.
type Strings struct {
	texts  []string
	index  map[string]uint32
	recent [64]uint32 // by length and last byte: fresh copies of one string follow one another
}

// NewStrings is a table that holds "" at index 0.
func NewStrings() *Strings {
	return &Strings{texts: []string{""}, index: map[string]uint32{"": 0}}
}

// Intern gives the index of a string, entering it when it is new. Bytes that
// are not UTF-8 read back as U+FFFD.
func (s *Strings) Intern(text []byte) uint32 {
	if len(text) == 0 {
		return 0
	}
	recent := &s.recent[(len(text)<<3^int(text[len(text)-1]))%len(s.recent)]
	if s.texts[*recent] == string(text) {
		return *recent
	}
	if i, ok := s.index[string(text)]; ok {
		*recent = i
		return i
	}
	i := uint32(len(s.texts))
	key := string(text)
	s.index[key] = i
	s.texts = append(s.texts, strings.ToValidUTF8(key, "\uFFFD"))
	return i
}

// At is the string with that index; "" when there is none.
func (s *Strings) At(i uint32) string {
	if int(i) >= len(s.texts) {
		return ""
	}
	return s.texts[i]
}

// Len is the number of distinct strings.
func (s *Strings) Len() int { return len(s.texts) }

// All is the table, by index. It is not to be changed.
func (s *Strings) All() []string { return s.texts }
