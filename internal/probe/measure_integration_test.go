//go:build integration

package probe

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"floodmark/internal/checklist"
	"floodmark/measurement"
)

// These tests go all the way from a program under real PyTorch, with the
// stand-in in the place of the device, to a measurement.

// underStandIn is the environment of a program that meets the stand-in.
func underStandIn(t *testing.T, extra ...string) []string {
	t.Helper()
	return append(os.Environ(), append([]string{"PYTHONPATH=" + absolute(t, "testdata/standin"), "STANDIN=1"}, extra...)...)
}

// measured runs a program and gives its measurement.
func measured(t *testing.T, s Settings, args ...string) *measurement.Measurement {
	t.Helper()
	spool, err := NewSpool()
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Remove()
	var out bytes.Buffer
	m, err := Measure(spool, Program{Args: args, Env: underStandIn(t), Stdout: &out, Stderr: &out}, s)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Phases) == 0 {
		t.Fatalf("no phases; it printed %s", out.String())
	}
	return m
}

// names lists the phases of a process that had a device, in order; nested ones
// in parentheses.
func names(m *measurement.Measurement, process int) string {
	var list []string
	for _, p := range m.Phases {
		switch {
		case p.Process != process || p.Device < 0:
		case p.Nested:
			list = append(list, "("+p.Name+")")
		default:
			list = append(list, p.Name)
		}
	}
	return strings.Join(list, " ")
}

// The lab as a person runs it; a CPU without the stand-in measures nothing.
func TestMeasureLabPyTorch(t *testing.T) {
	checklist.Covers(t, 96, 109, 115)
	for _, python := range torches(t, "torch") {
		lab := Lab{Python: python, Device: "cuda:0", Batch: 1, Context: 4, Width: 16, Dtype: "float32", Warmup: 1, Repeats: 2}
		spool, err := NewSpool()
		if err != nil {
			t.Fatal(err)
		}
		defer spool.Remove()
		m, err := MeasureLab(spool, lab, underStandIn(t, "STANDIN_VISIBLE=1"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := names(m, 0), "model_load inputs cold_forward warmup warm_forward warm_forward "+measurement.WholeProcess; got != want {
			t.Errorf("the phases are %s, want %s", got, want)
		}
		if m.Subject != measurement.Lab || *m.Policy.Warmup != 1 || *m.Policy.Repeats != 2 || m.Environment.PyTorch == "" {
			t.Errorf("measured %+v in %+v", m.Policy, m.Environment)
		}
		without, err := NewSpool()
		if err != nil {
			t.Fatal(err)
		}
		defer without.Remove()
		var impossible *ImpossibleError
		if _, err := MeasureLab(without, lab, append(os.Environ(), "CUDA_VISIBLE_DEVICES="), nil); !errors.As(err, &impossible) || impossible.Missing != "a GPU" {
			t.Errorf("without a GPU: %v", err)
		}
	}
}

// An unmodified Trainer script, from two updates to its save.
func TestMeasureTrainerPyTorch(t *testing.T) {
	checklist.Covers(t, 39)
	for _, python := range torches(t, "torch", "transformers", "accelerate") {
		m := measured(t, Settings{}, python, program(t, "trainer.py"), t.TempDir())
		got := names(m, 0)
		for _, want := range []string{"forward (loss) backward optimizer_step", "evaluation", "save", measurement.WholeProcess} {
			if !strings.Contains(got, want) {
				t.Errorf("the phases are %s, want %s among them", got, want)
			}
		}
		if !m.Policy.Instrumented || m.Outcome.Status != 0 || len(m.Accounts()) != 1 {
			t.Errorf("instrumented %v, status %d, %d accounts", m.Policy.Instrumented, m.Outcome.Status, len(m.Accounts()))
		}
		verifying := measured(t, Settings{NoPhases: true}, python, program(t, "trainer.py"), t.TempDir())
		if got := names(verifying, 0); got != measurement.WholeProcess || verifying.Policy.Instrumented {
			t.Errorf("the verifying run has %s, instrumented %v", got, verifying.Policy.Instrumented)
		}
	}
}

// Two ranks of which one is killed: both are there, the killed one cut.
func TestMeasureRanksPyTorch(t *testing.T) {
	checklist.Covers(t, 84)
	for _, python := range torches(t, "torch") {
		if exec.Command(python, "-m", "torch.distributed.run", "--nproc_per_node", "1", "--no_python", "true").Run() != nil {
			t.Logf("NOT RUN under %s: its torch.distributed.run does not run by itself", filepath.Base(python))
			continue
		}
		m := measured(t, Settings{}, python, "-m", "torch.distributed.run", "--nproc_per_node", "2", program(t, "ranks.py"))
		status := map[int]measurement.RankStatus{}
		for _, r := range m.Ranks {
			status[r.Rank] = r.Status
		}
		if status[1] != measurement.RankCut || status[0] == "" || status[0] == measurement.RankMissing || m.Complete() || m.Outcome.Status == 0 {
			t.Errorf("the ranks are %v, status %d", status, m.Outcome.Status)
		}
	}
}
