package hub_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"floodmark/internal/hub"
	"floodmark/internal/source"
)

func TestParseName(t *testing.T) {
	for text, want := range map[string]string{
		"meta-llama/Llama-3.1-8B":          "meta-llama/Llama-3.1-8B",
		"org/name@v1.0":                    "org/name@v1.0",
		"org/name@refs/pr/3":               "org/name@refs/pr/3",
		"org/name:Q4_K_M":                  "org/name:Q4_K_M",
		"org/name@v1:UD/a-00001.gguf":      "org/name@v1:UD/a-00001.gguf",
		"https://huggingface.co/org/name":  "org/name",
		"https://huggingface.co/org/name/": "org/name",
		"name":                             "", "a/b/c": "", "../x": "", "a/..": "", "a/b@": "", "a/b@../c": "", "a/-b": "", "a/b c": "", "a/b--c": "", "/b": "", "": "", "a/b:": "", "a/b:../c": "",
	} {
		n, ok := hub.ParseName(text)
		if ok != (want != "") || ok && n.String() != want {
			t.Errorf("%q is %q, %v; want %q", text, n, ok, want)
		}
	}
}

func TestCacheName(t *testing.T) {
	for folder, want := range map[string]string{"models--org--name": "org/name", "models--gpt2": "", "datasets--org--name": "", "models--a--b--c": "", "org": ""} {
		n, ok := hub.CacheName(folder)
		if ok != (want != "") || ok && n.String() != want {
			t.Errorf("%q is %q, %v; want %q", folder, n, ok, want)
		}
	}
}

