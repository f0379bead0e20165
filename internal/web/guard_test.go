package web

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// served is a server that answers every command with its own words.
func served(t *testing.T, o Options) (*Server, *httptest.Server) {
	t.Helper()
	if o.Answer == nil {
		o.Answer = func(_ context.Context, args []string) ([]byte, int) { return fmt.Appendf(nil, "%q", args), 3 }
	}
	if o.Files == nil {
		o.Files = Files{"index.html": "the page", "sub/x.js": "x"}
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ts := httptest.NewServer(s.Handler())
	s.host = strings.TrimPrefix(ts.URL, "http://")
	t.Cleanup(func() { ts.Close(); s.traces.close() })
	return s, ts
}

// call is one request; headers are pairs.
func call(t *testing.T, method, url, body string, headers ...string) (int, string, http.Header) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text), response.Header
}

const asked = `{"args":["estimate","llama-3.1-8b","--json"]}`

func TestWhoMayAsk(t *testing.T) {
	s, ts := served(t, Options{})
	token := "Bearer " + s.Token
	_, port, _ := strings.Cut(s.host, ":")
	for name, c := range map[string]struct {
		headers []string
		status  int
	}{
		"the page itself":             {[]string{"Authorization", token, "Origin", ts.URL, "Sec-Fetch-Site", "same-origin"}, 200},
		"a program with the token":    {[]string{"Authorization", token}, 200},
		"by the name localhost":       {[]string{"Authorization", token, "Host", "localhost:" + port}, 200},
		"no token":                    {nil, 401},
		"an empty token":              {[]string{"Authorization", "Bearer "}, 401},
		"another token":               {[]string{"Authorization", "Bearer " + strings.Repeat("0", 32)}, 401},
		"the token as a cookie":       {[]string{"Cookie", "token=" + s.Token}, 401},
		"another origin":              {[]string{"Authorization", token, "Origin", "http://example.org"}, 403},
		"a sandboxed origin":          {[]string{"Authorization", token, "Origin", "null"}, 403},
		"another port of this host":   {[]string{"Authorization", token, "Origin", "http://127.0.0.1:1"}, 403},
		"from another site":           {[]string{"Authorization", token, "Sec-Fetch-Site", "cross-site"}, 403},
		"another host":                {[]string{"Authorization", token, "Host", "example.org"}, 421},
		"another host with this port": {[]string{"Authorization", token, "Host", "example.org:" + port}, 421},
		"localhost without a port":    {[]string{"Authorization", token, "Host", "localhost"}, 421},
	} {
		t.Run(name, func(t *testing.T) {
			if status, text, _ := call(t, "POST", ts.URL+"/api/answer", asked, append(c.headers, "Content-Type", "application/json")...); status != c.status {
				t.Errorf("%d, want %d: %s", status, c.status, text)
			}
		})
	}
}

func TestPageIsHeldToItself(t *testing.T) {
	_, ts := served(t, Options{})
	status, text, header := call(t, "GET", ts.URL+"/", "")
	if status != 200 || text != "the page" || strings.Contains(header.Get("Content-Security-Policy"), "unsafe") || !strings.Contains(header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%d %q %v", status, text, header)
	}
	for _, method := range []string{"PUT", "DELETE", "POST", "TRACE"} {
		if status, text, _ := call(t, method, ts.URL+"/", ""); status != 405 {
			t.Errorf("%s: %d %s", method, status, text)
		}
	}
	for _, path := range []string{"/sub/", "/sub", "/../etc/passwd", "/..%2f..%2fetc%2fpasswd", "/%2e%2e/%2e%2e/etc/passwd", "/static/../../go.mod", "/index.html/../../x", "/api/nothing"} {
		r, _ := http.NewRequest("GET", ts.URL, nil)
		r.URL.Opaque = "//" + r.URL.Host + path
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode == 200 || strings.Contains(string(text), "root:") || strings.Contains(string(text), "module") {
			t.Errorf("%s: %d %q", path, response.StatusCode, text)
		}
	}
}

