package load_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"floodmark/dtype"
	"floodmark/internal/hub"
	"floodmark/internal/source"
	"floodmark/model/load"
)

const commit = "0123456789abcdef0123456789abcdef01234567"

// serve is a hub that has one folder as org/model.
func serve(t *testing.T, root string) hub.Settings {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/api/models/org/model/revision/main", func(w http.ResponseWriter, _ *http.Request) {
		entries, _ := os.ReadDir(root)
		names := []string{}
		for _, e := range entries {
			names = append(names, `{"rfilename": "`+e.Name()+`"}`)
		}
		w.Write([]byte(`{"sha": "` + commit + `", "siblings": [` + strings.Join(names, ", ") + `]}`))
	})
	const prefix = "/org/model/resolve/" + commit + "/"
	mux.HandleFunc(prefix, func(w http.ResponseWriter, q *http.Request) {
		http.ServeFile(w, q, filepath.Join(root, strings.TrimPrefix(q.URL.Path, prefix)))
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return hub.Settings{Endpoint: server.URL, Pause: time.Millisecond}
}

// A name is a path, else a repository of the hub, else a model of the
// catalogue.
func TestModel(t *testing.T) {
	root := folder(t, map[string]any{"config.json": llama, "model.safetensors": llamaTensors(dtype.F32)})
	settings := serve(t, root)
	for _, c := range []struct {
		name, of string
		bytes    int64
		warnings []string
	}{
		{root, filepath.Base(root), 4 * llamaParameters, nil},
		{filepath.Join(root, "config.json"), filepath.Base(root), 2 * llamaParameters, nil},
		{filepath.Join(root, "model.safetensors"), filepath.Base(root), 4 * llamaParameters, nil},
		{"org/model", "org/model", 4 * llamaParameters, nil},
		{"https://huggingface.co/org/model", "org/model", 4 * llamaParameters, nil},
		{"llama-3.1-8b", "meta-llama/Llama-3.1-8B-Instruct", 16_060_522_496, nil},
		{"meta-llama/Llama-3.2-1B", "meta-llama/Llama-3.2-1B", 2_471_628_800, []string{"catalogue_instead_of_hub"}},
		{"timm/vit_base_patch16_224.augreg_in21k", "timm/vit_base_patch16_224.augreg_in21k", 4 * 86_567_656, []string{"timm_instead_of_hub"}},
	} {
		m, err := load.Model(context.Background(), c.name, load.Options{Hub: settings})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if n, exact := m.WeightsBytes().IsExact(); m.Name != c.of || n != c.bytes || !exact {
			t.Errorf("%s: %s of %d bytes, exact %v; want %s of %d", c.name, m.Name, n, exact, c.of, c.bytes)
		}
		if got := codes(m); len(got)+len(c.warnings) > 0 && !slices.Equal(got, c.warnings) {
			t.Errorf("%s: warnings %v", c.name, m.Warnings)
		}
	}
}

func TestModelRefuses(t *testing.T) {
	settings := serve(t, t.TempDir())
	for _, c := range []struct{ name, text, hint string }{
		{"qwen3", "is the beginning of several names: Qwen/Qwen3-0.6B, ", "write one of them"},
		{"nothing-known", "is no file or folder, and no name of the catalogue", "llama-3.1-8b"},
		{"org/other", "is not found on the hub", "org/name@revision; there is no file or folder of that name here"},
		{"org/model", "has no config.json and no weight file", "name a Hugging Face model folder"},
	} {
		_, err := load.Model(context.Background(), c.name, load.Options{Hub: settings})
		var f *source.FormatError
		if !errors.As(err, &f) || !strings.Contains(err.Error(), c.text) || !strings.Contains(f.Hint, c.hint) {
			t.Errorf("%s: %v (%+v)", c.name, err, f)
		}
	}
	_, err := load.Model(context.Background(), "nothing-known", load.Options{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v is not fs.ErrNotExist", err)
	}
}

// A repository may hold one model in many GGUF files; a part of a name after a
// colon chooses, as llama.cpp's -hf does.
func TestSelectedFile(t *testing.T) {
	data, err := os.ReadFile("../../internal/gguf/testdata/python.gguf")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	settings := serve(t, folder(t, map[string]any{"a-Q4_K_M.gguf": text, "a-Q8_0.gguf": text, "mmproj-a.gguf": text, "config.json": llama}))
	for name, want := range map[string]string{
		"org/model:q8_0":               "",
		"org/model:a-Q4_K_M.gguf":      "",
		"org/model:config.json":        "",
		"org/model:Q5_K_M":             "is 0 of the GGUF models there",
		"org/model:Q":                  "is 2 of the GGUF models there",
		"org/model@main:a-Q4_K_M.gguf": "",
	} {
		m, err := load.Model(context.Background(), name, load.Options{Hub: settings})
		if want == "" && (err != nil || m.WeightsBytes().Low() == 0) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
}

// A folder of the hub's cache is the model of its main revision.
func TestCacheFolder(t *testing.T) {
	snapshot := "models--org--name/snapshots/" + commit + "/"
	root := folder(t, map[string]any{"models--org--name/refs/main": commit, snapshot + "config.json": llama, snapshot + "model.safetensors": llamaTensors(dtype.F32)})
	m, err := load.Open(filepath.Join(root, "models--org--name"))
	if err != nil {
		t.Fatal(err)
	}
	if n, exact := m.WeightsBytes().IsExact(); m.Name != "org/name" || n != 4*llamaParameters || !exact {
		t.Errorf("%s of %d bytes, exact %v", m.Name, n, exact)
	}
}
