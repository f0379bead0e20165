package cli_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"floodmark/internal/checklist"
)

var update = flag.Bool("update", false, "write the outputs in docs again")

// docColumns is the width of the outputs in the documentation.
const docColumns = 100

// Every command that the README shows works as it stands, from the top of a checkout:
// it answers, or its answer is in the exit code. In a console block, of any page of
// docs, the output stands behind "$ floodmark", and is compared.
func TestDocumentation(t *testing.T) {
	checklist.Covers(t, 103)
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		inCheckout(t, root)
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		told, n := retold(t, filepath.Base(page), string(text))
		shown += n
		if told == string(text) {
			continue
		}
		if *update {
			if err := os.WriteFile(page, []byte(told), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		t.Errorf("%s does not show what its commands say; run this test with -update and look at the difference", filepath.Base(page))
		t.Log(firstDifference(string(text), told))
	}
	if shown < 25 {
		t.Errorf("the documentation shows %d commands: are they still read?", shown)
	}
}

// inCheckout makes a folder that reads as the top of a checkout, in which commands
// may write.
func inCheckout(t *testing.T, root string) {
	t.Helper()
	dir := t.TempDir()
	entries, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(root, e.Name()), filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// retold is a page with the outputs that its commands have now, and how many
// commands it shows.
func retold(t *testing.T, page, text string) (string, int) {
	t.Helper()
	var out strings.Builder
	block, shown, skipping := "", 0, false
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		fence := strings.HasPrefix(trimmed, "```")
		command, console := strings.CutPrefix(trimmed, "$ floodmark ")
		plain, isPlain := strings.CutPrefix(strings.Replace(trimmed, "go run ./cmd/floodmark ", "floodmark ", 1), "floodmark ")
		switch {
		case fence && block == "":
			block = trimmed
		case fence:
			block, skipping = "", false
		case block == "```console" && console:
			shown++
			out.WriteString(line + printedBy(t, page, command))
			skipping = true
			continue
		case skipping:
			continue
		case page == "README.md" && block != "" && block != "```console" && isPlain:
			shown++
			answer(t, page, plain)
		}
		out.WriteString(line)
	}
	return out.String(), shown
}

// answer runs a command of a page, which must answer.
func answer(t *testing.T, page, command string) string {
	t.Helper()
	stdout, stderr, code := run(docColumns, nil, false, words(command)...)
	if stdout == "" && stderr == "" || !slices.Contains([]int{0, 3, 4, 5}, code) {
		t.Errorf("%s: floodmark %s ended with %d: %s", page, command, code, stderr)
	}
	return stdout
}

// printedBy is what a command of a page prints, through the filters behind it.
func printedBy(t *testing.T, page, command string) string {
	t.Helper()
	filters := strings.Split(command, " | ")
	text := answer(t, page, filters[0])
	for _, f := range filters[1:] {
		text = filtered(t, f, text)
	}
	return strings.TrimRight(text, "\n") + "\n"
}

var between = regexp.MustCompile(`^sed -n '/(.+)/,/(.*)/p'$`)

// filtered is what head, tail or a sed that prints from one line to another leaves.
func filtered(t *testing.T, filter, text string) string {
	t.Helper()
	lines := strings.SplitAfter(strings.TrimRight(text, "\n")+"\n", "\n")
	lines = lines[:len(lines)-1]
	if m := between.FindStringSubmatch(filter); m != nil {
		from, to := regexp.MustCompile(m[1]), regexp.MustCompile(m[2])
		var kept []string
		open := false
		for _, line := range lines {
			line = strings.TrimSuffix(line, "\n")
			switch {
			case open:
				kept = append(kept, line+"\n")
				open = !to.MatchString(line)
			case from.MatchString(line):
				kept = append(kept, line+"\n")
				open = true
			}
		}
		return strings.Join(kept, "")
	}
	name, count, _ := strings.Cut(filter, " -n ")
	n, err := strconv.Atoi(count)
	switch {
	case err == nil && name == "head":
		return strings.Join(lines[:min(n, len(lines))], "")
	case err == nil && name == "tail":
		return strings.Join(lines[max(0, len(lines)-n):], "")
	}
	t.Fatalf("%q is no filter that the documentation may use", filter)
	return ""
}

// words splits a command as a shell does where single quotes are its only quotes.
func words(command string) []string {
	var list []string
	for i, part := range strings.Split(command, "'") {
		if i%2 == 1 {
			list = append(list, part)
			continue
		}
		list = append(list, strings.Fields(part)...)
	}
	return list
}

func firstDifference(a, b string) string {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			return fmt.Sprintf("line %d\n- %s\n+ %s", i+1, x[i], y[i])
		}
	}
	return fmt.Sprintf("%d lines, now %d", len(x), len(y))
}
