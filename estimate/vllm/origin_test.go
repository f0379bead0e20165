package vllm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every configuration says what it was compared with, and nothing else is listed.
func TestConfigurationsHaveOrigin(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "ORIGIN.md"))
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 3 || !strings.Contains(cells[0], "__") {
			continue
		}
		name, how, with := strings.TrimPrefix(cells[0], "| "), cells[1], strings.TrimSuffix(cells[2], " |")
		listed[name] = true
		switch how {
		case "whole", "sibling", "partly":
			if with == "—" {
				t.Errorf("%s: %s says with what", name, how)
			}
		case "none":
			if with != "—" {
				t.Errorf("%s: compared with none and with %s", name, with)
			}
		default:
			t.Errorf("%s: %q", name, how)
		}
	}
	files, err := filepath.Glob(filepath.Join("testdata", "models", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := strings.TrimSuffix(filepath.Base(f), ".json")
		if !listed[name] {
			t.Errorf("%s: the origin is not said", name)
		}
		delete(listed, name)
	}
	for name := range listed {
		t.Errorf("%s: is listed and is no file", name)
	}
}
