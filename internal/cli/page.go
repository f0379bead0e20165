package cli

import (
	"bytes"
	"io"

	"floodmark"
	"floodmark/internal/report"
	"floodmark/internal/source"
	"floodmark/internal/web"
)

// page writes a record as one file that opens offline, where one is asked for; of a
// snapshot with its trace. About is what it is of, in a word or a name.
func (s *session) page(file, about string, document any, trace *floodmark.Trace) error {
	if file == "" {
		return nil
	}
	var text bytes.Buffer
	if err := report.Text(&text, document, report.Style{Width: 100}); err != nil {
		return err
	}
	return s.write(file, func(w io.Writer) error {
		return web.WriteFile(w, web.File{Title: "Floodmark · " + source.Visible(about), Document: document, Text: text.String(), Trace: trace})
	})
}
