package torch_test

import (
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/torch"
)

// TestOperatorsSabotaged: what was recorded under one release is not what the
// rules of another give, and one dropped event is found.
func TestOperatorsSabotaged(t *testing.T) {
	old, recent := readOperators(t, "testdata/operators_1.13.txt"), readOperators(t, "testdata/operators_2.15.txt")
	for _, c := range operatorCases() {
		want, is := recent[c.name]
		if !is {
			continue
		}
		got := c.events(t, torch.Release{Major: 2, Minor: 15})
		if strings.Join(got[1:], "\n") == want {
			t.Errorf("%s: a missing event is not found", c.name)
		}
		if c.name == "mean and square" && strings.Join(got, "\n") == old[c.name] {
			t.Errorf("%s: the rules of 2.15 give what 1.13 did", c.name)
		}
	}
}

// TestCheckpointSabotaged: one way to checkpoint is not another.
func TestCheckpointSabotaged(t *testing.T) {
	recorded := readOperators(t, "testdata/checkpoints_2.15.txt")
	for _, mode := range []string{"plain", "reentrant", "not reentrant"} {
		m := torch.New(torch.Options{Device: torch.CPU()})
		smallStep(m, mode)
		got := strings.Join(compact(finished(t, m)), "\n")
		for other, want := range recorded {
			if (got == want) != (other == mode) {
				t.Errorf("%s is taken for %s", mode, other)
			}
		}
	}
}

// TestMeasuredSabotaged: without the workspaces of cuBLAS no gated network peaks
// where it was measured.
func TestMeasuredSabotaged(t *testing.T) {
	for _, c := range measurements() {
		if !strings.Contains(c.name, "gated network") {
			continue
		}
		for size, want := range c.peaks {
			device := torch.A100()
			device.Workspace = 0
			m := torch.New(torch.Options{Device: device, Release: torch.Release{Major: 2, Minor: 4}})
			iterate := c.build(m, size)
			for step := range 3 {
				m.Phase(account.PhaseBackward, step+1)
				iterate()
			}
			if got := lastPeak(t, m); got > want*0.9999 {
				t.Errorf("%s, %d: %.3f MiB without workspaces, measured %.3f", c.name, size, got, want)
			}
		}
	}
}
