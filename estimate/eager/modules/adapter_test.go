package modules_test

import (
	"testing"

	"floodmark/internal/checklist"
)

// TestAdaptersKeepActivations: with adapters the base has no gradients and no
// optimizer states, and what its forward keeps does not vanish: it is what the
// real modules keep, to the byte. A frozen linear layer keeps no input, so that it
// is less than full training keeps.
func TestAdaptersKeepActivations(t *testing.T) {
	checklist.Covers(t, 210)
	checklist.Covers(t, 211)
	kept := map[string]int64{}
	for _, r := range readRecordings(t, "llama") {
		if r.option("checkpointing") != "" || r.option("dtype") != "" || r.option("operation") != "" || r.flag("mask") {
			continue
		}
		got, unknown := simulate(t, r)
		if unknown != "" {
			t.Fatal(unknown)
		}
		want, have := phases(r.events), phases(got)
		if want[0].end != have[0].end {
			t.Errorf("%s: %d bytes live after the forward, want %d", r, have[0].end, want[0].end)
		}
		if r.number(1) == 256 && r.option("attention") == "" {
			kept[r.option("adapter")] = have[0].end
		}
		// Gradients and states are of the adapters alone: two moments in 32 bits
		// and a gradient, which lives until it is set to None.
		if r.option("adapter") != "" && have[2].end != 3*r.start["trained"] {
			t.Errorf("%s: %d bytes live after the step, want three times the %d that are trained", r, have[2].end, r.start["trained"])
		}
	}
	if kept["lora"] <= 0 || kept["lora"] >= kept[""] {
		t.Errorf("a forward keeps %d bytes with adapters and %d without", kept["lora"], kept[""])
	}
}
