package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"regexp"

	"floodmark/record"
)

// WriteEstimate writes one file that opens offline and shows a record of an
// estimate as the page does: it holds the page's own style and modules, and the
// record as data.
func WriteEstimate(w io.Writer, document *record.Estimate) error {
	files, err := Page()
	if err != nil {
		return err
	}
	style, err := fs.ReadFile(files, "page.css")
	if err != nil {
		return err
	}
	script, err := bundle(files, "dom.js", "estimate.js")
	if err != nil {
		return err
	}
	var plain, data bytes.Buffer
	if err := record.Encode(&plain, document); err != nil {
		return err
	}
	// Escaped so that no name within can end the element.
	json.HTMLEscape(&data, plain.Bytes())
	_, err = fmt.Fprintf(w, exported, style, data.Bytes(), script)
	return err
}

// exported is the file around style, record and script. Whatever it is opened
// with may load nothing.
const exported = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<title>Floodmark estimate</title>
<link rel="icon" href="data:,">
<style>
%s</style>
<header><h1>Floodmark estimate</h1></header>
<main><div class="answer"></div></main>
<noscript><p>This page is drawn by its script; the record is in its source.</p></noscript>
<script type="application/json" id="record">%s</script>
<script type="module">
%s
const shown = JSON.parse(document.getElementById("record").textContent);
show(document.querySelector(".answer"), shown, shown.tool.command);
</script>
</html>
`

var (
	imports = regexp.MustCompile(`(?m)^import .*;\n`)
	exports = regexp.MustCompile(`(?m)^export `)
)

// bundle puts modules into one: a file that is opened from a disk may import no
// other. Each module stands behind those that it imports.
func bundle(files fs.FS, names ...string) ([]byte, error) {
	var all bytes.Buffer
	for _, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		all.Write(exports.ReplaceAll(imports.ReplaceAll(text, nil), nil))
	}
	return all.Bytes(), nil
}
