package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// These tests run the Python file for real, under every interpreter that
// FLOODMARK_TEST_PYTHONS lists (as PATH is written), or the python3 of PATH.
// testdata/fake holds as much of PyTorch as the probe touches, and
// testdata/standin the device below it, which writes down every call.

// pythons are the interpreters to run under.
func pythons(t *testing.T) []string {
	t.Helper()
	if list := os.Getenv("FLOODMARK_TEST_PYTHONS"); list != "" {
		return filepath.SplitList(list)
	}
	python, err := exec.LookPath("python3")
	if err == nil {
		return []string{python}
	}
	if os.Getenv("CI") == "true" {
		t.Fatal("no python3 in PATH: install it (apt-get install python3)")
	}
	t.Skip("NOT RUN: no python3 in PATH (apt-get install python3)")
	return nil
}

// run is one program under the probe.
type run struct {
	python  string
	paths   []string // of PYTHONPATH, after the probe's own
	env     []string
	args    []string
	folder  string // the working folder; "" for a new one
	stdin   []byte
	plain   bool // without the folder of the probe in PYTHONPATH
	streams []stream
	log     []string // what the stand-in wrote down, "synchronize 0"
	stdout  string
	stderr  string
	status  int
}

// stream is the lines of one file.
type stream struct {
	name  string
	lines []map[string]any
	torn  int // lines that were cut off
}

// fake adds the PyTorch of testdata/fake to PYTHONPATH.
func fake(t *testing.T) []string {
	return []string{absolute(t, "testdata/fake"), absolute(t, "testdata/standin")}
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// start runs it to its end and reads the streams.
func (r *run) start(t *testing.T) *run {
	t.Helper()
	out, script, log := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "log")
	if err := WriteScript(script); err != nil {
		t.Fatal(err)
	}
	paths := r.paths
	if !r.plain {
		paths = append([]string{script}, paths...)
	}
	cmd := exec.Command(r.python, r.args...)
	cmd.Dir = r.folder
	if cmd.Dir == "" {
		cmd.Dir = t.TempDir()
	}
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+strings.Join(paths, string(os.PathListSeparator)),
		EnvOut+"="+out, "STANDIN_LOG="+log, "SCRIPT="+script)
	cmd.Env = append(cmd.Env, r.env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(r.stdin), &stdout, &stderr
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	r.stdout, r.stderr, r.status = stdout.String(), stderr.String(), cmd.ProcessState.ExitCode()
	r.streams = readStreams(t, out)
	r.log = readLog(log)
	return r
}

// readLog is what the stand-in wrote down; the process is in front of each line.
func readLog(name string) (calls []string) {
	data, _ := os.ReadFile(name)
	for line := range strings.Lines(string(data)) {
		_, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		calls = append(calls, call)
	}
	return calls
}

// snippet is a small program, and variables "NAME=value".
type snippet struct {
	program string
	env     []string
}

// each runs small programs under the fake PyTorch, as forks of one interpreter.
func each(t *testing.T, python string, snippets []snippet) []*run {
	t.Helper()
	var input [][]any
	for _, s := range snippets {
		variables := map[string]string{}
		for _, v := range s.env {
			name, value, _ := strings.Cut(v, "=")
			variables[name] = value
		}
		input = append(input, []any{s.program, variables})
	}
	data, err := json.Marshal(input)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	all := (&run{python: python, paths: fake(t), args: []string{absolute(t, "testdata/programs/each.py"), out}, stdin: data}).start(t)
	streams := map[string]stream{}
	for _, s := range all.streams {
		streams[show(s.lines[0]["pid"])] = s
	}
	var runs []*run
	for line := range strings.Lines(all.stdout) {
		child, status, _ := strings.Cut(strings.TrimSpace(line), " ")
		name := filepath.Join(out, strconv.Itoa(len(runs)))
		r := &run{log: readLog(name + ".log")}
		r.status, _ = strconv.Atoi(status)
		for kind, to := range map[string]*string{".out": &r.stdout, ".err": &r.stderr} {
			text, _ := os.ReadFile(name + kind)
			*to = string(text)
		}
		if s, ok := streams[child]; ok {
			r.streams = []stream{s}
		}
		runs = append(runs, r)
	}
	if len(runs) != len(snippets) {
		t.Fatalf("%d of %d programs were run: %s", len(runs), len(snippets), all.stderr)
	}
	return runs
}

func readStreams(t *testing.T, folder string) []stream {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var streams []stream
	for _, name := range names {
		streams = append(streams, readStream(t, name))
	}
	return streams
}

