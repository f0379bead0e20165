package aliases

import (
	"fmt"
	"strings"
	"testing"
)

// nested is aliases of aliases: nine times more values with each line.
func nested(kind string) string {
	var b strings.Builder
	b.WriteString("a: &a [x, x, x, x, x, x, x, x, x]\n")
	for at := 'b'; at <= 'z'; at++ {
		if kind == "map" {
			fmt.Fprintf(&b, "%c: &%c {p: *%c, q: *%c, r: *%c}\n", at, at, at-1, at-1, at-1)
		} else {
			fmt.Fprintf(&b, "%c: &%c [%s*%c]\n", at, at, strings.Repeat(fmt.Sprintf("*%c, ", at-1), 8), at-1)
		}
	}
	return b.String()
}

func TestCheck(t *testing.T) {
	for name, text := range map[string]string{"lists": nested("list"), "tables": nested("map")} {
		if err := Check([]byte(text)); err == nil {
			t.Errorf("%s: not refused", name)
		}
	}
	for _, tag := range []string{"!!binary", "!!python/object:a.b", "!!python/tuple", "!include"} {
		if err := Check([]byte("a: [1, " + tag + " x]\n")); err == nil || !strings.Contains(err.Error(), tag) {
			t.Errorf("%s: %v", tag, err)
		}
	}
	for name, text := range map[string]string{
		"a common part, merged": "x-common: &common {image: vllm/vllm-openai, shm_size: 16gb}\nservices:\n  a: {<<: *common}\n  b: {<<: *common}\n",
		"plain tags":            "a: !!float 3\nb: !!str 4\nc: !!seq [!!int 1]\n",
		"no alias, many values": "a: [" + strings.Repeat("x, ", 2*Most) + "x]\n",
		"no YAML":               "a: [",
		"an unknown anchor":     "a: *b\n",
		"a word with a star":    "a: '*b'\nb: 2 * 3\n",
		"nothing":               "",
	} {
		if err := Check([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The bound is never below the nesting: quotes that hold a bracket hide no indentation.
func TestDepth(t *testing.T) {
	for text, least := range map[string]int{
		"a: 1\n":                       0,
		"a:\n  b:\n    c: 1\n":         2,
		"a: [[[1]]]\n":                 3,
		"a: '['\nb:\n  c:\n    d: 1\n": 2,
		`{"a": {"b": [1]}}`:            3,
	} {
		if got := Depth([]byte(text)); got < least || got > least+2 {
			t.Errorf("%q: %d, want %d", text, got, least)
		}
	}
}
