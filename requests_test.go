package floodmark

import (
	"context"
	"errors"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/fit"
	"floodmark/workload"
)

// The engine that a workload names is applied, or taken for serving in general,
// or refused with the list of those that are known.
func TestEnginesByName(t *testing.T) {
	for name, want := range map[string]string{"": "eager", "transformers": "eager", "serving": "serving", "vllm": "vllm", "sglang": "serving", "tensorrt_llm": "serving", "tgi": "serving"} {
		if got := predicted(t, generation(t, name)).Engine.Name(); got != want {
			t.Errorf("%q is estimated as %s, want %s", name, got, want)
		}
	}
	var settings *SettingsError
	if _, err := Estimate(context.Background(), generation(t, "bogus")); !errors.As(err, &settings) || !strings.Contains(err.Error(), "sglang") {
		t.Errorf("bogus: %v", err)
	}
}

// What contradicts itself is refused.
func TestRefusedRequests(t *testing.T) {
	prefix := generation(t, "serving")
	prefix.Workload.Inputs[0].Dimensions[workload.SharedPrefix] = 2049
	free := generation(t, "")
	free.Free = map[int]account.Figure{7: account.Exact(60<<30, account.Provenance{Scope: account.Device})}
	for want, r := range map[string]Request{"more than its context": prefix, "cuda:7": free} {
		var settings *SettingsError
		if _, err := Estimate(context.Background(), r); !errors.As(err, &settings) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// A card whose memory is the system's too proves no fit until somebody says what
// is free of it; it can still prove to be too small.
func TestUnifiedMemory(t *testing.T) {
	for _, name := range []string{"jetson-agx-orin-64gb", "gb10-dgx-spark", "jetson-agx-thor-128gb", "strix-halo", "apple-64gb"} {
		card, err := FindCard(name)
		if err != nil {
			t.Fatal(err)
		}
		r := generation(t, "")
		r.Card = &card
		v := predicted(t, r).Verdict
		if v.Value != fit.CannotTell {
			t.Errorf("%s: %s", name, v.Value)
		}
		if !strings.Contains(strings.Join(predicted(t, r).Verdict.Reasons, " "), "operating system") && card.Arch != "Apple Silicon" && card.Arch != "" {
			t.Errorf("%s: %v", name, v.Reasons)
		}
	}
	card, err := FindCard("gb10-dgx-spark")
	if err != nil {
		t.Fatal(err)
	}
	r := generation(t, "")
	r.Card, r.Free = &card, map[int]account.Figure{AnyDevice: account.Exact(60<<30, account.Provenance{Scope: account.Device})}
	if v := predicted(t, r).Verdict; v.Value != fit.Fits {
		t.Errorf("with 60 GiB free: %s %v", v.Value, v.Reasons)
	}
}
