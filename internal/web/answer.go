package web

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"floodmark"
)

// allowed is the commands that a page may run: those that only read.
func allowed() []string {
	return []string{"estimate", "solve", "explain", "replay", "compare", "gpus", "decide"}
}

// writes is the flags by which such a command would make a file.
func writes() []string { return []string{"--output", "-o", "--html", "--markdown"} }

// answer runs a command and gives its record. The exit code is in a header, since
// "does not fit" is an answer and no error.
func (s *Server) answer(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Args []string `json:"args"`
	}
	if err := decode(w, r, &request); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if err := harmless(request.Args); err != nil {
		refuse(w, http.StatusForbidden, err.Error())
		return
	}
	select {
	case s.answers <- struct{}{}:
		defer func() { <-s.answers }()
	case <-r.Context().Done():
		return
	}
	document, exit := s.options.Answer(r.Context(), request.Args)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("X-Exit-Code", strconv.Itoa(exit))
	_, _ = w.Write(document)
}

// models lists the names that a page suggests.
func (s *Server) models(w http.ResponseWriter, _ *http.Request) {
	list, err := floodmark.CatalogueModels()
	reply(w, map[string]any{"models": list}, err)
}

// harmless refuses what would do more than read.
func harmless(args []string) error {
	if len(args) == 0 || !slices.Contains(allowed(), args[0]) {
		return fmt.Errorf("a page runs one of %s", strings.Join(allowed(), ", "))
	}
	for _, arg := range args[1:] {
		name, _, _ := strings.Cut(arg, "=")
		for _, flag := range writes() {
			// A short flag takes its value without a space too.
			if name == flag || (len(flag) == 2 && strings.HasPrefix(arg, flag)) {
				return fmt.Errorf("a page makes no files: %s", flag)
			}
		}
	}
	return nil
}

// decode reads a small JSON request.
func decode(w http.ResponseWriter, r *http.Request, into any) error {
	if kind, _, _ := strings.Cut(r.Header.Get("Content-Type"), ";"); kind != "application/json" {
		return fmt.Errorf("a request is application/json, not %.40q", kind)
	}
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxRequest))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("the request is malformed: %w", err)
	}
	return nil
}

// upload keeps a file that the browser sends, and gives the path under which
// commands read it. It lives as long as the server.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	name := filepath.Base(r.URL.Query().Get("name"))
	if err := named(name); err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	if r.ContentLength > s.options.MaxUpload {
		refuse(w, http.StatusRequestEntityTooLarge, tooLarge(s.options.MaxUpload))
		return
	}
	body := &received{from: http.MaxBytesReader(w, r.Body, s.options.MaxUpload)}
	path, err := s.traces.keep(name, body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		refuse(w, http.StatusRequestEntityTooLarge, tooLarge(s.options.MaxUpload))
	case body.broken != nil:
		refuse(w, http.StatusBadRequest, "the file did not arrive whole: "+body.broken.Error())
	case err != nil:
		refuse(w, http.StatusInternalServerError, err.Error())
	default:
		send(w, http.StatusOK, map[string]string{"path": path})
	}
}

// received is what somebody sends. It tells a body that broke off or is malformed
// from a disk that takes no more.
type received struct {
	from   io.Reader
	broken error
}

func (r *received) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && err != io.EOF {
		r.broken = err
	}
	return n, err
}

// maxName is the longest name of a file that file systems take, in bytes.
const maxName = 255

// named refuses a name that no file can have.
func named(name string) error {
	switch {
	case len(name) > maxName:
		return fmt.Errorf("the name of the file has %d bytes, and a file's has at most %d: give it a shorter one", len(name), maxName)
	case !utf8.ValidString(name):
		return errors.New("the name of the file is not UTF-8, in which its path is given back")
	case strings.ContainsRune(name, 0):
		return errors.New("the name of the file holds a NUL, which no file's name can")
	}
	return nil
}

func tooLarge(most int64) string {
	return fmt.Sprintf("the file is larger than %d MiB; start floodmark serve with its path instead", most>>20)
}

// keep writes an upload into the server's own folder.
func (t *traces) keep(name string, body io.Reader) (string, error) {
	dir, err := t.folder()
	if err != nil {
		return "", err
	}
	own, err := os.MkdirTemp(dir, "upload-")
	if err != nil {
		return "", err
	}
	if name == "." || name == string(filepath.Separator) || name == ".." {
		name = "upload"
	}
	f, err := os.OpenFile(filepath.Join(own, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, body)
	if err = errors.Join(err, f.Close()); err != nil {
		os.RemoveAll(own)
		return "", err
	}
	return f.Name(), nil
}
