package load

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"floodmark/account"
	"floodmark/bytesize"
	"floodmark/dtype"
	"floodmark/internal/safetensors"
	"floodmark/internal/source"
	"floodmark/internal/torchfile"
)

// Bounds of what weight files may make this program remember.
const (
	maxTensors = 500_000 // of all files together
	readers    = 8       // headers that are read at a time: a hub answers slowly, but many
)

// tensor is one tensor as a weight file lists it.
type tensor struct {
	name   string
	format dtype.Format
	dtype  string // as the file writes a format that is not known here
	shape  []int64
	bytes  int64
	twin   int // the earlier tensor whose storage this one shares; −1 for its own
}

// weights is what the weight files of a model list.
type weights struct {
	kind     string   // as [model.Source] calls it
	files    []string // that were read
	tensors  []tensor
	data     int64 // bytes of tensor data in all files, storage once
	places   map[string]int
	warnings []account.Warning
}

// warning is a warning whose text may quote a file.
func warning(code, format string, args ...any) account.Warning {
	return account.Warning{Code: code, Text: fmt.Sprintf(format, args...)}
}

// quote shortens a text from a file and escapes it.
func quote(text string) string { return fmt.Sprintf("%q", shortened(text)) }

// shortened is the beginning of a text from a file.
func shortened(text string) string {
	if len(text) > 80 {
		return strings.ToValidUTF8(text[:80], "") + "…"
	}
	return text
}

// several quotes the first few of many names.
func several(names []string) string {
	const most = 3
	var b strings.Builder
	for i, n := range names {
		if i == most {
			fmt.Fprintf(&b, " and %d more", len(names)-most)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(quote(n))
	}
	return b.String()
}

// list reads the headers of weight files, several at a time, and adds up what
// they list. A file that is not there is an error that names all of those.
func list(ctx context.Context, folder source.Folder, kind string, files []string) (*weights, error) {
	parts := make([][]tensor, len(files))
	errs := make([]error, len(files))
	var wait sync.WaitGroup
	turn := make(chan struct{}, readers)
	for i, file := range files {
		wait.Add(1)
		turn <- struct{}{}
		go func() {
			defer func() { <-turn; wait.Done() }()
			parts[i], errs[i] = header(ctx, folder, kind, file)
		}()
	}
	wait.Wait()
	if err := absent(folder, files, errs); err != nil {
		return nil, err
	}
	w := &weights{kind: kind, files: files}
	if err := w.join(folder, parts); err != nil {
		return nil, err
	}
	if len(w.tensors) == 0 {
		return nil, empty(folder, files)
	}
	return w, nil
}

// empty is the error about weight files without a tensor.
func empty(folder source.Folder, files []string) error {
	return source.InField(folder.Name(), "", "%s holds no tensors", several(files)).
		WithHint("fetch the weight files again, or name the config.json alone to estimate without them")
}

// absent is the first error of many, or the one that names the files that are
// not there.
func absent(folder source.Folder, files []string, errs []error) error {
	var missing []string
	for i, err := range errs {
		if err == nil {
			continue
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		missing = append(missing, files[i])
	}
	if missing == nil {
		return nil
	}
	return source.InField(folder.Name(), "", "lacks %d of its %d weight files: %s", len(missing), len(files), several(missing)).
		WithHint("fetch them, or name the config.json alone to estimate without them")
}

// header reads the header of one weight file.
func header(ctx context.Context, folder source.Folder, kind, file string) ([]tensor, error) {
	src, err := folder.Open(ctx, file)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	if kind == torchKind {
		return torchTensors(src)
	}
	h, err := safetensors.ReadHeader(src)
	if err != nil {
		return nil, misnamed(err)
	}
	tensors := make([]tensor, len(h.Tensors))
	for i, t := range h.Tensors {
		tensors[i] = tensor{name: t.Name, format: t.Format, shape: t.Shape, bytes: t.Bytes(), twin: -1}
		if t.Format == dtype.Unknown {
			tensors[i].dtype = t.DType
		}
	}
	return tensors, nil
}

// misnamed is the error about a file that is not what its name says; there is
// no other format to try.
func misnamed(err error) error {
	var f *source.FormatError
	if !errors.Is(err, source.ErrNotThisFormat) || !errors.As(err, &f) {
		return err
	}
	f = f.WithHint("a page or a text may have been saved in its place: fetch it again")
	f.Err = nil
	return f
}

// torchTensors reads a file of torch.save. Its tensors share storage where
// they view the same bytes in full; a view of a part is charged whole once,
// with the first that views it.
func torchTensors(src source.Source) ([]tensor, error) {
	f, err := torchfile.Read(src)
	if err != nil {
		return nil, misnamed(err)
	}
	first := make([]int, len(f.Storages))
	for i := range first {
		first[i] = -1
	}
	tensors := make([]tensor, len(f.Tensors))
	for i, t := range f.Tensors {
		tensors[i] = tensor{name: t.Name, format: t.Format, shape: t.Shape, bytes: t.Bytes, twin: first[t.Storage]}
		if first[t.Storage] < 0 {
			first[t.Storage] = i
			tensors[i].bytes = f.Storages[t.Storage].Bytes
		}
	}
	return tensors, nil
}

// join puts the tensors of all files together, each name once.
func (w *weights) join(folder source.Folder, parts [][]tensor) error {
	total := 0
	for _, part := range parts {
		total += len(part)
	}
	w.tensors, w.places = make([]tensor, 0, min(total, maxTensors)), make(map[string]int, min(total, maxTensors))
	var twice []string
	for n, part := range parts {
		if len(w.tensors)+len(part) > maxTensors {
			return source.InField(folder.Name(), "", "its weight files list more than %d tensors", maxTensors)
		}
		place := make([]int, len(part))
		for i, t := range part {
			if t.twin >= 0 {
				t.twin = place[t.twin]
			}
			if at, known := w.places[t.name]; known {
				place[i] = at
				twice = append(twice, t.name)
				continue
			}
			place[i] = len(w.tensors)
			w.places[t.name] = place[i]
			w.tensors = append(w.tensors, t)
			if t.twin >= 0 {
				continue
			}
			var fits bool
			if w.data, fits = bytesize.Add(w.data, t.bytes); !fits {
				return source.InField(w.files[n], quote(t.name), "%v", bytesize.ErrOverflow)
			}
		}
	}
	if len(twice) > 0 {
		w.warnings = append(w.warnings, warning("tensor_in_two_files", "%s: %d tensors are in more than one file and count once: %s", folder.Name(), len(twice), several(twice)))
	}
	return nil
}
