package hub

import (
	"os"
	"path/filepath"
	"strings"

	"floodmark/internal/source"
)

// cachePrefix begins the name of a model's folder in the cache.
const cachePrefix = "models--"

// CacheName is the repository that a folder of the cache is of, by the folder's
// name: models--org--name.
func CacheName(folder string) (Name, bool) {
	rest, is := strings.CutPrefix(folder, cachePrefix)
	owner, model, two := strings.Cut(rest, "--")
	if !is || !two {
		return Name{}, false
	}
	return ParseName(owner + "/" + model)
}

// snapshot is the folder of the cache that holds a revision, and its commit;
// false when there is none. A branch or tag is a file under refs that holds the
// commit.
func (s Settings) snapshot(n Name) (folder, id string, ok bool) {
	if s.Cache == "" {
		return "", "", false
	}
	repository := filepath.Join(s.Cache, cachePrefix+n.Owner+"--"+n.Model)
	id = n.Revision
	if !isCommit(id) {
		id, _ = line(filepath.Join(repository, "refs", filepath.FromSlash(n.Revision)), 64)
		if !isCommit(id) {
			return "", "", false
		}
	}
	folder = filepath.Join(repository, "snapshots", id)
	info, err := os.Stat(folder)
	return folder, id, err == nil && info.IsDir()
}

// line is the text of a small regular file without the space around it; false
// for a longer one, and for a pipe, which would never answer.
func line(path string, longest int64) (string, bool) {
	src, err := source.Open(path)
	if err != nil {
		return "", false
	}
	defer src.Close()
	text, err := source.ReadAll(src, longest)
	return strings.TrimSpace(string(text)), err == nil
}
