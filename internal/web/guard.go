package web

import (
	"crypto/subtle"
	"encoding/json"
	"net"
	"net/http"
	"strings"
)

// guard refuses what another page, another program or another machine asks, and
// tells the browser to hold the page to itself.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		switch {
		case !s.ours(r.Host):
			// A name of another machine that was made to point here.
			refuse(w, http.StatusMisdirectedRequest, "this server is called "+s.host)
		case r.Header.Get("Origin") != "" && r.Header.Get("Origin") != "http://"+r.Host:
			refuse(w, http.StatusForbidden, "another page asked")
		case r.Header.Get("Sec-Fetch-Site") == "cross-site":
			refuse(w, http.StatusForbidden, "another page asked")
		case strings.HasPrefix(r.URL.Path, "/api/") && !s.knows(r):
			refuse(w, http.StatusUnauthorized, "the token is missing or wrong: open the address that floodmark serve printed")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// ours reports a Host that names this server: its address, or localhost with its
// port.
func (s *Server) ours(host string) bool {
	if host == s.host {
		return true
	}
	_, port, err := net.SplitHostPort(s.host)
	return err == nil && host == "localhost:"+port
}

// knows reports the token in the header that only a page with the token sets: a
// form or an image of another page cannot.
func (s *Server) knows(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return ok && subtle.ConstantTimeCompare([]byte(token), []byte(s.Token)) == 1
}

// refuse answers with an error in words.
func refuse(w http.ResponseWriter, status int, message string) {
	send(w, status, map[string]string{"message": message})
}

func send(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the browser went away: nobody to tell
}
