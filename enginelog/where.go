package enginelog

import (
	"strconv"
	"strings"
	"unicode"
)

// Where is the line of a program that was running when memory ran out, as a
// Python traceback shows it. The zero value is none.
type Where struct {
	File     string
	Line     int
	Function string // may be empty
	Code     string // the source line; empty where the traceback shows none
}

// reach is how many lines a failure may come after the frame that it is said of:
// other ranks write in between.
const reach = 64

// tracer follows the tracebacks of a text, those of each writer apart.
type tracer struct {
	writers    map[string]*trace
	pending    int // writers whose next line is a frame's source
	understood int // lines that were part of a traceback
}

// trace is the traceback of one writer, as far as it goes.
type trace struct {
	where   Where
	rank    int // of the code that where is of: the user's own is the highest
	line    int // of the last frame
	current *Where
	awaits  bool // the next line may be the last frame's source
}

// take takes the next line of a text.
func (t *tracer) take(l line) {
	if !l.starts {
		return
	}
	frame, begins := strings.Contains(l.text, `File "`), heading(l.text)
	if !frame && !begins && t.pending == 0 {
		if marks(l.text) {
			t.understood++
		}
		return
	}
	by, text := prefix(l.text)
	w := t.writer(by.name)
	switch {
	case begins:
		t.forget(w)
		t.understood++
	case frame:
		t.frame(w, text, l.number)
	case w.awaits:
		t.source(w, text)
	}
}

// heading reports the lines that stand before and between tracebacks.
func heading(text string) bool {
	for _, h := range []string{"Traceback (most recent call last)", "During handling of the above exception", "The above exception was the direct cause"} {
		if strings.Contains(text, h) {
			return true
		}
	}
	return false
}

// marks reports a line of carets under a source line, or one that stands for
// equal frames.
func marks(text string) bool {
	if strings.Contains(text, "[Previous line repeated ") {
		return true
	}
	if !strings.HasSuffix(text, "^") && !strings.HasSuffix(text, "~") {
		return false
	}
	_, text = prefix(text)
	return strings.Trim(text, "^~ ") == ""
}

// writer is the traceback of a line's writer. Beyond a bound, what was known of
// the others is forgotten.
func (t *tracer) writer(name string) *trace {
	if t.writers[name] == nil {
		if t.writers == nil || len(t.writers) >= mostWriters {
			t.writers, t.pending = map[string]*trace{}, 0
		}
		t.writers[name] = &trace{}
	}
	return t.writers[name]
}

func (t *tracer) frame(w *trace, text string, number int) {
	where, ok := frame(text)
	if !ok {
		return
	}
	t.understood++
	w.line, w.current = number, nil
	if rank := owner(where.File); w.where.File == "" || rank >= w.rank {
		w.where, w.rank = where, rank
		w.current = &w.where
	}
	if !w.awaits {
		w.awaits = true
		t.pending++
	}
}

// frame reads a line of a traceback, without its indent, as Python's traceback
// module prints it.
func frame(text string) (Where, bool) {
	text, opens := strings.CutPrefix(text, `File "`)
	file, text, closes := strings.Cut(text, `", line `)
	n := digitsFrom(text, 0, 9)
	if !opens || !closes || file == "" || n == 0 {
		return Where{}, false
	}
	line, _ := strconv.Atoi(text[:n])
	function, _ := strings.CutPrefix(text[n:], ", in ")
	if len(function) == len(text[n:]) {
		function = ""
	}
	return Where{File: short(file), Line: line, Function: short(function)}, true
}

// exception reports a line that begins with the name of an exception.
func exception(text string) bool {
	name := text[:len(text)-len(strings.TrimLeftFunc(text, func(r rune) bool {
		return r == '.' || r == '_' || r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r))
	}))]
	for part := range strings.SplitSeq(name, ".") {
		for _, kind := range [...]string{"Error", "Exception", "Interrupt", "Exit", "Warning"} {
			if strings.HasSuffix(part, kind) {
				return true
			}
		}
	}
	return false
}

// source takes the line after a frame, unless it is already the exception.
func (t *tracer) source(w *trace, text string) {
	w.awaits = false
	t.pending--
	text = short(text)
	if text == "" || exception(text) {
		return
	}
	t.understood++
	if w.current != nil {
		w.current.Code = text
	}
}

// short is a text without its margins, no longer than a line of code is.
func short(text string) string {
	const most = 500
	text = strings.TrimSpace(text)
	return strings.ToValidUTF8(text[:min(len(text), most)], "")
}

func (t *tracer) forget(w *trace) {
	if w.awaits {
		t.pending--
	}
	*w = trace{}
}

// at is where a failure happened that is told in a line; it is said once.
func (t *tracer) at(name string, number int) Where {
	w := t.writers[name]
	if w == nil || w.where.File == "" || number-w.line > reach {
		return Where{}
	}
	where := w.where
	t.forget(w)
	return where
}

// owner ranks a file by how near it is to the user: 2 is their own code, 1 an
// installed package, 0 PyTorch or Python itself.
func owner(file string) int {
	file = strings.ReplaceAll(file, `\`, "/")
	_, inside, packaged := strings.Cut(file, "-packages/")
	switch {
	case packaged && strings.HasPrefix(inside, "torch/"), strings.HasPrefix(file, "<"):
		return 0
	case packaged:
		return 1
	case strings.Contains(file, "/lib/python3"), strings.Contains(file, "/Lib/"):
		return 0
	}
	return 2
}
