package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"floodmark/internal/cli"
	"floodmark/internal/report"
)

const (
	model    = "../../testdata/models/Llama-3.1-70B-Instruct"
	snapshot = "../../testdata/snapshots/training_step.pickle"
	oom      = "../../testdata/oom/exhaustion.txt"
)

// run executes a command line as on a terminal of that width.
func run(columns int, environment map[string]string, terminal bool, args ...string) (stdout, stderr string, code int) {
	var out, err bytes.Buffer
	code = cli.Run(context.Background(), cli.Env{
		Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &err,
		Getenv: func(name string) string { return environment[name] }, Terminal: terminal, Columns: columns, Version: "test",
	})
	return out.String(), err.String(), code
}

// No line of a result is wider than the terminal.
func TestWidth(t *testing.T) {
	for _, columns := range []int{40, 60, 80, 120} {
		for _, args := range [][]string{
			{"estimate", model, "--context", "8192", "--generated", "1024", "--sequences", "32", "--gpu", "h100"},
			{"estimate", model, "--context", "8192", "--generated", "1024", "--sequences", "4", "--card", "all"},
			{"estimate", model, model, "--context", "8192", "--generated", "1024", "--sequences", "4", "--share", "cuda:0", "--gpu", "h100", "--free", "60GiB"},
			{"solve", model, "--generated", "1024", "--matrix", "context=8Ki..128Ki,sequences=1..64", "--gpu", "h100"},
			{"estimate", "--parameters", "7000000000", "--bits", "4", "--reserve-gib", "4"},
			{"explain", oom},
			{"explain", snapshot},
			{"compare", snapshot, snapshot},
			{"replay", snapshot, "--conf", "expandable_segments:True", "--capacity", "8GiB", "--smallest-capacity"},
			{"gpus"},
			{"--help"}, {"estimate", "--help"}, {"solve", "--help"}, {"replay", "--help"}, {"completion", "--help"},
		} {
			out, stderr, code := run(columns, nil, true, args...)
			if code != 0 && code != 3 {
				t.Errorf("%v ended with %d: %s", args, code, stderr)
			}
			for line := range strings.Lines(out) {
				if w := report.Columns(strings.TrimRight(line, "\n")); w > columns {
					t.Errorf("%v in %d columns has a line of %d: %q", args, columns, w, line)
				}
			}
		}
	}
}

// Colour goes to a terminal only, and not to one that asks for none.
func TestColour(t *testing.T) {
	for _, c := range []struct {
		name        string
		environment map[string]string
		terminal    bool
		want        bool
	}{
		{"a terminal", nil, true, true},
		{"NO_COLOR", map[string]string{"NO_COLOR": "1"}, true, false},
		{"a dumb terminal", map[string]string{"TERM": "dumb"}, true, false},
		{"a pipe", nil, false, false},
	} {
		out, _, _ := run(100, c.environment, c.terminal, "explain", snapshot)
		if got := strings.Contains(out, "\x1b["); got != c.want {
			t.Errorf("%s: colour is %v, want %v", c.name, got, c.want)
		}
	}
}

// Nothing that somebody types makes the program panic or print a Go value.
func TestOddArguments(t *testing.T) {
	for _, args := range [][]string{
		{""}, {"--"}, {"estimate", ""}, {"explain", ""}, {"gpus", ""}, {"estimate", "--parameters", ""},
		{"estimate", "--parameters", "1e999999999"}, {"estimate", "--parameters", "0x10"}, {"estimate", "--reserve-gib", "NaN", "--parameters", "1"},
		{"estimate", "--context", "-1", model}, {"estimate", "--context", "99999999999999999999", model},
		{"gpus", strings.Repeat("h", 1<<16)}, {"explain", "\x00"}, {"--json=maybe"}, {"estimate", "--unit", "GB", "--gpu", ""},
	} {
		_, stderr, code := run(80, nil, false, args...)
		if strings.Contains(stderr, "bug in floodmark") || strings.Contains(stderr, "%!") {
			t.Errorf("%.60q: %s", fmt.Sprint(args), stderr)
		}
		if code != 0 && stderr == "" {
			t.Errorf("%.60q ended with %d and said nothing", fmt.Sprint(args), code)
		}
	}
}

// A name that somebody else chose, pasted into a command line, is shown and not
// obeyed: every line of an error says whose it is.
func TestHostileArguments(t *testing.T) {
	const name = "x\n\nFITS · rank 0\x1b[2J\x7f\u009b\u202e\xff"
	for _, args := range [][]string{
		{name}, {"explain", name}, {"compare", name, name}, {"replay", name}, {"estimate", name}, {"estimate", name + ".yaml"}, {"gpus", name},
		{"gpus", "--" + name}, {"gpus", "-" + name}, {"gpus", "--unit", name}, {"gpus", "-o", name + "/card.json"}, {"help", name}, {"completion", name},
		{"estimate", model, "--gpu", name}, {"estimate", model, "--what-if", name}, {"estimate", model, "--context", name}, {"estimate", model, "--cache-format", name},
		{"solve", name, model}, {"replay", snapshot, "--conf", name}, {"replay", snapshot, "--capacity", name}, {"estimate", "--parameters", name},
	} {
		stdout, stderr, code := run(80, nil, false, args...)
		if code == 0 || stdout != "" || stderr == "" {
			t.Errorf("%q ended with %d, %q, %q", args, code, stdout, stderr)
		}
		for line := range strings.Lines(stderr) {
			hidden := strings.IndexFunc(strings.TrimSuffix(line, "\n"), func(r rune) bool { return !unicode.IsGraphic(r) })
			if !strings.HasPrefix(line, "floodmark: ") || hidden >= 0 || !utf8.ValidString(line) {
				t.Errorf("%q printed the line %q", args, line)
			}
		}
		_, stderr, _ = run(80, nil, false, append([]string{"--json"}, args...)...)
		if !json.Valid([]byte(stderr)) || strings.ContainsAny(stderr, "\x1b\x7f\u009b\u202e") {
			t.Errorf("%q --json printed %q", args, stderr)
		}
	}
}
