package web

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"
)

// Answer runs one of the program's own commands, as the command line would, and
// gives its record and its exit code.
type Answer func(ctx context.Context, args []string) (document []byte, exit int)

// Options are what a server is made of.
type Options struct {
	Answer Answer
	Files  Files // the page
	// MaxUpload bounds one uploaded file; 0 is [DefaultUpload].
	MaxUpload int64
	// MaxTraces bounds how many traces are held open; 0 is [DefaultTraces]. The
	// one that was not looked at for longest makes room.
	MaxTraces int
}

// Bounds of what a page may ask for.
const (
	DefaultUpload = 2 << 30
	DefaultTraces = 4
	maxRequest    = 64 << 10 // bytes of a request that is no upload
	maxAnswers    = 2        // commands that run at once
)

// Server is the page and what it asks for. Its token is what tells the person
// who started it from every other program of the machine.
type Server struct {
	Token   string
	options Options
	traces  *traces
	answers chan struct{}
	host    string // the address that requests must name
}

// New makes a server with a token of its own.
func New(o Options) (*Server, error) {
	if o.MaxUpload == 0 {
		o.MaxUpload = DefaultUpload
	}
	if o.MaxTraces == 0 {
		o.MaxTraces = DefaultTraces
	}
	var token [16]byte
	if _, err := rand.Read(token[:]); err != nil {
		return nil, err
	}
	return &Server{Token: hex.EncodeToString(token[:]), options: o, traces: newTraces(o.MaxTraces), answers: make(chan struct{}, maxAnswers)}, nil
}

// Listen takes a port of the loopback address; 0 is any.
func (s *Server) Listen(port string) (net.Listener, error) {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		return nil, err
	}
	s.host = l.Addr().String()
	return l, nil
}

// URL is where the page is, with the token behind a "#": a browser sends that
// part to nobody.
func (s *Server) URL() string { return "http://" + s.host + "/#token=" + s.Token }

// Serve answers until the context ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{Handler: s.Handler(), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Serve(l) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
		s.traces.close()
		err := server.Close()
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	}
}

// Handler is everything behind its guard.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/answer", s.answer)
	mux.HandleFunc("POST /api/upload", s.upload)
	mux.HandleFunc("GET /api/models", s.models)
	mux.HandleFunc("POST /api/traces", s.openTrace)
	mux.HandleFunc("GET /api/traces/{id}/{device}/levels", s.levels)
	mux.HandleFunc("GET /api/traces/{id}/{device}/allocations", s.allocations)
	mux.HandleFunc("GET /api/traces/{id}/{device}/segments", s.segments)
	mux.HandleFunc("GET /api/traces/{id}/{device}/replay", s.replay)
	mux.HandleFunc("/api/", func(w http.ResponseWriter, r *http.Request) {
		refuse(w, http.StatusNotFound, "there is no "+r.URL.Path)
	})
	mux.HandleFunc("/", s.file)
	return s.guard(mux)
}

// file sends a file of the page. There are no folders, and no way out of them.
func (s *Server) file(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		refuse(w, http.StatusMethodNotAllowed, "the files of the page are read with GET, not "+r.Method)
		return
	}
	name := cmp.Or(strings.TrimPrefix(r.URL.Path, "/"), "index.html")
	text, known := s.options.Files[name]
	if !known {
		refuse(w, http.StatusNotFound, "there is no "+r.URL.Path)
		return
	}
	http.ServeContent(w, r, name, time.Time{}, strings.NewReader(text))
}