func TestOnlyWhatReads(t *testing.T) {
	s, ts := served(t, Options{})
	for body, want := range map[string]int{
		asked: 200,
		`{"args":["replay","a.pickle","--conf","x"]}`: 200,
		`{"args":[]}`:        403,
		`{"args":["serve"]}`: 403,
		`{"args":["measure","--","rm","-rf","/"]}`:                  403,
		`{"args":["sweep"]}`:                                        403,
		`{"args":["explain","a","--output","b"]}`:                   403,
		`{"args":["explain","a","--output=b"]}`:                     403,
		`{"args":["explain","a","-ob"]}`:                            403,
		`{"args":["explain","a","--html","b"]}`:                     403,
		`{"args":["explain"],"more":1}`:                             400,
		`{`:                                                         400,
		`{"args":["explain","` + strings.Repeat("x", 70000) + `"]}`: 400,
	} {
		status, text, header := call(t, "POST", ts.URL+"/api/answer", body, "Authorization", "Bearer "+s.Token, "Content-Type", "application/json")
		if status != want {
			t.Errorf("%.60s: %d, want %d: %.80s", body, status, want, text)
		}
		if status == 200 && header.Get("X-Exit-Code") != "3" {
			t.Errorf("%s: the exit code is %q", body, header.Get("X-Exit-Code"))
		}
	}
	if status, _, _ := call(t, "POST", ts.URL+"/api/answer", asked, "Authorization", "Bearer "+s.Token, "Content-Type", "text/plain"); status != 400 {
		t.Errorf("a form of another page may ask: %d", status)
	}
	if status, _, _ := call(t, "GET", ts.URL+"/api/answer", "", "Authorization", "Bearer "+s.Token); status == 200 {
		t.Error("a link may ask")
	}
}

func TestUploads(t *testing.T) {
	s, ts := served(t, Options{MaxUpload: 1000})
	token := []string{"Authorization", "Bearer " + s.Token}
	for name, want := range map[string]string{"a.pickle": "a.pickle", "../../x": "x", "..": "upload", "": "upload", "/etc/passwd": "passwd"} {
		status, text, _ := call(t, "POST", ts.URL+"/api/upload?name="+strings.ReplaceAll(name, "/", "%2F"), "content", token...)
		path := strings.TrimSuffix(strings.TrimPrefix(text, `{"path":"`), "\"}\n")
		if status != 200 || filepath.Base(path) != want || !strings.HasPrefix(path, s.traces.dir) {
			t.Errorf("%q: %d %s", name, status, text)
		}
		if kept, err := os.ReadFile(path); err != nil || string(kept) != "content" {
			t.Errorf("%q: %q, %v", name, kept, err)
		}
	}
	for name, want := range map[string]string{"a%00b": "NUL", "a%FF": "UTF-8", strings.Repeat("x", 256): "256 bytes", strings.Repeat("%C3%A4", 128): "256 bytes", strings.Repeat("d%2F", 100) + strings.Repeat("x", 300): "300 bytes"} {
		if status, text, _ := call(t, "POST", ts.URL+"/api/upload?name="+name, "content", token...); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%.20s: %d %s", name, status, text)
		}
	}
	if status, text, _ := call(t, "POST", ts.URL+"/api/upload?name="+strings.Repeat("x", 255), "content", token...); status != 200 {
		t.Errorf("the longest name: %d %s", status, text)
	}
	if status, text, _ := call(t, "POST", ts.URL+"/api/upload?name=x", strings.Repeat("x", 1001), token...); status != 413 {
		t.Errorf("too large: %d %s", status, text)
	}
	r, _ := http.NewRequest("POST", ts.URL+"/api/upload?name=x", struct{ io.Reader }{strings.NewReader(strings.Repeat("x", 5000))}) // no length
	r.Header.Set("Authorization", "Bearer "+s.Token)
	if response, err := http.DefaultTransport.RoundTrip(r); err != nil || response.StatusCode != 413 {
		t.Errorf("too large, in pieces: %v, %v", response, err)
	}
	// What breaks off is no fault of the server, and leaves nothing behind.
	broken := httptest.NewRecorder()
	s.upload(broken, httptest.NewRequest("POST", "/api/upload?name=x", io.MultiReader(strings.NewReader("half"), iotest.ErrReader(io.ErrUnexpectedEOF))))
	if broken.Code != 400 || !strings.Contains(broken.Body.String(), "did not arrive whole") {
		t.Errorf("half a file: %d %s", broken.Code, broken.Body)
	}
	if status, _, _ := call(t, "POST", ts.URL+"/api/upload?name=x", "content"); status != 401 {
		t.Errorf("without the token: %d", status)
	}
	dir := s.traces.dir
	s.traces.close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error("uploads outlive the server")
	}
}
