package cli_test

import (
	"os"
	"strings"
	"testing"

	"floodmark/internal/checklist"
)

// Every command that the README shows works as it stands, from the top of a
// checkout: it answers, or its answer is in the exit code.
func TestReadmeCommands(t *testing.T) {
	checklist.Covers(t, 103)
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir("../..")
	shown := 0
	block := false
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "```") {
			block = !block
			continue
		}
		args, ok := strings.CutPrefix(strings.Replace(line, "go run ./cmd/floodmark ", "floodmark ", 1), "floodmark ")
		if !block || !ok {
			continue
		}
		shown++
		if out, stderr, code := run(100, nil, false, strings.Fields(args)...); out == "" || (code != 0 && code != 3 && code != 4) {
			t.Errorf("floodmark %s ended with %d: %s", args, code, stderr)
		}
	}
	if shown < 5 {
		t.Errorf("the README shows %d commands: are they still read?", shown)
	}
}
