package web

import (
	"errors"
	"net/http"
	"os"
	"strconv"
	"sync"

	"floodmark"
)

// traces holds the snapshots that are open, and the folder of uploads.
type traces struct {
	most int

	mutex  sync.Mutex
	open   []*held // the last looked at last
	number int
	dir    string
}

type held struct {
	id    string
	trace *floodmark.Trace
}

func newTraces(most int) *traces { return &traces{most: most} }

func (t *traces) folder() (string, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.dir == "" {
		dir, err := os.MkdirTemp("", "floodmark-serve-")
		if err != nil {
			return "", err
		}
		t.dir = dir
	}
	return t.dir, nil
}

func (t *traces) close() {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.dir != "" {
		os.RemoveAll(t.dir)
	}
}

// add holds a trace and lets go of the one that nobody has looked at for longest.
func (t *traces) add(trace *floodmark.Trace) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.number++
	id := strconv.Itoa(t.number)
	t.open = append(t.open, &held{id, trace})
	if len(t.open) > t.most {
		t.open = t.open[1:]
	}
	return id
}

func (t *traces) find(id string) (*floodmark.Trace, bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for i, h := range t.open {
		if h.id == id {
			t.open = append(append(t.open[:i:i], t.open[i+1:]...), h)
			return h.trace, true
		}
	}
	return nil, false
}

// openTrace reads a snapshot and describes its devices.
func (s *Server) openTrace(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Path string `json:"path"`
	}
	if err := decode(w, r, &request); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	trace, err := floodmark.OpenTrace(request.Path)
	if err != nil {
		reply(w, nil, err)
		return
	}
	send(w, http.StatusOK, map[string]any{"id": s.traces.add(trace), "name": trace.Name, "devices": trace.Devices()})
}

// view is what a question about a trace names.
type view struct {
	trace        *floodmark.Trace
	device       int
	from, to, at int
	n            int
}

// maxRows bounds what one answer holds.
const maxRows = 8192

func (s *Server) view(w http.ResponseWriter, r *http.Request) (view, bool) {
	trace, ok := s.traces.find(r.PathValue("id"))
	if !ok {
		refuse(w, http.StatusNotFound, "this trace is not open any more: open its file again")
		return view{}, false
	}
	v := view{trace: trace}
	query := r.URL.Query()
	var err error
	number := func(text string, or int) int {
		if text == "" {
			return or
		}
		n, failed := strconv.Atoi(text)
		err = errors.Join(err, failed)
		return n
	}
	v.device = number(r.PathValue("device"), 0)
	v.from, v.to, v.at = number(query.Get("from"), 0), number(query.Get("to"), int(^uint(0)>>1)), number(query.Get("at"), -1)
	v.n = min(max(number(query.Get("n"), 512), 0), maxRows)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return view{}, false
	}
	return v, true
}

// levels sends a level of detail as [levelColumns].
func (s *Server) levels(w http.ResponseWriter, r *http.Request) {
	v, ok := s.view(w, r)
	if !ok {
		return
	}
	l, err := v.trace.Levels(v.device, v.from, v.to, v.n)
	if err != nil {
		refuse(w, http.StatusNotFound, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(levelColumns(l)) // the browser went away: nobody to tell
}

func (s *Server) allocations(w http.ResponseWriter, r *http.Request) {
	if v, ok := s.view(w, r); ok {
		list, err := v.trace.Allocations(v.device, v.from, v.to, v.n)
		reply(w, map[string]any{"allocations": list}, err)
	}
}

func (s *Server) segments(w http.ResponseWriter, r *http.Request) {
	if v, ok := s.view(w, r); ok {
		list, err := v.trace.Segments(v.device, v.at)
		reply(w, map[string]any{"segments": list}, err)
	}
}

func (s *Server) replay(w http.ResponseWriter, r *http.Request) {
	if v, ok := s.view(w, r); ok {
		curve, err := v.trace.ReplayUnder(r.Context(), v.device, r.URL.Query().Get("conf"), v.from, v.to, v.n)
		reply(w, curve, err)
	}
}

// reply sends an answer, or why there is none: a file that is no snapshot is no
// fault of the page's request.
func reply(w http.ResponseWriter, v any, err error) {
	if err != nil {
		send(w, http.StatusOK, map[string]string{"error": err.Error()})
		return
	}
	send(w, http.StatusOK, v)
}
