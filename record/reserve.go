package record

import (
	"bytes"
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"floodmark/internal/source"
)

// Reservation is the name of a result that was taken before a long run. Until
// the result is written, the file holds a record that says that nothing was
// read, so that a run which is killed leaves a record too.
type Reservation struct {
	path string
	file fs.FileInfo
}

// ErrReplaced says that somebody put another file under a name that was taken.
var ErrReplaced = errors.New("was replaced while the run went on, and is not overwritten")

// Reserve creates the file exclusively, with a first record in it. Of two that
// ask for one name at once, one gets [ErrExists].
func Reserve(path string, first any) (*Reservation, error) {
	if err := Create(path, first); err != nil {
		return nil, err
	}
	info, err := os.Lstat(path)
	if err != nil {
		return nil, source.OfFile(path, err)
	}
	return &Reservation{path, info}, nil
}

// Write puts the record in place of the first one, whole or not at all.
func (r *Reservation) Write(record any) error {
	var b bytes.Buffer
	if err := Encode(&b, record); err != nil {
		return err
	}
	if err := r.owned(); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(r.path), "."+filepath.Base(r.path)+".*")
	if err != nil {
		return source.OfFile(r.path, err)
	}
	_, err = f.Write(b.Bytes())
	err = cmp.Or(err, f.Chmod(r.file.Mode().Perm()), f.Sync(), f.Close())
	if err == nil {
		err = cmp.Or(r.owned(), os.Rename(f.Name(), r.path))
	}
	if err != nil {
		os.Remove(f.Name())
		return source.OfFile(r.path, err)
	}
	return nil
}

// Discard gives the name back, where it still is the file that was reserved.
func (r *Reservation) Discard() {
	if r.owned() == nil {
		os.Remove(r.path)
	}
}

// owned reports whether the name still is the file that was created.
func (r *Reservation) owned() error {
	info, err := os.Lstat(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // taken away: the name is free
	case err != nil:
		return source.OfFile(r.path, err)
	// A number of an inode is used again, so the time counts as well.
	case !os.SameFile(info, r.file), info.Size() != r.file.Size(), !info.ModTime().Equal(r.file.ModTime()):
		return source.OfFile(r.path, ErrReplaced)
	}
	return nil
}
