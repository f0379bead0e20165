package internal_test

import (
	"fmt"
	"strings"
	"testing"
)

// A rule that cannot fail is worth nothing: each of these files breaks one, or
// shows what a rule leaves alone.
func TestHouseBreaches(t *testing.T) {
	for _, c := range []struct {
		name, path, text string
		want             string // part of the only breach; "" for none
	}{
		{"func init", "p/p.go", "package p\nfunc init() {}\n", "func init"},
		{"a method may be called init", "p/p.go", "package p\ntype t int\nfunc (t) init() {}\n", ""},
		{"a variable", "p/p.go", "package p\nvar table = map[string]int{}\n", "package variable table"},
		{"a variable without a value", "p/p.go", "package p\nvar n int\n", "package variable n"},
		{"the second of a list", "p/p.go", "package p\nvar (\n\terrA = errors.New(\"a\")\n\tn = 1\n)\n", "package variable n"},
		{"a sentinel error", "p/p.go", "package p\nvar errA, errB = errors.New(\"a\"), fmt.Errorf(\"b\")\n", ""},
		{"an error by another name", "p/p.go", "package p\nvar broken = errors.New(\"a\")\n", "package variable broken"},
		{"a compiled pattern", "p/p.go", "package p\nvar word = regexp.MustCompile(`a`)\n", ""},
		{"a pattern that is compiled on first use", "p/p.go", "package p\nvar word = pattern(`a`)\n", ""},
		{"the value of another function", "p/p.go", "package p\nvar word = table()\n", "package variable word"},
		{"an embedded file", "p/p.go", "package p\n//go:embed a.json\nvar a []byte\n", ""},
		{"an embedded file in a list", "p/p.go", "package p\nvar (\n\t//go:embed a.json\n\ta []byte\n)\n", ""},
		{"an interface assertion", "p/p.go", "package p\nvar _ I = (*t)(nil)\n", ""},
		{"a call thrown away", "p/p.go", "package p\nvar _ = register()\n", "package variable _"},
		{"tests may have variables", "p/p_test.go", "package p\nvar update = flag.Bool(\"update\", false, \"\")\n", ""},

		{"printing", "p/p.go", "package p\nfunc f() { fmt.Println(1) }\n", "fmt.Println"},
		{"standard error", "p/p.go", "package p\nfunc f() { g(os.Stderr) }\n", "os.Stderr"},
		{"the end of the process", "internal/source/p.go", "package p\nfunc f() { os.Exit(1) }\n", "os.Exit"},
		{"writing to whom it may concern", "p/p.go", "package p\nfunc f(w io.Writer) { fmt.Fprintln(w, 1) }\n", ""},
		{"printing at the edge", "internal/cli/p.go", "package p\nfunc f() { fmt.Println(1) }\n", ""},

		{"an exported function", "p/p.go", "package p\nfunc F() {}\n", "exported F"},
		{"with a comment on something else", "p/p.go", "package p\n// Does it.\nfunc F() {}\n", "exported F"},
		{"with a longer name in its comment", "p/p.go", "package p\n// Fast does it.\nfunc F() {}\n", "exported F"},
		{"with its comment", "p/p.go", "package p\n// F does it.\nfunc F() {}\n", ""},
		{"an exported method", "p/p.go", "package p\n// T is one.\ntype T[A any] struct{}\nfunc (*T[A]) M() {}\n", "exported M"},
		{"a method of an unexported type", "p/p.go", "package p\ntype t int\nfunc (t) M() {}\n", ""},
		{"an exported type", "p/p.go", "package p\ntype T int\n", "exported T"},
		{"a type in a list with one comment for all", "p/p.go", "package p\n// T is in this list.\ntype (\n\tT int\n)\n", "exported T"},
		{"a constant alone", "p/p.go", "package p\nconst C = 1\n", "exported C"},
		{"a constant in a list", "p/p.go", "package p\nconst (\n\tC = 1\n)\n", "exported C"},
		{"a list with a comment", "p/p.go", "package p\n// These are two.\nconst (\n\tC = 1\n\tD = 2\n)\n", ""},
		{"a comment at the end of the line", "p/p.go", "package p\nconst (\n\tC = 1 // one\n)\n", ""},
		{"an enumeration is explained by its type", "p/p.go", "package p\n// T is one of two.\ntype T int\nconst (\n\tC T = iota\n\tD\n)\n", ""},
		{"internal packages need no comments", "internal/p/p.go", "package p\nfunc F() {}\n", ""},

		{"a package of odds and ends", "fsutil/p.go", "package fsutil\n", "not called util"},
		{"its folder", "helpers/p.go", "package p\n", "not called helper"},
		{"a long file", "p/p.go", "package p\n" + strings.Repeat("\n", mostLines), "501 lines"},
		{"a file of the right length", "p/p.go", "package p\n" + strings.Repeat("\n", mostLines-1), ""},
		{"a long function", "p/p.go", "package p\nfunc f() {" + strings.Repeat("\n", mostLinesFunction) + "}\n", "f has 81 lines"},
		{"a long test", "p/p_test.go", "package p\nfunc TestF() {" + strings.Repeat("\n", mostLinesFunction) + "}\n", ""},
	} {
		got := breaches(parse(t, c.path, []byte(c.text)))
		if c.want == "" && len(got) > 0 || c.want != "" && (len(got) != 1 || !strings.Contains(got[0], c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestUndocumentedPackages(t *testing.T) {
	for _, c := range []struct {
		name, path, text string
		documented       bool
	}{
		{"a comment in doc.go", "p/doc.go", "// Package p is one.\npackage p\n", true},
		{"in another file", "p/p.go", "// Package p is one.\npackage p\n", false},
		{"on another package", "p/doc.go", "// Package q is one.\npackage p\n", false},
		{"apart from the clause", "p/doc.go", "// Package p is one.\n\npackage p\n", false},
		{"a program", "cmd/p/doc.go", "// Command p does it.\npackage main\n", true},
		{"a folder of tests only", "p/p_test.go", "package p_test\n", true},
	} {
		got := undocumentedPackages([]*file{parse(t, c.path, []byte(c.text))})
		if (len(got) == 0) != c.documented {
			t.Errorf("%s: %q, want documented %v", c.name, got, c.documented)
		}
	}
}

func TestIgnoredFilesBelongToNoPackage(t *testing.T) {
	for text, want := range map[string]bool{
		"//go:build ignore\n\npackage main\n":          true,
		"//go:build linux\n\npackage p\n":              false,
		"//go:build ignore && linux\n\npackage p\n":    false,
		"package p\n\nconst s = `\n//go:build ignore`": false,
	} {
		if got := ignored(parse(t, "p/p.go", []byte(text))); got != want {
			t.Errorf("%s: ignored %v, want %v", fmt.Sprintf("%.30q", text), got, want)
		}
	}
}