func TestFromEnvironment(t *testing.T) {
	under := func(base string) hub.Settings {
		base = filepath.FromSlash(base)
		return hub.Settings{Endpoint: "https://huggingface.co", Saved: filepath.Join(base, "token"), Cache: filepath.Join(base, "hub")}
	}
	for _, c := range []struct {
		name string
		env  map[string]string
		want hub.Settings
	}{
		{"nothing set", nil, under("/h/.cache/huggingface")},
		{"a mirror", map[string]string{"HF_ENDPOINT": "https://hub.example/", "HF_TOKEN": " t ", "HF_TOKEN_PATH": "/t", "HF_HUB_CACHE": "/c"},
			hub.Settings{Endpoint: "https://hub.example", Token: "t", Saved: "/t", Cache: "/c"}},
		{"offline", map[string]string{"HF_HUB_OFFLINE": "yes", "HF_HUB_CACHE": "/c", "HF_HUB_DISABLE_IMPLICIT_TOKEN": "1"}, hub.Settings{Endpoint: "https://huggingface.co", Offline: true, Cache: "/c"}},
		{"a home of its own", map[string]string{"HF_HUB_OFFLINE": "0", "HF_HOME": "/x"}, under("/x")},
		{"caches elsewhere", map[string]string{"XDG_CACHE_HOME": "/y"}, under("/y/huggingface")},
	} {
		if got := hub.FromEnvironment(func(k string) string { return c.env[k] }, "/h"); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// A large file is read where it is asked for, a range at a time.
func TestRanges(t *testing.T) {
	data := pattern(3 << 20)
	r := &repository{files: map[string][]byte{"a.safetensors": data, "config.json": []byte("{}"), "empty": {}}}
	f, err := r.open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	files, err := f.Files(ctx)
	if err != nil || !slices.Equal(files, []string{"a.safetensors", "config.json", "empty"}) {
		t.Fatalf("files %v, %v", files, err)
	}
	s, err := f.Open(ctx, "a.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	if s.Size() != int64(len(data)) || s.Name() != "org/model/a.safetensors" {
		t.Errorf("%s has %d bytes, want %d", s.Name(), s.Size(), len(data))
	}
	for _, span := range [][2]int{{0, 8}, {5, 300_000}, {len(data) - 22, 22}, {1 << 20, 100}, {0, 8}, {262_144, 262_144}} {
		got := make([]byte, span[1])
		if _, err := s.ReadAt(got, int64(span[0])); err != nil || !bytes.Equal(got, data[span[0]:span[0]+span[1]]) {
			t.Errorf("%v: other bytes, %v", span, err)
		}
	}
	before := r.requests()
	if got, err := io.ReadAll(source.Stream(s)); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the whole file: other bytes, %v", err)
	}
	if more := r.requests() - before; more > 6 {
		t.Errorf("a list of 3 MiB took %d requests; they should grow", more)
	}
	if n, err := s.ReadAt(make([]byte, 10), int64(len(data))-4); n != 4 || err != io.EOF {
		t.Errorf("across the end: %d bytes, %v", n, err)
	}
	if e, err := f.Open(ctx, "empty"); err != nil || e.Size() != 0 {
		t.Errorf("an empty file: %v", err)
	}
	if _, err := f.Open(ctx, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// refuses answers everything alike.
func refuses(status int, code string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("X-Error-Code", code)
		http.Error(w, "no", status)
		return true
	}
}

// What a hub, or what stands in its place, may answer to the first question.
func TestListRefused(t *testing.T) {
	for _, c := range []struct {
		name       string
		listed     func(http.ResponseWriter, *http.Request) bool
		text, hint string
		requests   int
	}{
		{"no such model, or a private one", refuses(401, "RepoNotFound"), "may not be read: the server answers 401", "HF_TOKEN", 1},
		{"a gated model", refuses(403, "GatedRepo"), "is gated", "HF_TOKEN", 1},
		{"an unknown name", refuses(404, "RepoNotFound"), "is not found on the hub", "check the name and the revision", 1},
		{"an unknown revision", refuses(404, "RevisionNotFound"), `has no revision "main"`, "after @", 1},
		{"a server that is broken", refuses(500, ""), "500 Internal Server Error", "try again later", 3},
		{"a server that is busy", refuses(429, ""), "asked too often", "HF_TOKEN", 3},
		{"a sign-in page", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<html>sign in</html>")
			return true
		}, "an HTML page, expected a list of files as JSON", "HF_ENDPOINT", 1},
		{"a list that is cut off", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Length", "1000")
			io.WriteString(w, `{"sha"`)
			return true
		}, "cut off after 6 bytes", "name its folder", 3},
		{"a list that is too long", func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Content-Length", "99999999999")
			return true
		}, "sends 99999999999 bytes", "a proxy may be in the way", 1},
		{"a redirect to itself", func(w http.ResponseWriter, q *http.Request) bool {
			http.Redirect(w, q, q.URL.Path, http.StatusFound)
			return true
		}, "redirects more than 5 times", "fetch the model", 6},
		{"a redirect to nowhere", func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(http.StatusFound)
			return true
		}, "redirects to no address", "fetch the model", 1},
		{"a redirect to a file", func(w http.ResponseWriter, q *http.Request) bool {
			http.Redirect(w, q, "file:///etc/passwd", http.StatusFound)
			return true
		}, `to "file", which is refused`, "fetch the model", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &repository{listed: c.listed}
			_, err := r.open(t, nil)
			var f *source.FormatError
			if !errors.As(err, &f) || !strings.Contains(err.Error(), c.text) || !strings.Contains(f.Hint, c.hint) {
				t.Fatalf("%v (%+v); want %q and hint %q", err, f, c.text, c.hint)
			}
			if r.requests() != c.requests {
				t.Errorf("%d requests, want %d", r.requests(), c.requests)
			}
		})
	}
}

