package eager_test

import (
	"slices"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/dtype"
	"floodmark/estimate"
	"floodmark/estimate/eager"
	"floodmark/model/load"
	"floodmark/workload"
)

func noted(a account.Account, code string) string {
	i := slices.IndexFunc(a.Warnings, func(w account.Warning) bool { return w.Code == code })
	if i < 0 {
		return ""
	}
	return a.Warnings[i].Text
}

// Plain generation keeps a shared prefix for each sequence; serving once.
func TestSharedPrefix(t *testing.T) {
	w := generation(100, 0, 4)
	w.Inputs[0].Dimensions[workload.SharedPrefix] = 60
	const position = 2 * 2 * (16 + 16) * 2 // two layers of two heads
	for _, c := range []struct {
		e         estimate.Engine
		positions int64
		noted     bool
	}{{eager.Engine{}, 400, true}, {eager.Serving{}, 220, false}} {
		a := accounts(t, c.e, read(t, tiny), w, "")[0]
		if n, _ := in(t, a, account.PhaseDecode, account.TermKVCache).IsExact(); n != c.positions*position {
			t.Errorf("%s caches %d", c.e.Name(), n)
		}
		if (noted(a, "prefix_not_shared") != "") != c.noted {
			t.Errorf("%s: %v", c.e.Name(), a.Warnings)
		}
	}
}

// A format of the cache that transformers does not use by itself is noted.
func TestDeclaredCacheFormat(t *testing.T) {
	w := generation(100, 0, 1)
	for format, want := range map[dtype.Format]bool{dtype.F8E4M3: true, dtype.BF16: false, dtype.Unknown: false} {
		w.Precision.Cache = format
		a := accounts(t, eager.Engine{}, read(t, tiny), w, "")[0]
		if got := noted(a, "cache_format_declared"); (got != "") != want {
			t.Errorf("%s: %q", format, got)
		}
	}
}

// Latent attention says in which form it is cached, with the other's figure:
// 27 layers × 16 heads × (192 + 128) × 2 bytes, or 27 × (512 + 64) × 2.
func TestLatentCacheSaysItsForm(t *testing.T) {
	m, err := load.Model(t.Context(), "deepseek-ai/DeepSeek-V2-Lite", load.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []estimate.Engine{eager.Engine{}, eager.Serving{}} {
		text := noted(accounts(t, e, m, generation(100, 0, 1), "")[0], "latent_cache_form")
		if !strings.Contains(text, "276,480") || !strings.Contains(text, "31,104") {
			t.Errorf("%s: %q", e.Name(), text)
		}
	}
}

// Ranks that share experts may send all their positions to one of them: eight
// replicas bound a rank's activations higher than one does, and the low stays.
func TestRoutingMayBeUneven(t *testing.T) {
	ask := func(replicas, tensor int) account.Figure {
		w := generation(1024, 0, 1)
		w.Mesh.DataParallel, w.Mesh.ExpertParallel, w.Mesh.TensorParallel = replicas, replicas*tensor, tensor
		return in(t, accounts(t, eager.Serving{}, read(t, qwen3Sparse), w, "")[0], account.PhasePrefill, account.TermActivations)
	}
	alone, eight := ask(1, 1), ask(8, 1)
	one, _ := alone.High()
	high, known := eight.High()
	// Seven other replicas, each position to eight experts here.
	if foreign := int64(7 * 1024 * 8 * (2*2048 + 3*768) * 2); !known || high < foreign+one-4*mib || high > foreign+one || eight.Low() != alone.Low() {
		t.Errorf("activations are up to %d alone and %d of eight replicas", one, high)
	}
}

// Other engines are taken for serving in general, and that is said.
func TestOtherEnginesAreServing(t *testing.T) {
	w := generation(100, 0, 1)
	w.Engine = workload.Engine{Name: "vllm", Version: "0.11.0"}
	a := accounts(t, eager.Serving{}, read(t, tiny), w, "")[0]
	if !strings.Contains(noted(a, "engine_in_general"), "vllm") || noted(a, "fused_attention_assumed") == "" {
		t.Errorf("%v", a.Warnings)
	}
}
