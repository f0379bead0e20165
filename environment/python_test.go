package environment

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"floodmark/internal/checklist"
)

// pythons are the real interpreters to try: those of FLOODMARK_TEST_PYTHONS, else
// python3.
func pythons(t *testing.T) []string {
	t.Helper()
	if list := os.Getenv("FLOODMARK_TEST_PYTHONS"); list != "" {
		return filepath.SplitList(list)
	}
	path, err := exec.LookPath("python3")
	switch {
	case err == nil:
		return []string{path}
	case os.Getenv("CI") == "true":
		t.Fatal("install Python 3 (apt-get install python3)")
	}
	t.Skip("NOT RUN: install Python 3 (apt-get install python3)")
	return nil
}

// packages makes a folder of Python files, and an environment in which they are
// found before all others.
func packages(t *testing.T, files map[string]string) []string {
	t.Helper()
	folder := t.TempDir()
	for path, text := range files {
		path = filepath.Join(folder, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return append(os.Environ(), "PYTHONPATH="+folder)
}

const versionFile = `from typing import Optional
__version__ = '2.8.0+cu128'
debug = False
cuda: Optional[str] = '12.8'
hip: Optional[str] = None
`

// standIn is a PyTorch of a few lines.
const standIn = `
from . import version
from .version import __version__
print("this PyTorch talks")
class cuda:
    get_allocator_backend = staticmethod(lambda: "native")
    device_count = staticmethod(lambda: 3)
`

// ask runs the script in every interpreter.
func ask(t *testing.T, environ []string, check func(t *testing.T, p Python)) {
	t.Helper()
	for _, path := range pythons(t) {
		p, err := askPython(context.Background(), path, environ, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if p.Version == "" || p.Executable == "" {
			t.Errorf("%s does not say what it is: %+v", path, p)
		}
		check(t, p)
	}
}

// What is installed is found without importing it, and PyTorch's own word counts
// where it can be imported. Nothing is written beside it.
func TestPythonFinds(t *testing.T) {
	checklist.Covers(t, 3, 4, 123)
	environ := packages(t, map[string]string{
		"torch/__init__.py":                        standIn,
		"torch/version.py":                         versionFile,
		"flash_attn-2.8.3.dist-info/METADATA":      "Metadata-Version: 2.1\nName: flash-attn\nVersion: 2.8.3\n",
		"bitsandbytes/__init__.py":                 "raise SystemExit(3)\n",
		"bitsandbytes-0.49.0.dist-info/METADATA":   "Metadata-Version: 2.1\nName: bitsandbytes\nVersion: 0.49.0\n",
		"xformers-0.0.1.dist-info/METADATA":        "Metadata-Version: 2.1\nName: xformers\n",
		"something_else-1.0.dist-info/METADATA":    "Metadata-Version: 2.1\nName: something-else\nVersion: 1.0\n",
		"transformer_engine-2.1.egg-info/PKG-INFO": "Metadata-Version: 2.1\nName: transformer-engine\nVersion: 2.1\n",
	})
	ask(t, environ, func(t *testing.T, p Python) {
		torch := p.Torch
		if !torch.Imported || torch.Version != "2.8.0+cu128" || torch.CUDA != "12.8" || torch.HIP != "" || torch.Allocator != "native" || torch.Devices == nil || *torch.Devices != 3 || torch.Problem != "" || p.Problem != "" {
			t.Errorf("%+v", p)
		}
		got := map[string]string{}
		for _, e := range p.Extensions {
			got[e.Name] = e.Version
		}
		if got["flash-attn"] != "2.8.3" || got["bitsandbytes"] != "0.49.0" || got["transformer-engine"] != "2.1" || got["something-else"] != "" {
			t.Errorf("%+v", got)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(torch.Path), "*", "__pycache__")); len(left) > 0 {
			t.Errorf("it left %v behind", left)
		}
	})
}

// However PyTorch fails, its version is known, and why it failed.
func TestPythonProblems(t *testing.T) {
	for _, c := range []struct {
		name, init, version string
		found               bool
		torch, python       string // part of what is said
	}{
		{"a library is missing", "raise ImportError('libcudart.so.12: cannot open shared object file')", "2.8.0+cu128", true, "ImportError: libcudart.so.12", ""},
		{"it leaves", "import sys; sys.exit(0)", "2.8.0+cu128", true, "SystemExit: 0", ""},
		{"it crashes", "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "2.8.0+cu128", true, "importing it: Python was ended by a signal: segmentation fault", "segmentation fault"},
		{"it ends the process", "import os; os._exit(5)", "2.8.0+cu128", true, "importing it: Python ended with status 5", "status 5"},
		{"it is no Python", "this is no code (", "2.8.0+cu128", true, "SyntaxError", ""},
		{"without cuda", "from .version import __version__\nfrom . import version", "2.8.0+cu128", true, "", ""},
		{"without anything", "pass", "2.8.0+cu128", true, "AttributeError", ""},
	} {
		environ := packages(t, map[string]string{"torch/__init__.py": c.init, "torch/version.py": versionFile})
		ask(t, environ, func(t *testing.T, p Python) {
			if p.Torch.Found != c.found || p.Torch.Version != c.version || !strings.Contains(p.Torch.Problem, c.torch) || !strings.Contains(p.Problem, c.python) || c.torch == "" && p.Torch.Problem != "" {
				t.Errorf("%s: %+v", c.name, p)
			}
		})
	}
	environ := packages(t, map[string]string{"torch/__init__.py": "raise ImportError('x')", "torch/version.py": "("})
	ask(t, environ, func(t *testing.T, p Python) {
		if p.Torch.Imported || !p.Torch.Found || p.Torch.Version != "" || !strings.Contains(p.Torch.Problem, "ImportError: x") {
			t.Errorf("a file of versions gone bad: %+v", p.Torch)
		}
	})
	environ = packages(t, map[string]string{"torch/readme.txt": "none"})
	ask(t, environ, func(t *testing.T, p Python) {
		// A real package further on is found instead.
		if !p.Torch.Imported && !strings.Contains(p.Torch.Problem, "is no package") {
			t.Errorf("a folder that is no package: %+v", p.Torch)
		}
	})
}

// A hang is cut short, and costs nothing that was said before it.
func TestPythonHangs(t *testing.T) {
	environ := packages(t, map[string]string{"torch/__init__.py": "import time; time.sleep(60)", "torch/version.py": versionFile})
	p, err := askPython(context.Background(), pythons(t)[0], environ, 2*time.Second)
	if err != nil || p.Version == "" || p.Torch.Version != "2.8.0+cu128" || !strings.Contains(p.Torch.Problem, "did not end in time") {
		t.Errorf("%+v, %v", p, err)
	}
}

// What lies in the caller's folder is not taken for what is installed.
func TestPythonIgnoresTheFolder(t *testing.T) {
	folder := t.TempDir()
	for _, name := range []string{"torch.py", "json.py", "ast.py"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("raise SystemExit('mine')"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list := pythons(t)
	t.Chdir(folder)
	p, err := askPython(context.Background(), list[0], os.Environ(), 60*time.Second)
	if err != nil || p.Problem != "" || strings.Contains(p.Torch.Problem, "mine") || strings.HasPrefix(p.Torch.Path, folder) {
		t.Errorf("%+v, %v", p, err)
	}
}

// Real PyTorches, where FLOODMARK_TEST_TORCH lists interpreters that have one.
func TestPythonRealTorch(t *testing.T) {
	list := filepath.SplitList(os.Getenv("FLOODMARK_TEST_TORCH"))
	if len(list) == 0 {
		t.Skip("NOT RUN: set FLOODMARK_TEST_TORCH to interpreters that have PyTorch, separated by colons")
	}
	for _, path := range list {
		p, err := askPython(context.Background(), path, os.Environ(), 2*time.Minute)
		if err != nil || !p.Torch.Imported || p.Torch.Version == "" || p.Torch.Devices == nil || p.Problem != "" {
			t.Errorf("%s: %+v, %v", path, p, err)
			continue
		}
		t.Logf("Python %s, PyTorch %s, CUDA %q, HIP %q, allocator %q, %d devices", p.Version, p.Torch.Version, p.Torch.CUDA, p.Torch.HIP, p.Torch.Allocator, *p.Torch.Devices)
	}
}
