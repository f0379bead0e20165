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
// snapshot with its trace. About is what it is of, in a word or a name. Its text is the
// one that is printed, as wide as on a pipe.
func (s *session) page(file, about string, document any, trace *floodmark.Trace) func() error {
	return func() error {
		if file == "" {
			return nil
		}
		style, err := s.style()
		if err != nil {
			return err
		}
		style.Width, style.Color = 100, false
		var text bytes.Buffer
		if err := report.Text(&text, document, style); err != nil {
			return err
		}
		return s.write(file, func(w io.Writer) error {
			return web.WriteFile(w, web.File{Title: "Floodmark · " + source.Visible(about), Document: document, Text: text.String(), Trace: trace})
		})
	}
}