func readStream(t *testing.T, name string) stream {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	s := stream{name: filepath.Base(name)}
	for text := range strings.Lines(string(data)) {
		var line map[string]any
		if err := json.Unmarshal([]byte(text), &line); err != nil || !strings.HasSuffix(text, "\n") {
			s.torn++
			continue
		}
		s.lines = append(s.lines, line)
		if len(text) > 64<<10 {
			t.Errorf("%s: a line of %d bytes", s.name, len(text))
		}
	}
	return s
}

// of is the lines of one type.
func (s stream) of(kind string) (found []map[string]any) {
	for _, line := range s.lines {
		if line["type"] == kind {
			found = append(found, line)
		}
	}
	return found
}

// only is the one stream that there must be.
func (r *run) only(t *testing.T) stream {
	t.Helper()
	if len(r.streams) != 1 {
		t.Fatalf("%d streams, want 1; status %d, %s", len(r.streams), r.status, r.stderr)
	}
	return r.streams[0]
}

// get follows keys and indices: get(line, "devices", 0, "peak").
func get(v any, path ...any) any {
	for _, step := range path {
		switch at := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[at]
		case int:
			list, _ := v.([]any)
			if at >= len(list) {
				return nil
			}
			v = list[at]
		}
	}
	return v
}

// tree is what began, in this order, with what is inside in brackets: "evaluation(forward forward) save".
// A phase that did not end is marked with "…", one that is inferred with "?".
func (s stream) tree() string {
	ended, inside := map[any]bool{}, map[any][]map[string]any{}
	for _, end := range s.of("end") {
		ended[end["id"]] = true
	}
	for _, begin := range s.of("begin") {
		inside[begin["parent"]] = append(inside[begin["parent"]], begin)
	}
	var render func(parent any) string
	render = func(parent any) string {
		var names []string
		for _, begin := range inside[parent] {
			name := begin["name"].(string)
			if begin["seen"] == "inferred" {
				name += "?"
			}
			if !ended[begin["id"]] {
				name += "…"
			}
			if in := render(begin["id"]); in != "" {
				name += "(" + in + ")"
			}
			names = append(names, name)
		}
		return strings.Join(names, " ")
	}
	return render(nil)
}

// faultless fails if the probe complained about itself, or a line is cut off.
func (s stream) faultless(t *testing.T) {
	t.Helper()
	if s.torn > 0 {
		t.Errorf("%s: %d lines are cut off", s.name, s.torn)
	}
	for _, note := range s.of("note") {
		t.Errorf("%s: %v: %v", s.name, note["code"], note["text"])
	}
}

func TestWriteScript(t *testing.T) {
	folder := t.TempDir()
	text, err := Script()
	if err := errors.Join(err, WriteScript(folder)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"floodmark_probe.py", "sitecustomize.py"} {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil || string(data) != text {
			t.Errorf("%s: %v, or other bytes", name, err)
		}
	}
	if err := WriteScript(folder); !os.IsExist(err) {
		t.Errorf("a second time: %v, want that it exists", err)
	}
	if err := WriteScript(filepath.Join(folder, "missing")); !os.IsNotExist(err) {
		t.Errorf("into no folder: %v", err)
	}
}

// The settings and the types of lines that doc.go describes are those of the file.
func TestContract(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := Script()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{EnvOut, EnvRun, EnvPhases, EnvSteps, EnvBudget, EnvFirst, EnvSnapshot, EnvHashBytes} {
		short := `"` + strings.TrimPrefix(name, "FLOODMARK_PROBE_") + `"`
		if !bytes.Contains(doc, []byte(name)) || !strings.Contains(text, short) {
			t.Errorf("%s: not described, or not read as %s", name, short)
		}
	}
	kinds := linesWritten(text)
	if len(kinds) < 15 {
		t.Errorf("only %d types of lines were found: %v", len(kinds), kinds)
	}
	for _, kind := range kinds {
		if !bytes.Contains(doc, []byte("\n//\t"+kind+" ")) {
			t.Errorf("doc.go does not describe the line %q", kind)
		}
	}
}

// linesWritten are the types that the file writes: stream.write("begin", …), encode("process", …).
func linesWritten(text string) (kinds []string) {
	for _, call := range []string{`.write("`, `(encode("`} {
		for _, rest := range strings.Split(text, call)[1:] {
			kind, _, _ := strings.Cut(rest, `"`)
			if !strings.ContainsAny(kind, " :%") && !slices.Contains(kinds, kind) {
				kinds = append(kinds, kind)
			}
		}
	}
	return kinds
}
