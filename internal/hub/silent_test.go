//go:build unix

package hub_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"floodmark/internal/hub"
)

// A hub that accepts and says nothing is tried again only in what is left of
// the time: not for three times as long.
func TestSilentHub(t *testing.T) {
	done := make(chan struct{})
	r := &repository{listed: func(_ http.ResponseWriter, q *http.Request) bool {
		select {
		case <-q.Context().Done():
		case <-done:
		}
		return true
	}}
	defer close(done)
	_, err := r.open(t, func(s *hub.Settings) { s.Timeout = 600 * time.Millisecond })
	if err == nil || r.requests() > 2 {
		t.Errorf("after %d requests: %v", r.requests(), err)
	}
}

// A pipe in the place of a small file is not waited for.
func TestPipes(t *testing.T) {
	root := t.TempDir()
	pipe := filepath.Join(root, "models--org--model", "refs", "main")
	if err := os.MkdirAll(filepath.Dir(pipe), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	n, _ := hub.ParseName("org/model")
	if _, err := hub.Open(context.Background(), hub.Settings{Cache: root, Offline: true}, n); err == nil {
		t.Error("a revision was read from a pipe")
	}
	r := &repository{files: map[string][]byte{"config.json": []byte("{}")}}
	if _, err := r.open(t, func(s *hub.Settings) { s.Saved = pipe }); err != nil {
		t.Error(err)
	}
}