// What a server may answer to a request for a range.
func TestFileRefused(t *testing.T) {
	ranged := func(header string, body string) func(http.ResponseWriter, *http.Request, []byte) bool {
		return func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			w.Header().Set("Content-Range", header)
			w.WriteHeader(http.StatusPartialContent)
			io.WriteString(w, body)
			return true
		}
	}
	for _, c := range []struct {
		name       string
		served     func(http.ResponseWriter, *http.Request, []byte) bool
		text, hint string
	}{
		{"without a range", ranged("", "abc"), `with "" and 3 bytes`, "proxy"},
		{"a range of another place", ranged("bytes 5-7/8", "abc"), `with "bytes 5-7/8" and 3 bytes`, "proxy"},
		{"a size of 2⁶³", ranged("bytes 0-2/9223372036854775808", "abc"), "9223372036854775808", "proxy"},
		{"a size that is not said", ranged("bytes 0-2/*", "abc"), `bytes 0-2/*`, "proxy"},
		{"fewer bytes than the range", ranged("bytes 0-7/8", "abc"), "and 3 bytes", "proxy"},
		{"more bytes than the file", ranged("bytes 0-1/2", "abc"), "and 3 bytes", "proxy"},
		{"a whole file too large to take in one piece", func(w http.ResponseWriter, _ *http.Request, _ []byte) bool {
			w.Header().Set("Content-Length", "5000000000")
			return true
		}, "sends 5000000000 bytes", "proxy"},
		{"denied", func(w http.ResponseWriter, q *http.Request, _ []byte) bool { return refuses(401, "")(w, q) }, "may not be read", "HF_TOKEN"},
		{"gone", func(w http.ResponseWriter, q *http.Request, _ []byte) bool {
			return refuses(404, "EntryNotFound")(w, q)
		}, `has no file "a"`, "another revision"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &repository{files: map[string][]byte{"a": pattern(1000)}, served: c.served}
			f, err := r.open(t, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = f.Open(context.Background(), "a")
			var e *source.FormatError
			if !errors.As(err, &e) || !strings.Contains(err.Error(), c.text) || !strings.Contains(e.Hint, c.hint) {
				t.Fatalf("%v (%+v); want %q and hint %q", err, e, c.text, c.hint)
			}
		})
	}
}

// A server that knows no ranges sends a small file whole, and that will do.
func TestWithoutRanges(t *testing.T) {
	data := pattern(600_000)
	r := &repository{files: map[string][]byte{"a": data}, served: func(w http.ResponseWriter, _ *http.Request, d []byte) bool {
		w.Write(d)
		return true
	}}
	f, err := r.open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Open(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(source.Stream(s)); err != nil || !bytes.Equal(got, data) {
		t.Errorf("other bytes, %v", err)
	}
}

// A file that changes while it is read is noticed by its size.
func TestFileChanges(t *testing.T) {
	r := &repository{files: map[string][]byte{"a": pattern(1 << 20)}}
	f, err := r.open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Open(context.Background(), "a")
	if err != nil {
		t.Fatal(err)
	}
	r.files["a"] = pattern(1<<20 - 1)
	if _, err := s.ReadAt(make([]byte, 10), 900_000); err == nil || !strings.Contains(err.Error(), "Content-Range") {
		t.Errorf("%v, want an error about the range", err)
	}
}

// A server that is broken once is asked again; one that is slow is not waited
// for.
func TestTries(t *testing.T) {
	failures := 0
	r := &repository{files: map[string][]byte{"a": pattern(10)}, served: func(w http.ResponseWriter, q *http.Request, _ []byte) bool {
		failures++
		return failures < 3 && refuses(503, "")(w, q)
	}}
	f, err := r.open(t, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open(context.Background(), "a"); err != nil || failures != 3 {
		t.Errorf("after %d tries: %v", failures, err)
	}

	release := make(chan struct{})
	slow := &repository{listed: func(http.ResponseWriter, *http.Request) bool { <-release; return true }}
	_, err = slow.open(t, func(s *hub.Settings) { s.Timeout = 20 * time.Millisecond })
	close(release)
	if err == nil || !strings.Contains(err.Error(), "did not answer in time") {
		t.Errorf("a slow server: %v", err)
	}
}

// The token is the hub's. Files lie on another host, which must not see it.
func TestTokenStays(t *testing.T) {
	seen := ""
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		seen = q.Header.Get("Authorization")
		http.ServeContent(w, q, "a", time.Time{}, bytes.NewReader(pattern(10)))
	}))
	defer elsewhere.Close()
	given := ""
	r := &repository{files: map[string][]byte{"a": nil}, served: func(w http.ResponseWriter, q *http.Request, _ []byte) bool {
		given = q.Header.Get("Authorization")
		http.Redirect(w, q, elsewhere.URL+"/blob?signature=x", http.StatusFound)
		return true
	}}
	f, err := r.open(t, func(s *hub.Settings) { s.Token = "secret" })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open(context.Background(), "a"); err != nil {
		t.Fatal(err)
	}
	if given != "Bearer secret" || seen != "" {
		t.Errorf("the hub was given %q and the other host %q", given, seen)
	}
}

