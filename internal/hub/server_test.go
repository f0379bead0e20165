package hub_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"floodmark/internal/hub"
	"floodmark/internal/source"
)

const sha = "0123456789abcdef0123456789abcdef01234567"

// repository is a hub with one model, whose faults a test chooses.
type repository struct {
	files  map[string][]byte
	listed func(http.ResponseWriter, *http.Request) bool         // answers for the list, and says that it did
	served func(http.ResponseWriter, *http.Request, []byte) bool // the same for a file

	mu    sync.Mutex
	asked []string // path and range of each request, in order
}

// requests is how many requests there were.
func (r *repository) requests() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.asked)
}

func (r *repository) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.asked = append(r.asked, strings.TrimSpace(q.URL.Path+" "+q.Header.Get("Range")))
	r.mu.Unlock()
	if strings.HasPrefix(q.URL.Path, "/api/models/org/model/revision/") {
		if r.listed != nil && r.listed(w, q) {
			return
		}
		fmt.Fprintf(w, `{"sha": %q, "siblings": [`, sha)
		separator := ""
		for name := range r.files {
			fmt.Fprintf(w, `%s{"rfilename": %q}`, separator, name)
			separator = ", "
		}
		io.WriteString(w, `]}`)
		return
	}
	name, found := strings.CutPrefix(q.URL.Path, "/org/model/resolve/"+sha+"/")
	data, has := r.files[name]
	if !found || !has {
		http.NotFound(w, q)
		return
	}
	if r.served != nil && r.served(w, q, data) {
		return
	}
	http.ServeContent(w, q, name, time.Time{}, bytes.NewReader(data))
}

// open starts the server and opens its model.
func (r *repository) open(t *testing.T, change func(*hub.Settings)) (source.Folder, error) {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	s := hub.Settings{Endpoint: server.URL, Timeout: 5 * time.Second, Pause: time.Millisecond}
	if change != nil {
		change(&s)
	}
	n, ok := hub.ParseName("org/model")
	if !ok {
		t.Fatal("org/model is no name")
	}
	return hub.Open(context.Background(), s, n)
}

// pattern is bytes that tell where they stand.
func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i>>8) ^ byte(i)
	}
	return b
}
