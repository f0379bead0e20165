package web

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"floodmark"
	"floodmark/internal/packed"
	"floodmark/record"
)

var update = flag.Bool("update", false, "pack the page anew")

// What is embedded is the files as they are written.
func TestPagePacked(t *testing.T) {
	var text bytes.Buffer
	err := filepath.WalkDir("static", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		name, _ := filepath.Rel("static", path)
		fmt.Fprintf(&text, "%s %d\n%s", filepath.ToSlash(name), len(content), content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if _, err := w.Write(text.Bytes()); err != nil || w.Close() != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("static.txt.gz", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := packed.Text(files); err != nil || got != text.String() {
		t.Errorf("static.txt.gz is not the folder static (%v): go test ./internal/web -update -run Packed", err)
	}
	page, err := Page()
	if err != nil || !strings.HasPrefix(page["index.html"], "<!doctype html>") || !strings.HasSuffix(page["page.css"], "}\n") {
		t.Errorf("the page is %d files, %v", len(page), err)
	}
}

// written is a file of --html.
func written(t *testing.T, f File) string {
	t.Helper()
	var b bytes.Buffer
	if err := WriteFile(&b, f); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// The file is whole: it imports nothing, names no address that is loaded, and a model
// whose name ends an element ends none.
func TestFileStandsAlone(t *testing.T) {
	name := "</script><script>alert(1)</script>\u202e\u009b"
	d := &record.Estimate{}
	d.Model.Name = &name
	file := written(t, File{Title: "<b>title</b>", Document: d, Text: "<i>text</i>"})
	for _, refused := range []*regexp.Regexp{regexp.MustCompile(`(?m)^(import|export)\b`), regexp.MustCompile(`(src|href)="[^d]`), regexp.MustCompile(`@import|url\([^#]|fetch\(|XMLHttpRequest`), regexp.MustCompile(`<[bi]>|[\x{202e}\x{009b}]`)} {
		if found := refused.FindString(file); found != "" {
			t.Errorf("the file holds %q", found)
		}
	}
	if n := strings.Count(file, "</script>"); n != 3 {
		t.Errorf("%d scripts end, 3 expected: the name of the model is text", n)
	}
	for _, module := range []string{"dom.js", "record/show.js", "record/estimate.js", "trace/device.js", "file.js"} {
		if n := strings.Count(file, "bundled[\""+module+"\"] = "); n != 1 {
			t.Errorf("%s is in the file %d times", module, n)
		}
	}
}

// Every module of the page is of the form that the bundle understands, so that what
// the page can do the file can.
func TestModules(t *testing.T) {
	page, err := Page()
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile(`(?m)^\s*(import|export)\b.*$`)
	for name, text := range page {
		if filepath.Ext(name) != ".js" {
			continue
		}
		for _, found := range line.FindAllString(text, -1) {
			if !imports.MatchString(found+"\n") && !exports.MatchString(found) {
				t.Errorf("%s: %s", name, found)
			}
		}
		if _, err := bundle(page, name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, files := range map[string]Files{
		"a circle":  {"a.js": "import { b } from \"./b.js\";\n", "b.js": "import { a } from \"./a.js\";\n"},
		"a missing": {"a.js": "import { b } from \"./none.js\";\n"},
	} {
		if _, err := bundle(files, "a.js"); err == nil {
			t.Errorf("%s is bundled", name)
		}
	}
}

// snapshotFile is the file of a snapshot in JSON, and what it keeps of the trace.
func snapshotFile(t *testing.T, content []byte) (file string, kept struct{ Devices []keptDevice }) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "snapshot.json")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	evidence, err := floodmark.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	file = written(t, File{Document: evidence.Record(record.Tool{}), Trace: floodmark.TraceOf(evidence)})
	_, data, _ := strings.Cut(file, `id="trace">`)
	data, _, _ = strings.Cut(data, "</script>")
	if err := json.Unmarshal([]byte(data), &kept); err != nil {
		t.Fatal(err)
	}
	return file, kept
}

// A snapshot of very many frames, whose text tries to end the file's elements.
func TestFileIsBoundedAndEscaped(t *testing.T) {
	var trace []map[string]any
	for i := range 5000 {
		frames := []map[string]any{}
		for f := range 8 {
			frames = append(frames, map[string]any{"filename": fmt.Sprintf("</script><script>alert(%d)//%s.py", i, strings.Repeat("x", 300)), "name": fmt.Sprintf("<img src=x onerror=%d-%d>\u202e\u009b", i, f), "line": f})
		}
		trace = append(trace, map[string]any{"action": "alloc", "addr": 512 * (i + 1), "size": 512, "stream": 0, "frames": frames})
	}
	content, err := json.Marshal(map[string]any{"segments": []any{}, "device_traces": []any{trace}})
	if err != nil {
		t.Fatal(err)
	}
	file, _ := snapshotFile(t, content)
	if len(file) > 5_000_000 {
		t.Errorf("the file has %d bytes", len(file))
	}
	if strings.ContainsAny(file, "\u202e\u009b") || strings.Contains(file, "<img") || strings.Count(file, "</script>") != 3 {
		t.Error("a frame's text became part of the file")
	}
}

// A card on which nothing was recorded has a place of its own, and does not hide those
// behind it; and the file's peak is the record's, moment and bytes.
func TestFileHasEveryDevice(t *testing.T) {
	_, kept := snapshotFile(t, []byte(`{"segments": [
		{"device": 0, "address": 1048576, "total_size": 2097152, "stream": 0, "segment_type": "small", "blocks": [
			{"size": 1024, "requested_size": 1000, "address": 1048576, "state": "active_allocated"},
			{"size": 2096128, "requested_size": 0, "address": 1049600, "state": "inactive"}]},
		{"device": 2, "address": 1048576, "total_size": 2097152, "stream": 0, "segment_type": "small", "blocks": [
			{"size": 2097152, "requested_size": 2097000, "address": 1048576, "state": "active_allocated"}]}],
		"device_traces": [
			[{"action": "segment_alloc", "addr": 1048576, "size": 2097152, "stream": 0}, {"action": "alloc", "addr": 1048576, "size": 1000, "stream": 0}],
			[],
			[{"action": "snapshot", "addr": 0, "size": 0, "stream": 0}]]}`))
	if len(kept.Devices) != 3 {
		t.Fatalf("%d devices", len(kept.Devices))
	}
	first, idle, last := kept.Devices[0], kept.Devices[1], kept.Devices[2]
	if first.PeakMoment != 0 || first.PeakBytes != 1000 || len(first.Levels) != 1 || len(first.Segments) != 1 {
		t.Errorf("cuda:0 is %+v", first)
	}
	if len(idle.Levels) != 0 || len(idle.Largest) != 0 || len(last.Largest) != 1 {
		t.Errorf("cuda:1 is %+v, cuda:2 is %+v", idle, last)
	}
}