// The token that a login saved is sent where no other is given.
func TestSavedToken(t *testing.T) {
	for saved, want := range map[string]string{"kept\n": "Bearer kept", "": "", "two words": ""} {
		path := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(path, []byte(saved), 0o600); err != nil {
			t.Fatal(err)
		}
		given := ""
		r := &repository{listed: func(_ http.ResponseWriter, q *http.Request) bool {
			given = q.Header.Get("Authorization")
			return false
		}}
		if _, err := r.open(t, func(s *hub.Settings) { s.Saved = path }); err != nil {
			t.Fatal(err)
		}
		if given != want {
			t.Errorf("%q saved: %q given, want %q", saved, given, want)
		}
	}
}

// cacheWith is a cache with one snapshot.
func cacheWith(t *testing.T, files ...string) string {
	t.Helper()
	root := t.TempDir()
	model := filepath.Join(root, "models--org--model")
	snapshot := filepath.Join(model, "snapshots", sha)
	for _, folder := range []string{snapshot, filepath.Join(model, "refs"), filepath.Join(model, "blobs")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range files {
		blob := filepath.Join(model, "blobs", name)
		if err := os.WriteFile(blob, []byte("cached"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(blob, filepath.Join(snapshot, name)); err != nil {
			t.Skipf("links cannot be made here: %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(model, "refs", "main"), []byte(sha+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return root
}

// The cache stands for the hub where that is switched off or out of reach, and
// for single files of the same commit.
func TestCache(t *testing.T) {
	cache := cacheWith(t, "config.json", "a.safetensors")
	content := func(t *testing.T, f source.Folder, file string) string {
		t.Helper()
		s, err := f.Open(context.Background(), file)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		data, err := source.ReadAll(s, 100)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	n, _ := hub.ParseName("org/model")
	pinned, _ := hub.ParseName("org/model@" + sha)
	for _, c := range []struct {
		name     string
		settings hub.Settings
		of       hub.Name
	}{
		{"switched off", hub.Settings{Endpoint: "http://127.0.0.1:1", Offline: true, Cache: cache}, n},
		{"no hub", hub.Settings{Cache: cache}, n},
		{"out of reach", hub.Settings{Endpoint: "http://127.0.0.1:1", Cache: cache, Pause: time.Millisecond}, n},
		{"a commit that is all there", hub.Settings{Endpoint: "http://127.0.0.1:1", Cache: cache}, pinned},
	} {
		f, err := hub.Open(context.Background(), c.settings, c.of)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if got := content(t, f, "config.json"); got != "cached" {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	r := &repository{files: map[string][]byte{"config.json": []byte("hub"), "b.safetensors": []byte("hub")}}
	f, err := r.open(t, func(s *hub.Settings) { s.Cache = cache })
	if err != nil {
		t.Fatal(err)
	}
	if a, b := content(t, f, "config.json"), content(t, f, "b.safetensors"); a != "cached" || b != "hub" {
		t.Errorf("config.json from %s and b.safetensors from %s", a, b)
	}
}

func TestNotCached(t *testing.T) {
	n, _ := hub.ParseName("org/model")
	for _, c := range []struct {
		settings hub.Settings
		hint     string
	}{
		{hub.Settings{Endpoint: "http://127.0.0.1:1", Offline: true, Cache: t.TempDir()}, "unset HF_HUB_OFFLINE"},
		{hub.Settings{Endpoint: "http://127.0.0.1:1", Pause: time.Millisecond}, "HF_ENDPOINT"},
		{hub.Settings{}, "name a folder"},
	} {
		_, err := hub.Open(context.Background(), c.settings, n)
		var f *source.FormatError
		if !errors.As(err, &f) || !strings.Contains(f.Hint, c.hint) {
			t.Errorf("%+v: %v (%s)", c.settings, err, fmt.Sprint(f))
		}
	}
}
