package modules_test

import (
	"testing"

	"floodmark/estimate/eager/modules"
)

// TestPreferences compares the loss of DPOTrainer with what eight releases of TRL did
// on a CPU, and without one part of it after another with the same: the releases, the
// reference and the adapter that is off all show.
func TestPreferences(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*modules.Objective)
		agrees bool
	}{
		{"", func(*modules.Objective) {}, true},
		{"the reference's pass", func(o *modules.Objective) { o.Reference = modules.Precomputed }, false},
		{"its release: the newest", func(o *modules.Objective) { o.Release = modules.Release{} }, false},
		{"its release: that of 0.24", func(o *modules.Objective) { o.Release = modules.Release{Minor: 24} }, false},
		{"its release: that of 1.9", func(o *modules.Objective) { o.Release = modules.Release{Major: 1, Minor: 9} }, false},
	} {
		s := preferences(t, c.change)
		t.Logf("%q: %d peaks, %.1f %% within 1 %%, worst %.2f %%", c.name, len(s.errors), 100*s.within(0.01), 100*s.worst())
		if agrees := s.worst() <= 0.01; agrees != c.agrees || len(s.errors) < 100 {
			t.Errorf("without %s: %d peaks, worst %.2f %%", c.name, len(s.errors), 100*s.worst())
		}
	}
}

func preferences(t *testing.T, change func(*modules.Objective)) (s score) {
	for _, r := range readRecordings(t, "trl-0.8", "trl-0.11", "trl-0.12", "trl-0.15", "trl-0.24", "trl-0.29", "trl-1.9", "trl-1.16") {
		o := optionsOf(r)
		change(o.Objective)
		got, unknown := simulateWith(t, r, modelOf(t, r.family), o)
		if unknown != "" {
			t.Fatal(r, unknown)
		}
		s.add(compare(t, r, got))
	}
	return s
}
