package fakenvml

import (
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed testdata/nvml.c
var source []byte

//go:embed testdata/garbage.c
var garbage []byte

// Build makes the library in a new folder and gives its path. Flags are the
// compiler's: -DOLD, -DSTRIDE=32.
func Build(t testing.TB, scenario string, flags ...string) string {
	t.Helper()
	library := compile(t, source, flags...)
	Say(t, library, scenario)
	return library
}

// Garbage makes a library that answers with noise, another for each seed.
func Garbage(t testing.TB, seed int) string {
	t.Helper()
	return compile(t, garbage, fmt.Sprintf("-DSEED=%d", seed))
}

// compile makes a library of a source in a new folder.
func compile(t testing.TB, source []byte, flags ...string) string {
	t.Helper()
	compiler, err := exec.LookPath("cc")
	if err != nil {
		missing(t)
	}
	folder := t.TempDir()
	library, code := filepath.Join(folder, "libnvidia-ml.so.1"), filepath.Join(folder, "nvml.c")
	write(t, code, source)
	args := append([]string{"-shared", "-fPIC", "-O0", "-o", library, code, "-ldl"}, flags...)
	if out, err := exec.Command(compiler, args...).CombinedOutput(); err != nil {
		t.Fatalf("the library of the test: %v\n%s", err, out)
	}
	return library
}

// Say gives a library another scenario, which it takes when it is started again.
func Say(t testing.TB, library, scenario string) {
	t.Helper()
	write(t, filepath.Join(filepath.Dir(library), "scenario"), []byte(scenario))
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// missing skips a test for want of a compiler, where nobody relies on it.
func missing(t testing.TB) {
	t.Helper()
	const hint = "install a C compiler (apt-get install gcc libc6-dev)"
	if os.Getenv("CI") == "true" {
		t.Fatal(hint)
	}
	t.Skip("NOT RUN: " + hint)
}
