package source

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// Folder is a place with files that belong together: a folder on this disk, or
// a repository of a hub at one revision.
type Folder interface {
	// Name is the folder as a person should read it in a message.
	Name() string
	// Files are the paths of its files below it, with slashes, sorted.
	Files(ctx context.Context) ([]string, error)
	// Open opens one of them. An error about a file that is not there is
	// fs.ErrNotExist.
	Open(ctx context.Context, file string) (Source, error)
}

// Dir is a folder on this disk. Its files are those that lie in it directly;
// links are followed, as the cache of a hub is made of them.
func Dir(path string) Folder { return dir(path) }

type dir string

func (d dir) Name() string { return string(d) }

func (d dir) Files(context.Context) ([]string, error) {
	entries, err := os.ReadDir(string(d))
	if err != nil {
		return nil, OfFile(string(d), err)
	}
	var files []string
	for _, e := range entries {
		if !e.IsDir() {
			files = append(files, e.Name())
		}
	}
	slices.Sort(files)
	return files, nil
}

func (d dir) Open(_ context.Context, file string) (Source, error) {
	if !filepath.IsLocal(filepath.FromSlash(path.Clean(file))) {
		return nil, InField(string(d), file, "lies outside the folder")
	}
	return Open(filepath.Join(string(d), filepath.FromSlash(file)))
}
