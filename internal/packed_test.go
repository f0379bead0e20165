package internal_test

import (
	"bytes"
	"compress/gzip"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"floodmark/internal/packed"
)

var update = flag.Bool("update", false, "write packed texts anew")

// A text that is embedded packed is that beside its packed file.
func TestPacked(t *testing.T) {
	pairs := 0
	for _, folder := range []string{"recipe/tables", "../model/load/catalogue", "../model/hfmodel", "../device", "probe", "kit/files", "../settings_readers.txt", "../estimate/eager/sdpa.tsv", "../environment/inspect.py"} {
		err := filepath.WalkDir(folder, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !embedded(path) {
				return err
			}
			pairs++
			return samePacked(t, path)
		})
		if err != nil {
			t.Error(err)
		}
	}
	if pairs < 10 {
		t.Errorf("%d texts were looked at", pairs)
	}
}

// embedded reports a file of which the program holds a packed copy.
func embedded(path string) bool {
	switch path {
	case "../settings_readers.txt", "../estimate/eager/sdpa.tsv", "../environment/inspect.py", "../device/catalogue.tsv", "../model/hfmodel/timm.tsv", "probe/floodmark_probe.py":
		return true
	}
	switch filepath.Ext(path) {
	case ".txt", ".jsonl":
		return true
	}
	return filepath.Dir(path) == "kit/files" && filepath.Ext(path) != ".gz"
}

func samePacked(t *testing.T, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if *update {
		var b bytes.Buffer
		w, _ := gzip.NewWriterLevel(&b, gzip.BestCompression)
		if _, err := w.Write(text); err != nil {
			return err
		}
		if err := w.Close(); err != nil {
			return err
		}
		return os.WriteFile(path+".gz", b.Bytes(), 0o644)
	}
	file, err := os.ReadFile(path + ".gz")
	if err != nil {
		return err
	}
	if got, err := packed.Text(file); err != nil || got != string(text) {
		t.Errorf("%s.gz is not %s (%v): go test ./internal -update -run Packed", path, path, err)
	}
	return nil
}
