package cli

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"floodmark/internal/report"
)

// helpWithin is a help function whose lines are no wider than the terminal,
// followed by the exit codes.
func (s *session) helpWithin(help func(*cobra.Command, []string)) func(*cobra.Command, []string) {
	return func(cmd *cobra.Command, args []string) {
		start := s.out.held.Len()
		help(cmd, args)
		text := string(s.out.held.Bytes()[start:]) + exitStatusHeader
		s.out.held.Truncate(start)
		s.out.held.WriteString(within(text, s.columns()))
	}
}

// within wraps what is wider than the width, below the place where its last
// column begins.
func within(text string, width int) string {
	var b bytes.Buffer
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if report.Columns(line) > width {
			line = hung(line, width)
		}
		b.WriteString(line + "\n")
	}
	return b.String()
}

// reColumn is where a column of a line begins: behind two spaces or more.
var reColumn = regexp.MustCompile(`(?:^| ) +`)

// minColumn is the width below which a last column is not kept as one.
const minColumn = 24

// hung is one line wrapped with a hanging indent. A command goes on as a shell
// reads it.
func hung(line string, width int) string {
	if strings.HasPrefix(line, "  floodmark ") {
		return strings.ReplaceAll(report.Wrap(line, width-len("     \\")), "\n", " \\\n    ")
	}
	indent := 0
	for _, at := range reColumn.FindAllStringIndex(line, -1) {
		if width-at[1] >= minColumn {
			indent = at[1]
		}
	}
	head, rest := line[:indent], line[indent:]
	wrapped := report.Wrap(rest, max(width-report.Columns(head), minColumns))
	return head + strings.ReplaceAll(wrapped, "\n", "\n"+strings.Repeat(" ", report.Columns(head)))
}
