package enginelog

import "strings"

// place is where a number stands in squashed text: right between two literals,
// of which one may be empty.
type place struct{ before, after string }

// match is a number that was found. Its bounds take in the literals, and its sign.
type match struct {
	number, unit string
	at, end      int
	negative     bool
}

// find is the first number in a place, from an offset on. Each occurrence of
// the longer literal is looked at once.
func (p place) find(text string, from int, read shape) (match, bool) {
	byEnd := len(p.after) > len(p.before)
	literal := p.before
	if byEnd {
		literal = p.after
	}
	for {
		i := strings.Index(text[from:], literal)
		if i < 0 {
			return match{}, false
		}
		at := from + i
		from = at + len(literal)
		var m match
		var ok bool
		if byEnd {
			m, ok = read.until(text, at)
			ok = ok && strings.HasSuffix(text[:m.at], p.before)
		} else {
			m, ok = read.since(text, from)
			ok = ok && strings.HasPrefix(text[m.end:], p.after)
		}
		if ok {
			m.at, m.end = m.at-len(p.before), m.end+len(p.after)
			return m, true
		}
	}
}

// shape is how a number looks once white space is taken out.
type shape int8

const (
	sized  shape = iota // "20.00MiB", "0bytes"
	count               // "20971520"
	signed              // "-5.50GiB" too: what an engine prints where more is in use than there was
)

// A number has no more digits than these, before and after its point.
const mostDigits, mostDecimals = 24, 6

// since reads the number that begins at an offset.
func (s shape) since(text string, at int) (match, bool) {
	if s == signed && strings.HasPrefix(text[at:], "-") {
		m, ok := sized.since(text, at+1)
		m.at, m.negative = at, true
		return m, ok
	}
	end := digitsFrom(text, at, mostDigits)
	if end == at {
		return match{}, false
	}
	if s == count {
		return match{number: text[at:end], unit: "bytes", at: at, end: end}, true
	}
	if end < len(text) && text[end] == '.' {
		if more := digitsFrom(text, end+1, mostDecimals); more > end+1 {
			end = more
		}
	}
	n := unitAt(text[end:])
	return match{number: text[at:end], unit: text[end : end+n], at: at, end: end + n}, n > 0
}

// until reads the number that ends at an offset. The last digits of what is no
// number of this shape ("1e308MiB", and "-5.50GiB" where nothing can be less than
// nothing) are not one.
func (s shape) until(text string, end int) (match, bool) {
	m, ok := s.last(text, end)
	if !ok || goesOn(text[:m.at]) {
		return match{}, false
	}
	if strings.HasSuffix(text[:m.at], "-") {
		m.at, m.negative = m.at-1, true
	}
	return m, s == signed || !m.negative
}

// goesOn reports whether a number that follows a text began in it.
func goesOn(before string) bool {
	n := len(before)
	switch {
	case n == 0:
		return false
	case digit(before[n-1]):
		return true
	case n > 2 && (before[n-1] == '-' || before[n-1] == '+') && (before[n-2] == 'e' || before[n-2] == 'E'):
		return digit(before[n-3])
	}
	return n > 1 && strings.IndexByte(".eE", before[n-1]) >= 0 && digit(before[n-2])
}

// last reads the digits and the unit that end at an offset.
func (s shape) last(text string, end int) (match, bool) {
	n := 0
	if s != count {
		if n = unitBefore(text[:end]); n == 0 {
			return match{}, false
		}
	}
	last := end - n
	at := digitsUntil(text, last, mostDigits)
	if at == last {
		return match{}, false
	}
	if s == count {
		return match{number: text[at:last], unit: "bytes", at: at, end: end}, true
	}
	if at > 0 && text[at-1] == '.' && last-at <= mostDecimals {
		if more := digitsUntil(text, at-1, mostDigits); more < at-1 {
			at = more
		}
	}
	return match{number: text[at:last], unit: text[last:end], at: at, end: end}, true
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

func digitsFrom(text string, at, most int) int {
	end := at
	for end < len(text) && end-at < most && digit(text[end]) {
		end++
	}
	return end
}

func digitsUntil(text string, end, most int) int {
	at := end
	for at > 0 && end-at < most && digit(text[at-1]) {
		at--
	}
	return at
}

// unitAt is the length of the unit that a text begins with.
func unitAt(text string) int {
	switch {
	case strings.HasPrefix(text, "bytes"):
		return len("bytes")
	case text == "" || !strings.Contains("KMG", text[:1]):
		return 0
	case strings.HasPrefix(text[1:], "iB"):
		return len("KiB")
	case strings.HasPrefix(text[1:], "B"):
		return len("KB")
	}
	return 0
}

// unitBefore is the length of the unit that a text ends with.
func unitBefore(text string) int {
	for n := len("KB"); n <= len("bytes"); n++ {
		if n <= len(text) && unitAt(text[len(text)-n:]) == n {
			return n
		}
	}
	return 0
}
