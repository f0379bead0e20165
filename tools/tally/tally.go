package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
)

// event is one line of `go test -json`, as `go doc test2json` describes it.
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build-output and build-fail
	FailedBuild string // of a package that failed: what did not build
	Test        string
	Output      string
}

// outcome of one check, in the ledger's words.
type outcome string

const (
	passed  outcome = "pass"
	failed  outcome = "fail"
	skipped outcome = "skip"
)

// entry is one line of the ledger.
type entry struct {
	outcome outcome
	name    string // package and test
	reason  string // of a skip
}

// run is a test that has begun and not ended.
type run struct {
	pkg    string
	output strings.Builder
}

// tally counts the events of all packages.
type tally struct {
	out       io.Writer
	maySkip   *regexp.Regexp
	entries   []entry
	running   map[string]*run // by package and test
	remarks   map[string]*run // what a package printed outside its tests, or its build
	broken    map[string]bool // packages in which a test failed
	perParent map[string]int  // tests ended, by package
	seen      int
}

func newTally(out io.Writer, maySkip *regexp.Regexp) *tally {
	return &tally{
		out: out, maySkip: maySkip,
		running: map[string]*run{}, remarks: map[string]*run{},
		broken: map[string]bool{}, perParent: map[string]int{},
	}
}

// read takes events until the stream ends. A line that is no event is shown as
// it is: the go command prints some of its own errors so.
func (t *tally) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil && e.Action != "" {
				t.seen++
				t.take(e)
			} else {
				fmt.Fprintf(t.out, "%s\n", strings.TrimRight(string(line), "\n"))
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading test events: %w", err)
		}
	}
}

func (t *tally) take(e event) {
	switch e.Action {
	case "build-output":
		buffer(t.remarks, packageOf(e.ImportPath)).WriteString(e.Output)
	case "run":
		t.running[key(e)] = &run{pkg: e.Package}
	case "output":
		if r := t.running[key(e)]; e.Test != "" && r != nil {
			r.output.WriteString(e.Output)
		} else {
			buffer(t.remarks, e.Package).WriteString(e.Output)
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			t.endPackage(e)
		} else {
			t.endTest(e)
		}
	}
}

func (t *tally) endTest(e event) {
	r := t.running[key(e)]
	if r == nil {
		r = &run{}
	}
	delete(t.running, key(e))
	t.perParent[e.Package]++
	name := e.Package + "." + e.Test
	switch {
	case e.Action == "pass":
		t.add(passed, name, "")
	case e.Action == "skip" && t.maySkip.MatchString(e.Test):
		t.add(skipped, name, reason(r.output.String()))
	case e.Action == "skip":
		t.fail(e.Package, name, r.output.String()+"a test may not be skipped, unless it needs the oracles\n")
	default:
		t.fail(e.Package, name, r.output.String())
	}
}

// endPackage closes what a crash left open: a test without an end failed, and
// so did a package that failed although none of its tests did (it did not
// build, or its process died).
func (t *tally) endPackage(e event) {
	for _, k := range t.openIn(e.Package) {
		r := t.running[k]
		delete(t.running, k)
		t.fail(e.Package, k, r.output.String()+"it did not end\n")
	}
	remark := t.remark(e.Package)
	if broken := packageOf(e.FailedBuild); broken != e.Package {
		remark = t.remark(broken) + remark
	}
	switch {
	case e.Action == "fail" && !t.broken[e.Package]:
		t.fail(e.Package, e.Package, remark)
	case e.Action == "fail":
		fmt.Fprintf(t.out, "FAIL  %s\n", e.Package)
	case e.Action == "pass":
		fmt.Fprintf(t.out, "ok    %s: %d\n", e.Package, t.perParent[e.Package])
	}
}

func (t *tally) remark(pkg string) string {
	if r := t.remarks[pkg]; r != nil {
		return r.output.String()
	}
	return ""
}

func (t *tally) openIn(pkg string) []string {
	var open []string
	for k, r := range t.running {
		if r.pkg == pkg {
			open = append(open, k)
		}
	}
	slices.Sort(open)
	return open
}

func (t *tally) fail(pkg, name, output string) {
	t.broken[pkg] = true
	t.add(failed, name, "")
	fmt.Fprintf(t.out, "FAIL  %s\n%s", name, indent(output))
}

func (t *tally) add(o outcome, name, why string) {
	t.entries = append(t.entries, entry{o, name, why})
}

// count is how many checks ended so.
func (t *tally) count(o outcome) int {
	n := 0
	for _, e := range t.entries {
		if e.outcome == o {
			n++
		}
	}
	return n
}

func key(e event) string { return e.Package + "." + e.Test }

// packageOf takes the variant off an import path: "p [p.test]" is built for p.
func packageOf(importPath string) string {
	p, _, _ := strings.Cut(importPath, " ")
	return strings.TrimSuffix(p, ".test")
}

func buffer(m map[string]*run, name string) *strings.Builder {
	if m[name] == nil {
		m[name] = &run{}
	}
	return &m[name].output
}

// reason is what the test said when it skipped: the last line that is not the
// test framework's own.
func reason(output string) string {
	last := ""
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "---") && !strings.HasPrefix(line, "===") {
			last = line
		}
	}
	if _, text, ok := strings.Cut(last, ".go:"); ok {
		if _, text, ok = strings.Cut(text, ": "); ok {
			return text
		}
	}
	return last
}

func indent(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		b.WriteString("      " + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String()
}
