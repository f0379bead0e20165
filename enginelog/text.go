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
	clean := 0
	for clean < len(data) && data[clean] >= 0x20 && data[clean] != 0x7f {
		clean++
	}
	if clean == len(data) {
		return string(data)
	}
	var b strings.Builder
	b.Grow(len(data))
	b.Write(data[:clean])
	for i := clean; i < len(data); i++ {
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

// Prefixes that say who wrote a line, and those that do not. They are those of
// torchrun and of PyTorch's excepthook, of mpirun --tag-output, of vLLM's and
// Ray's workers, and the usual time stamps and logging levels.
var (
	rankPrefix  = pattern(`^\[(?:rank|default)(\d{1,9})\]:?`)
	mpiPrefix   = pattern(`^\[\d{1,9},(\d{1,9})\]<std(?:out|err)>:`)
	srunPrefix  = pattern(`^(\d{1,6}): `)
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
	switch c := text[0]; {
	case c == '(':
		return w.takeProcess(text)
	case c == '[':
		if n := w.takeRank(text, rankPrefix(), mpiPrefix()); n > 0 {
			return n
		}
		return noise(text, stampPrefix(), filePrefix(), glogPrefix())
	case digit(c):
		if n := w.takeRank(text, srunPrefix()); n > 0 {
			return n
		}
		return noise(text, stampPrefix(), shortStamp())
	}
	return noise(text, levelPrefix())
}

// takeProcess reads a prefix that gives a process, as "(Worker_TP0 pid=518)",
// with a rank before or an address after it.
func (w *writer) takeProcess(text string) int {
	end := strings.IndexByte(text[:min(len(text), 200)], ')')
	if end < 0 {
		return 0
	}
	name, rest, found := strings.Cut(text[1:end], "pid=")
	n := digitsFrom(rest, 0, 18)
	if !found || n == 0 {
		return 0
	}
	name, rank, _ := strings.Cut(name, "rank=")
	name = strings.TrimRight(name, " ")
	if strings.IndexByte(name, ' ') >= 0 {
		return 0
	}
	w.name += name + "/" + rest[:n]
	w.pid, _ = strconv.ParseInt(rest[:n], 10, 64)
	w.setRank(strings.TrimRight(rank, " "))
	return end + 1
}

// takeRank reads a prefix that gives a rank.
func (w *writer) takeRank(text string, forms ...*regexp.Regexp) int {
	for _, form := range forms {
		if m := form.FindStringSubmatch(text); m != nil {
			w.name += "rank" + m[1]
			w.setRank(m[1])
			return len(m[0])
		}
	}
	return 0
}

// noise is the length of a prefix that says nothing of who wrote.
func noise(text string, forms ...*regexp.Regexp) int {
	for _, form := range forms {
		if m := form.FindString(text); m != "" {
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
