package oracle_test

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"floodmark/internal/oracle"
)

// witness is a test that notes how it ended instead of ending.
type witness struct {
	testing.TB
	skipped, failed bool
}

func (w *witness) Helper()               {}
func (w *witness) Skip(...any)           { w.skipped = true; runtime.Goexit() }
func (w *witness) Fatalf(string, ...any) { w.failed = true; runtime.Goexit() }

// watch calls Dir as a test would, in a goroutine of its own that Skip and
// Fatalf end.
func watch(t *testing.T) (dir string, w *witness) {
	w = &witness{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		dir = oracle.Dir(w)
	}()
	<-done
	return dir, w
}

func TestDir(t *testing.T) {
	full, empty := t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "facts"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, value     string
		dir             string
		skipped, failed bool
	}{
		{name: "not set: skipped", skipped: true},
		{name: "a folder", value: full, dir: full},
		{name: "no such folder: failed, not skipped", value: filepath.Join(full, "none"), failed: true},
		{name: "a file", value: filepath.Join(full, "facts"), failed: true},
		{name: "nothing in it", value: empty, failed: true},
		{name: "relative: means another folder in each package", value: "../shared", failed: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("ORACLES", c.value)
			dir, w := watch(t)
			if dir != c.dir || w.skipped != c.skipped || w.failed != c.failed {
				t.Errorf("dir %q, skipped %v, failed %v; want %q, %v, %v", dir, w.skipped, w.failed, c.dir, c.skipped, c.failed)
			}
		})
	}
}
