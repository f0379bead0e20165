package hfmodel

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"floodmark/internal/source"
	"floodmark/model"
)

func timmOf(t *testing.T, config string) *model.Model {
	t.Helper()
	m, err := Read(source.Bytes("config.json", []byte(config)))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Every vision transformer that is described has the parameters that timm's own
// class counts.
func TestTimmCounts(t *testing.T) {
	f, err := os.Open("testdata/timm_parameters.tsv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	counted := 0
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var name string
		var want int64
		if n, _ := fmt.Sscan(lines.Text(), &name, &want); n != 2 {
			continue // what the table is of
		}
		m := timmOf(t, fmt.Sprintf(`{"architecture": %q}`, name))
		if got, known := m.Parameters().High(); !known || got != want || len(m.Unknown) > 0 {
			t.Errorf("%s has %d parameters, want %d; %v", name, got, want, m.Unknown)
		}
		counted++
	}
	if counted < 90 {
		t.Errorf("%d models were counted", counted)
	}
}

// What the configuration says counts beyond what the function gives; what is not
// described is named.
func TestTimmConfiguration(t *testing.T) {
	m := timmOf(t, `{"architecture": "vit_giant_patch14_dinov2", "num_classes": 45, "num_features": 1536, "global_pool": "token",
		"pretrained_cfg": {"input_size": [3, 518, 518]}, "model_args": {"img_size": 224, "drop_path_rate": 0.3}}`)
	if got, known := m.Parameters().High(); !known || got != 1134838829 || len(m.Unknown) > 0 {
		t.Errorf("%d parameters, %v", got, m.Unknown)
	}
	if p := m.Stacks[0].Manner.Pictures; p.Pool != "token" || p.DropPath != 0.3 || p.PooledNorm {
		t.Errorf("%+v", p)
	}
	for config, want := range map[string]string{
		`{"architecture": "convnext_base", "num_classes": 10}`:                                 "convnext_base",
		`{"architecture": "vit_base_patch16_224", "model_args": {"qk_norm": true}}`:            "qk_norm",
		`{"architecture": "vit_base_patch16_224", "model_args": {"block_fn": "ResPostBlock"}}`: "block_fn",
	} {
		m := timmOf(t, config)
		if len(m.Unknown) == 0 || !strings.Contains(m.Unknown[0].Field+m.Unknown[0].Value, want) {
			t.Errorf("%s: %v", config, m.Unknown)
		}
	}
}
