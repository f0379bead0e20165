package kit

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"floodmark/internal/packed"
	"floodmark/internal/probe"
	"floodmark/internal/source"
	"floodmark/record"
)

//go:embed files/*.gz
var files embed.FS

// File is one file of the kit.
type File struct {
	Name string
	Data []byte
}

// Files is the kit of a version, byte for byte the same each time.
func Files(version string) ([]File, error) {
	var list []File
	for _, name := range []string{"README.md", "lab.py", "comparison.csv", "LICENSE"} {
		file, err := files.ReadFile("files/" + name + ".gz")
		if err != nil {
			return nil, err
		}
		text, err := packed.Text(file)
		if err != nil {
			return nil, err
		}
		if name == "README.md" {
			text = strings.ReplaceAll(text, "{{version}}", version)
		}
		list = append(list, File{name, []byte(text)})
	}
	cells, err := notebook()
	if err != nil {
		return nil, err
	}
	script, err := probe.Script()
	if err != nil {
		return nil, err
	}
	list = append(list, File{probe.ScriptName, []byte(script)}, File{"lab.ipynb", append(cells, '\n')}, File{"VERSION", []byte(version + "\n")})
	return append(list, File{"SHA256SUMS", sums(list)}), nil
}

// sums is what sha256sum -c reads.
func sums(list []File) []byte {
	var b bytes.Buffer
	for _, f := range list {
		fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(f.Data), f.Name)
	}
	return b.Bytes()
}

// Write makes the kit at a path that must not exist: a ZIP file where the name
// ends so, else a folder.
func Write(path, version string) error {
	list, err := Files(version)
	if err != nil {
		return err
	}
	if strings.EqualFold(filepath.Ext(path), ".zip") {
		return record.CreateFile(path, func(w io.Writer) error { return archive(w, list) })
	}
	if err := os.Mkdir(path, 0o755); errors.Is(err, fs.ErrExist) {
		return source.OfFile(path, record.ErrExists)
	} else if err != nil {
		return source.OfFile(path, err)
	}
	for _, f := range list {
		if err := record.CreateFile(filepath.Join(path, f.Name), func(w io.Writer) error { _, err := w.Write(f.Data); return err }); err != nil {
			os.RemoveAll(path)
			return err
		}
	}
	return nil
}

// archive is a ZIP with one folder. Its times are those of no day, so that the
// same kit is the same file.
func archive(w io.Writer, list []File) error {
	z := zip.NewWriter(w)
	for _, f := range list {
		entry, err := z.CreateHeader(&zip.FileHeader{Name: "floodmark-lab/" + f.Name, Method: zip.Deflate, Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)})
		if err != nil {
			return err
		}
		if _, err := entry.Write(f.Data); err != nil {
			return err
		}
	}
	return z.Close()
}
