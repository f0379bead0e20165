package enginelog

import (
	"fmt"
	"strings"
	"unicode"

	"floodmark/account"
)

// faultReader finds the first error of a text that is not about memory: what
// comes after it in a failed start is told by other processes of its end.
type faultReader struct {
	text string // "AssertionError: 151936 is not divisible by 5"
	line int
}

// longestFault is how much of an error's text is kept.
const longestFault = 300

// take looks for the line that ends a traceback: the name of an exception's
// class, and what it says.
func (f *faultReader) take(l line) {
	if f.line > 0 {
		return
	}
	for _, end := range []string{"Error: ", "Exception: "} {
		at := strings.Index(l.text, end)
		if at < 0 {
			continue
		}
		begin := 1 + strings.LastIndexFunc(l.text[:at], func(r rune) bool { return r != '.' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
		said := strings.TrimSpace(l.text[at+len(end):])
		if begin > 0 && l.text[begin-1] != ' ' || said == "" || aboutMemory(l.text[begin:]) || gotOver(l.text[:begin]) {
			continue
		}
		f.text, f.line = l.text[begin:at+len(end)]+said, l.number
		if cut := []rune(f.text); len(cut) > longestFault {
			f.text = string(cut[:longestFault]) + "…"
		}
		return
	}
}

// gotOver reports what stands before an error at a level at which a program tells
// what did not stop it: vLLM prints whole tracebacks so.
func gotOver(prefix string) bool {
	for _, level := range []string{"DEBUG", "INFO", "WARN", "WARNING"} {
		for _, end := range []string{" ", ":", "]"} {
			if strings.Contains(prefix, level+end) {
				return true
			}
		}
	}
	return false
}

// aboutMemory reports an error that the readers of failures tell more of.
func aboutMemory(text string) bool {
	text = strings.ToLower(text)
	return strings.Contains(text, "memory") || strings.Contains(text, "cuda error") || strings.Contains(text, "nccl")
}

// warning is the error, where a text tells of no failure for memory.
func (f *faultReader) warning() []account.Warning {
	if f.line == 0 {
		return nil
	}
	return []account.Warning{{Code: "other_error", Text: fmt.Sprintf("the first error of the text is not about memory: %s (line %d)", f.text, f.line)}}
}
