package modules_test

import (
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/estimate/eager/modules"
	"floodmark/internal/torch"
)

// A program is said to be of a release where that release was recorded, or lies
// between recorded ones.
func TestRecordedReleases(t *testing.T) {
	for _, c := range []struct {
		family, version string
		want            bool
	}{
		{"llama", "", true},
		{"llama", "5.1", true},
		{"llama", "4.57.3", true},
		{"llama", "4.44.2", true},
		{"llama", "4.40", true},
		{"llama", "4.35.2", true},
		{"llama", "4.28", true},
		{"llama", "4.27", false},
		{"mistral", "4.34.1", true},
		{"mistral", "4.44", false},
		{"qwen2", "4.38.2", true},
		{"qwen2", "4.40", false},
		{"gemma", "4.39", true},
		{"gemma", "4.40", false},
		{"bert", "4.16", true},
		{"bert", "4.48", false},
		{"qwen3_next", "4.57", false},
	} {
		release, err := modules.ParseRelease(c.version)
		if err != nil {
			t.Fatal(err)
		}
		if got := modules.Recorded(modelOf(t, c.family), release); got != c.want {
			t.Errorf("%s of transformers %q: %v", c.family, c.version, got)
		}
	}
}

// Sabotage: the program of another release misses what a release was recorded to
// do, wherever the table says that the two differ.
func TestAnotherReleaseMisses(t *testing.T) {
	for family, other := range map[string]string{
		"transformers-llama-4.29":   "4.30",
		"transformers-llama-4.30":   "4.31",
		"transformers-llama-4.31":   "4.29",
		"transformers-llama-4.36":   "4.35",
		"transformers-llama-4.38":   "4.39",
		"transformers-llama-4.39":   "4.40",
		"transformers-mistral-4.38": "4.36",
		"transformers-gemma-4.38":   "4.39",
		"transformers-llama-4.44":   "4.57",
		"transformers-llama-4.48":   "4.44",
		"transformers-llama-4.51":   "4.48",
		"transformers-llama-4.57":   "4.53",
	} {
		missed := 0
		for _, r := range readRecordings(t, family) {
			own := r.releaseOf("transformers")
			r.release = strings.Replace(r.release, own, other, 1)
			got, _ := simulate(t, r)
			if s := compare(t, r, got); s.worst() > 0.01 {
				missed++
			}
		}
		if missed == 0 {
			t.Errorf("the program of %s holds for %s too", other, family)
		}
	}
}

// What a class keeps beside its weights is as recorded, of releases that keep rotary
// tables or a mask.
func TestRecordedBuffers(t *testing.T) {
	for _, family := range []string{
		"transformers-llama-4.29", "transformers-llama-4.31", "transformers-llama-4.35", "transformers-llama-4.38",
		"transformers-llama-4.39", "transformers-llama-4.40", "transformers-mistral-4.34", "transformers-mistral-4.38", "transformers-qwen2-4.38",
	} {
		for _, r := range readRecordings(t, family) {
			if got, want := bufferBytes(t, r), r.start["buffers"]; got != want {
				t.Errorf("%s: %d bytes of buffers, want %d", r, got, want)
			}
		}
	}
}

// bufferBytes is what lives beside the weights once a model is made.
func bufferBytes(t *testing.T, r recorded) int64 {
	t.Helper()
	m := torch.New(torch.Options{Device: torch.CPU()})
	m.Phase(account.PhaseModelLoad, 0)
	modules.New(m, modelOf(t, r.family), optionsOf(r))
	tl, err := m.Timeline()
	if err != nil {
		t.Fatal(err)
	}
	var bytes int64
	for _, a := range tl.Allocs {
		if tl.Terms[a.Term].ID == account.TermBuffers {
			bytes += a.Requested
		}
	}
	return bytes
}
