//go:build unix

package source_test

import (
	"net"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"floodmark/internal/source"
)

// Whatever has no size is refused before it is opened: opening a pipe into which
// nobody writes would never return.
func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for path, want := range map[string]string{
		pipe:        "is not a regular file (a named pipe)",
		socket:      "is not a regular file (a socket)",
		"/dev/null": "is not a regular file (a device)",
		dir:         "is not a regular file (a folder)",
	} {
		if _, err := source.Open(path); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
