package oracle

import (
	"os"
	"path/filepath"
	"testing"
)

// Dir is the folder that ORACLES names. Without the variable the test is
// skipped; a relative path, or a folder that cannot be read or is empty, fails
// it.
func Dir(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("ORACLES")
	if dir == "" {
		t.Skip("name the folder of published facts: ORACLES=DIR scripts/oracles.sh")
	}
	if !filepath.IsAbs(dir) {
		t.Fatalf("ORACLES is %q, but tests run in their own folders: give an absolute path", dir)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatalf("ORACLES: %v", err)
	}
	if len(entries) == 0 {
		t.Fatalf("ORACLES: nothing lies in %s", dir)
	}
	return dir
}
