package enginelog

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
)

// writer is who wrote a line, as its prefix says.
type writer struct {
	name string // "rank4", "EngineCore_DP0"; empty without a prefix
	rank int    // −1 when the prefix does not say
	pid  int64  // 0 when the prefix does not say
	bare bool   // the line has no prefix at all: it may go on with the one before
}

// plain takes colours and control characters out of a line. Dropping NUL bytes
// also makes the ASCII part of UTF-16 readable, which PowerShell writes.
func plain(data []byte) string {
	data = bytes.TrimRight(data, "\r\n")
	if !bytes.ContainsFunc(data, func(r rune) bool { return r < 0x20 || r == 0x7f }) {
		return string(data)
	}
	var b strings.Builder
	b.Grow(len(data))
	for i := 0; i < len(data); i++ {
		switch c := data[i]; {
		case c == 0x1b:
			i += escape(data[i+1:])
		case c == '\t':
			b.WriteByte(' ')
		case c >= 0x20 && c != 0x7f:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// escape is how many bytes of a terminal's control sequence follow its ESC
// (ECMA-48: a bracket, parameters, and a final byte from @ to ~).
func escape(rest []byte) int {
	if len(rest) == 0 {
		return 0
	}
	if rest[0] != '[' {
		return 1
	}
	for i, c := range rest[1:min(len(rest), 64)] {
		if c >= '@' && c <= '~' {
			return i + 2
		}
	}
	return 1
}

// words splits a text at white space, at the borders of boxed tracebacks, and
// at escaped line ends.
func words(text string) []string {
	if strings.Contains(text, `\n`) {
		text = strings.ReplaceAll(text, `\n`, " ")
	}
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '\u00a0' || r == '│' })
}

// squash joins the words of a text. What a terminal wrapped, even inside a
// word, is whole again when squashed lines are joined.
func squash(text string) string { return strings.Join(words(text), "") }

// spaced gives a squashed text, up to an offset, its spaces back, from the
// lines that it came from.
func spaced(starts []start, end int) string {
	var b strings.Builder
	length := 0
	for _, s := range starts {
		skip := s.skip
		for _, w := range words(s.raw) {
			n := min(skip, len(w))
			w, skip = w[n:], skip-n
			w = w[:min(len(w), end-length)]
			if w == "" {
				continue
			}
			if length > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(w)
			length += len(w)
		}
	}
	return b.String()
}

// Prefixes that say who wrote a line, and those that do not. They are those of
// torchrun and of PyTorch's excepthook, of mpirun --tag-output, of vLLM's and
// Ray's workers, and the usual time stamps and logging levels.
var (
	rankPrefix  = pattern(`^\[(?:rank|default)(\d{1,9})\]:?`)
	mpiPrefix   = pattern(`^\[\d{1,9},(\d{1,9})\]<std(?:out|err)>:`)
	srunPrefix  = pattern(`^(\d{1,6}): `)
	pidPrefix   = pattern(`^\((?:([A-Za-z_][\w:.]{0,80}) )?(?:rank=(\d{1,9}) )?pid=(\d{1,18})[^)]{0,80}\)`)
	stampPrefix = pattern(`^\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d[.,\d]*(?:Z|[+-]\d\d:?\d\d)?\]?:?`)
	levelPrefix = pattern(`^(?:ERROR|WARNING|WARN|INFO|CRITICAL|DEBUG) `)
	shortStamp  = pattern(`^\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)? `)
	filePrefix  = pattern(`^\[[\w./-]{1,120}\.(?:py|cpp|cc|cu):\d+\]`)
	glogPrefix  = pattern(`^\[[A-Z]\d{3,4} \d\d:\d\d:\d\d[.\d]* [\w./]{1,120}:\d+\]`)
)

// prefix takes apart what stands before the message of a line.
func prefix(text string) (writer, string) {
	by := writer{rank: -1, bare: true}
	for range 8 {
		text = strings.TrimLeft(text, " ")
		n := by.take(text)
		if n == 0 {
			break
		}
		by.bare = false
		text = text[n:]
	}
	return by, text
}

// take reads one prefix and gives its length.
func (w *writer) take(text string) int {
	if text == "" || !strings.ContainsAny(text[:1], "[(0123456789EWICD") {
		return 0
	}
	if m := pidPrefix().FindStringSubmatch(text); m != nil {
		w.name += m[1] + "/" + m[3]
		w.pid, _ = strconv.ParseInt(m[3], 10, 64)
		w.setRank(m[2])
		return len(m[0])
	}
	for _, ranked := range []*regexp.Regexp{rankPrefix(), mpiPrefix(), srunPrefix()} {
		if m := ranked.FindStringSubmatch(text); m != nil {
			w.name += "rank" + m[1]
			w.setRank(m[1])
			return len(m[0])
		}
	}
	for _, noise := range []*regexp.Regexp{stampPrefix(), levelPrefix(), shortStamp(), filePrefix(), glogPrefix()} {
		if m := noise.FindString(text); m != "" {
			return len(m)
		}
	}
	return 0
}

func (w *writer) setRank(digits string) {
	if n, err := strconv.Atoi(digits); err == nil {
		w.rank = n
	}
}
