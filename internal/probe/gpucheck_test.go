package probe

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// standins writes an interpreter that answers as a Python in some state would;
// none where text is empty.
func standins(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python3")
	if text == "" {
		return path
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// scripts/gpu_check.sh on a machine without a GPU says which of the two is
// missing, ends in 2 and leaves nothing, whatever state Python is in.
func TestGPUCheckWithoutGPU(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("NOT RUN: install bash")
	}
	script, err := filepath.Abs("../../scripts/gpu_check.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, python, want string }{
		{"no Python", "", "PyTorch is missing"},
		{"no PyTorch", `echo "PyTorch is missing: No module named 'torch'" >&2; exit 2`, "PyTorch is missing"},
		{"no GPU", `echo "a GPU is missing: PyTorch 2.15.0 finds none" >&2; exit 2`, "a GPU is missing"},
		{"PyTorch crashes", `kill -SEGV $$`, "PyTorch is missing: it cannot be loaded"},
		{"a Python that is none", `exit 1`, "PyTorch is missing: it cannot be loaded"},
		{"a Python that runs no script", `exit 127`, "PyTorch is missing: it cannot be loaded"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		cmd := exec.Command(bash, script, out)
		cmd.Env = append(os.Environ(), "PYTHON="+standins(t, c.python), "FLOODMARK=/nonexistent")
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		err := cmd.Run()
		if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(said.String(), c.want) {
			t.Errorf("%s: %v, said %q, want status 2 and %q", c.name, err, said.String(), c.want)
		}
		if _, err := os.Lstat(out); err == nil {
			t.Errorf("%s: it wrote %s", c.name, out)
		}
	}
}

// An existing folder is refused before anything is asked.
func TestGPUCheckOverwritesNothing(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("NOT RUN: install bash")
	}
	asked := filepath.Join(t.TempDir(), "asked")
	cmd := exec.Command(bash, "../../scripts/gpu_check.sh", t.TempDir())
	cmd.Env = append(os.Environ(), "PYTHON="+standins(t, "touch "+asked))
	said, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(said), "never overwritten") {
		t.Errorf("%v, said %q", err, said)
	}
	if _, err := os.Stat(asked); err == nil {
		t.Error("it asked Python before it looked at the name")
	}
}
