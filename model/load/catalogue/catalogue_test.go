package catalogue_test

import (
	"errors"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/source"
	"floodmark/model/hfmodel"
	"floodmark/model/load/catalogue"
)

// Every entry is a model that is understood to the last byte, and says where
// it comes from.
func TestEntries(t *testing.T) {
	entries, err := catalogue.Entries()
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) < 40 {
		t.Errorf("%d models, want 40 or more", len(entries))
	}
	seen := map[string]bool{}
	for _, e := range entries {
		if key := strings.ToLower(e.ID); seen[key] {
			t.Errorf("%s stands twice", e.ID)
		} else {
			seen[key] = true
		}
		if !strings.HasPrefix(e.Origin, "https://github.com/") || len(e.Commit) != 40 || e.Path == "" {
			t.Errorf("%s has no origin: %+v", e.ID, e)
		}
		m, err := hfmodel.Read(source.Bytes(e.ID, e.Config))
		if err != nil {
			t.Errorf("%s: %v", e.ID, err)
			continue
		}
		if !exact(m.Parameters()) {
			t.Errorf("%s: parameters are not exact: %v", e.ID, m.Unknown)
		}
	}
}

func exact(f account.Figure) bool { _, ok := f.IsExact(); return ok }

// Parameters as their makers or the hub publish them (safetensors.total of the
// hub's API, without buffers and copies).
func TestParameters(t *testing.T) {
	for id, want := range map[string]int64{
		"meta-llama/Llama-3.1-8B-Instruct":   8_030_261_248,
		"meta-llama/Llama-3.1-70B-Instruct":  70_553_706_496,
		"meta-llama/Llama-3.2-1B":            1_235_814_400,
		"mistralai/Mistral-7B-Instruct-v0.3": 7_248_023_552,
		"Qwen/Qwen2.5-7B-Instruct":           7_615_616_512,
		"Qwen/Qwen3-32B":                     32_762_123_264,
		"google/gemma-2-9b-it":               9_241_705_984,
		"microsoft/Phi-3-mini-4k-instruct":   3_821_079_552,
		"openai/gpt-oss-20b":                 20_914_757_184,
		"openai/gpt-oss-120b":                116_829_156_672,
		"tiiuae/falcon-mamba-7b":             7_272_665_088,
		"bigscience/bloom-560m":              559_214_592,
	} {
		e, found, err := catalogue.Find(id)
		if err != nil || !found {
			t.Errorf("%s: %v, %v", id, found, err)
			continue
		}
		m, err := hfmodel.Read(source.Bytes(id, e.Config))
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		if got, _ := m.Parameters().IsExact(); got != want {
			t.Errorf("%s has %d parameters, want %d", id, got, want)
		}
	}
}

func TestFind(t *testing.T) {
	for name, want := range map[string]string{
		"llama-3.1-8b":      "meta-llama/Llama-3.1-8B-Instruct",
		"Llama-3.2-1B":      "meta-llama/Llama-3.2-1B",
		"QWEN/qwen3-32b":    "Qwen/Qwen3-32B",
		"qwen3-30b":         "Qwen/Qwen3-30B-A3B-FP8",
		"deepseek-v3":       "deepseek-ai/DeepSeek-V3",
		"gpt2":              "openai-community/gpt2",
		"no-such-model":     "",
		"":                  "",
		"llama-3.1-8b-inst": "",
	} {
		e, found, err := catalogue.Find(name)
		if err != nil || found != (want != "") || e.ID != want {
			t.Errorf("%q is %q, %v, %v; want %q", name, e.ID, found, err, want)
		}
	}
	for _, name := range []string{"qwen3", "llama-3.1", "gemma", "mistralai"} {
		_, _, err := catalogue.Find(name)
		var a *catalogue.AmbiguousError
		if name == "mistralai" {
			if err != nil {
				t.Errorf("%q is an owner, not a model: %v", name, err)
			}
			continue
		}
		if !errors.As(err, &a) || len(a.Candidates) < 2 {
			t.Errorf("%q: %v, want candidates", name, err)
		}
	}
}
