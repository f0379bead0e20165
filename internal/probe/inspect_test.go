package probe

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// Python started so that it ignores the probe is found out before it runs.
func TestDeaf(t *testing.T) {
	folder := t.TempDir()
	script := func(name, line string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(line+"\nprint(1)\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"python", "train.py"}, ""},
		{[]string{"/usr/bin/python3.12", "-I", "train.py"}, "-I makes Python ignore PYTHONPATH"},
		{[]string{"python3", "-uE", "train.py"}, "-E makes Python ignore PYTHONPATH"},
		{[]string{"python3", "-u", "-S", "-m", "train"}, "-S makes Python import no sitecustomize"},
		{[]string{"python3", "-X", "dev", "-W", "ignore", "-I", "train.py"}, "-I makes Python ignore PYTHONPATH"},
		{[]string{"python3", "-Xdev", "-Wignore::S", "train.py"}, ""},
		{[]string{"python3", "--check-hash-based-pycs", "always", "-S", "t.py"}, "-S makes Python import no sitecustomize"},
		{[]string{"python3", "train.py", "-I", "-S"}, ""},            // the program's own
		{[]string{"python3", "-m", "train", "-E"}, ""},               //
		{[]string{"python3", "-cimport sys; print('-I')", "-I"}, ""}, //
		{[]string{"python3", "-", "-I"}, ""},                         //
		{[]string{"sh", "-E"}, ""},
		{[]string{"no-such-program", "-I"}, ""},
		{[]string{script("plain", "#!/usr/bin/python3")}, ""},
		{[]string{script("isolated", "#!/usr/bin/python3 -I")}, "-I makes Python ignore PYTHONPATH"},
		{[]string{script("env", "#!/usr/bin/env -S python3 -E")}, "-E makes Python ignore PYTHONPATH"},
		{[]string{script("shell", "#!/bin/sh -E")}, ""},
		{[]string{script("binary", "\x7fELF\x00")}, ""},
	} {
		if got := Deaf(c.args); got != c.want {
			t.Errorf("%q: %q, want %q", c.args, got, c.want)
		}
	}
}

func TestRanks(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
	}{
		{[]string{"python", "train.py", "-n", "4"}, 0},
		{[]string{"torchrun", "--nproc_per_node", "2", "train.py"}, 2},
		{[]string{"/usr/bin/torchrun", "--nnodes=2", "--nproc-per-node=4", "train.py"}, 8},
		{[]string{"torchrun", "--nproc_per_node=gpu", "train.py"}, 0},
		{[]string{"accelerate", "launch", "--num_processes", "3", "train.py"}, 3},
		{[]string{"deepspeed", "--num_gpus", "2", "train.py"}, 2},
		{[]string{"mpirun", "-np", "4", "python", "train.py"}, 4},
		{[]string{"srun", "--ntasks=16", "python", "train.py"}, 16},
		{[]string{"torchrun", "--nproc_per_node"}, 0},
	} {
		if got := Ranks(c.args); got != c.want {
			t.Errorf("%q asks for %d ranks, want %d", c.args, got, c.want)
		}
	}
}

func TestStartable(t *testing.T) {
	folder := t.TempDir()
	plain := filepath.Join(folder, "plain")
	if err := os.WriteFile(plain, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		want int
	}{{"sh", 0}, {"no-such-program", 127}, {filepath.Join(folder, "none"), 127}, {plain, 126}, {folder, 126}} {
		err := Startable(c.name)
		got := 0
		var start *NotStartedError
		if errors.As(err, &start) {
			got = start.Status
		}
		if got != c.want || (err == nil) != (c.want == 0) {
			t.Errorf("%s: %v with status %d, want %d", c.name, err, got, c.want)
		}
	}
}
