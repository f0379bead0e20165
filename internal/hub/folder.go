package hub

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"floodmark/internal/source"
)

const (
	maxListing = 32 << 20
	maxFiles   = 100_000
)

// Open opens a repository: the hub's list of its files, those that the cache
// holds at the same commit from there. Without the hub the cache must do.
func Open(ctx context.Context, s Settings, n Name) (source.Folder, error) {
	cached, id, has := s.snapshot(n)
	if s.Offline || s.Endpoint == "" || has && isCommit(n.Revision) && complete(ctx, cached) {
		if has {
			return local{source.Dir(cached), n}, nil
		}
		return nil, n.notCached(s)
	}
	f := &folder{client: newClient(s), name: n, endpoint: s.Endpoint}
	err := f.list(ctx)
	var unreachable *source.FormatError
	if has && errors.Is(err, errUnreachable) && errors.As(err, &unreachable) {
		return local{source.Dir(cached), n}, nil
	}
	if err != nil {
		return nil, err
	}
	if has && id == f.commit {
		f.cached = cached
	}
	return f, nil
}

// complete reports whether a snapshot holds weights: then the hub, at the same
// commit, has nothing to add.
func complete(ctx context.Context, snapshot string) bool {
	files, _ := source.Dir(snapshot).Files(ctx)
	return slices.ContainsFunc(files, func(name string) bool {
		return slices.Contains([]string{".safetensors", ".bin", ".gguf"}, filepath.Ext(name))
	})
}

// notCached is the error of a repository that only the hub would have.
func (n Name) notCached(s Settings) error {
	where := s.Cache
	if where == "" {
		where = "no folder"
	}
	switch {
	case s.Offline:
		return n.fault(fs.ErrNotExist, "unset HF_HUB_OFFLINE, or name a folder that holds the model", "is not in the cache (%s), and the hub is switched off by HF_HUB_OFFLINE", where)
	default:
		return n.fault(fs.ErrNotExist, "name a folder that holds the model", "is not in the cache (%s), and there is no hub to ask", where)
	}
}

// local is a snapshot of the cache, called by the name of its repository.
type local struct {
	source.Folder
	name Name
}

func (l local) Name() string { return l.name.String() }

// folder is a repository on the hub.
type folder struct {
	*client
	name     Name
	endpoint string
	commit   string
	files    []string
	cached   string // the snapshot of the same commit; empty without one
}

func (f *folder) Name() string { return f.name.String() }

func (f *folder) Files(context.Context) ([]string, error) { return f.files, nil }

// list asks for the commit of the revision and its files.
func (f *folder) list(ctx context.Context) error {
	address := f.endpoint + "/api/models/" + f.name.Repository() + "/revision/" + url.PathEscape(f.name.Revision)
	a, err := f.get(ctx, address, "", maxListing)
	if err != nil {
		return f.explain(err, "")
	}
	var listing struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name string `json:"rfilename"`
		} `json:"siblings"`
	}
	if err := json.Unmarshal(a.body, &listing); err != nil {
		return f.name.fault(err, "is HF_ENDPOINT a hub? A proxy or a sign-in page may answer in its place", "the hub answers with %s, expected a list of files as JSON", kind(a))
	}
	if len(listing.Siblings) > maxFiles {
		return f.name.fault(nil, "name a folder that holds the model", "has %d files, more than the %d that are read", len(listing.Siblings), maxFiles)
	}
	if f.commit = listing.SHA; !isCommit(f.commit) {
		f.commit = ""
	}
	for _, s := range listing.Siblings {
		if s.Name != "" && filepath.IsLocal(filepath.FromSlash(s.Name)) {
			f.files = append(f.files, s.Name)
		}
	}
	slices.Sort(f.files)
	return nil
}

// kind says in a word what an answer is instead of JSON.
func kind(a *answer) string {
	if t := a.header.Get("Content-Type"); strings.Contains(t, "html") {
		return "an HTML page"
	}
	return "something else"
}

// Open opens a file in the cache, or asks the hub for its beginning.
func (f *folder) Open(ctx context.Context, file string) (source.Source, error) {
	if !slices.Contains(f.files, file) {
		return nil, f.name.fault(fs.ErrNotExist, "look at its files on the hub, or name another revision", "has no file %q", file)
	}
	if f.cached != "" {
		if s, err := source.Dir(f.cached).Open(ctx, file); err == nil {
			return s, nil
		}
	}
	at := f.commit
	if at == "" {
		at = f.name.Revision
	}
	parts := strings.Split(file, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	r := &remote{client: f.client, ctx: ctx, folder: f, file: file,
		address: f.endpoint + "/" + f.name.Repository() + "/resolve/" + url.PathEscape(at) + "/" + strings.Join(parts, "/")}
	if err := r.open(); err != nil {
		return nil, err
	}
	return r, nil
}
