package web

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"path"
	"regexp"
	"strings"

	"floodmark"
	"floodmark/internal/packed"
	"floodmark/record"
)

// files is the folder static in one packed text. A test holds the two equal:
// go test ./internal/web -update -run Packed.
//
//go:embed static.txt.gz
var files []byte

// Files is texts by their paths.
type Files map[string]string

// Page is the files of the page, as they were written.
func Page() (Files, error) {
	text, err := packed.Text(files)
	if err != nil {
		return nil, err
	}
	page := Files{}
	for text != "" {
		// Each stands behind a line of its name and length.
		var name string
		var length int
		line, rest, _ := strings.Cut(text, "\n")
		if _, err := fmt.Sscanf(line, "%s %d", &name, &length); err != nil || length > len(rest) {
			return nil, fmt.Errorf("the packed page: %.80q names no file", line)
		}
		page[name], text = rest[:length], rest[length:]
	}
	return page, nil
}

// File is what one file of --html shows.
type File struct {
	Title    string
	Document any              // a record
	Text     string           // the same as text, for whoever runs no scripts
	Trace    *floodmark.Trace // of a snapshot; nil for other evidence
}

// WriteFile writes one file that opens offline and shows a record as the page does:
// it holds the page's own style and modules, and the record as data. It is at most
// 5 MB and the record, whatever the size of the trace.
func WriteFile(w io.Writer, f File) error {
	page, err := Page()
	if err != nil {
		return err
	}
	script, err := bundle(page, "file.js")
	if err != nil {
		return err
	}
	document, err := data(f.Document)
	if err != nil {
		return err
	}
	trace, err := data(kept(f.Trace))
	if err != nil {
		return err
	}
	title := html.EscapeString(f.Title)
	_, err = fmt.Fprintf(w, aroundFile, title, page["page.css"], title, html.EscapeString(f.Text), document, trace, script)
	return err
}

// data is JSON within an element: no name in it can end that.
func data(document any) ([]byte, error) {
	var plain, escaped bytes.Buffer
	if err := record.Encode(&plain, document); err != nil {
		return nil, err
	}
	json.HTMLEscape(&escaped, plain.Bytes())
	return escaped.Bytes(), nil
}

// aroundFile is the file around style, record and script. Whatever it is opened with
// may load nothing. A format and not a template: templates call methods by name,
// which keeps every method of every type in the program and makes it a third larger.
const aroundFile = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:">
<title>%s</title>
<link rel="icon" href="data:,">
<style>
%s</style>
<header><h1>%s</h1></header>
<main>
<div id="answer"></div>
<details><summary>The same as text</summary><pre tabindex="0">%s</pre></details>
</main>
<noscript><p>Without scripts there are no pictures; the text above has every figure.</p></noscript>
<script type="application/json" id="record">%s</script>
<script type="application/json" id="trace">%s</script>
<script type="module">
%s</script>
</html>
`

var (
	imports = regexp.MustCompile(`(?m)^import \{ ([\w, ]+) \} from "([^"]+)";\n`)
	exports = regexp.MustCompile(`(?m)^export ((?:async )?function|const|class) (\w+)`)
)

// bundle puts a module and those that it imports into one script, each in a function
// of its own: a file that is opened from a disk may import no other.
func bundle(files Files, entry string) ([]byte, error) {
	b := bundler{files: files, state: map[string]int{}}
	b.out.WriteString("const bundled = {};\n")
	if err := b.add(entry); err != nil {
		return nil, err
	}
	return b.out.Bytes(), nil
}

type bundler struct {
	files Files
	out   bytes.Buffer
	state map[string]int // of each module: 1 while those it imports are added, 2 behind that
}

// add writes a module behind those that it imports.
func (b *bundler) add(name string) error {
	switch b.state[name] {
	case 1:
		return fmt.Errorf("%s imports itself", name)
	case 2:
		return nil
	}
	b.state[name] = 1
	module, known := b.files[name]
	if !known {
		return fmt.Errorf("there is no module %s", name)
	}
	text := []byte(module)
	for _, found := range imports.FindAllSubmatch(text, -1) {
		if err := b.add(path.Join(path.Dir(name), string(found[2]))); err != nil {
			return err
		}
	}
	b.state[name] = 2
	var names []string
	for _, found := range exports.FindAllSubmatch(text, -1) {
		names = append(names, string(found[2]))
	}
	text = exports.ReplaceAll(text, []byte("$1 $2"))
	text = imports.ReplaceAllFunc(text, func(line []byte) []byte {
		found := imports.FindSubmatch(line)
		taken := strings.ReplaceAll(string(found[1]), " as ", ": ")
		return fmt.Appendf(nil, "const { %s } = bundled[%q];\n", taken, path.Join(path.Dir(name), string(found[2])))
	})
	fmt.Fprintf(&b.out, "bundled[%q] = (() => {\n%sreturn { %s };\n})();\n", name, text, strings.Join(names, ", "))
	return nil
}
