package hub

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

const (
	maxRedirects = 5
	maxTries     = 3
	longestPause = 5 * time.Second
)

// errUnreachable says that nobody answered.
var errUnreachable = errors.New("the hub cannot be reached")

// client asks one hub. It follows redirects itself, so that the token goes to
// the hub's host alone.
type client struct {
	settings Settings
	http     *http.Client
	home     *url.URL
}

func newClient(s Settings) *client {
	home, err := url.Parse(s.Endpoint)
	if err != nil {
		home = &url.URL{}
	}
	dialer := net.Dialer{Timeout: 10 * time.Second}
	transport := &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSHandshakeTimeout: 10 * time.Second,
		ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 8, IdleConnTimeout: 30 * time.Second,
		DisableCompression: true, MaxResponseHeaderBytes: 1 << 20,
	}
	s.Token = s.token()
	return &client{settings: s, home: home, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// answer is what a hub answered in full.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// statusError is an answer that is none.
type statusError struct {
	status int
	code   string // X-Error-Code, by which the hub says why
	wait   time.Duration
}

func (e *statusError) Error() string {
	return fmt.Sprintf("the server answers %d %s", e.status, http.StatusText(e.status))
}

// passing reports whether a second try may help: the server is busy or broken,
// or the connection was.
func passing(err error) bool {
	var s *statusError
	if errors.As(err, &s) {
		return s.status == http.StatusTooManyRequests || s.status >= 500
	}
	return errors.Is(err, errUnreachable) || errors.Is(err, io.ErrUnexpectedEOF)
}

// get asks for an address, or a range of its bytes, and reads at most limit
// bytes of the answer. It tries again, a bounded number of times, where that
// may help.
func (c *client) get(ctx context.Context, address, byteRange string, limit int64) (*answer, error) {
	// A hub that stays silent is given up after little more than one try: 35
	// seconds where nobody says otherwise.
	one := c.settings.timeout()
	whole, cancel := context.WithTimeout(ctx, one+one/6)
	defer cancel()
	pause := c.settings.pause()
	for try := 1; ; try++ {
		a, err := c.once(whole, address, byteRange, limit)
		if err == nil || !passing(err) || try == maxTries || whole.Err() != nil {
			return a, err
		}
		var s *statusError
		if errors.As(err, &s) && s.wait > pause {
			pause = s.wait
		}
		select {
		case <-time.After(min(pause, longestPause)):
		case <-whole.Done():
			return nil, cmp.Or(ctx.Err(), err)
		}
		pause *= 2
	}
}

// once asks once, over at most five redirects.
func (c *client) once(ctx context.Context, address, byteRange string, limit int64) (*answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.settings.timeout())
	defer cancel()
	at, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	for range maxRedirects + 1 {
		resp, err := c.ask(ctx, at, byteRange)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode < 300 || resp.StatusCode > 399 {
			defer resp.Body.Close()
			return read(resp, limit)
		}
		resp.Body.Close()
		next, err := at.Parse(resp.Header.Get("Location"))
		switch {
		case err != nil || resp.Header.Get("Location") == "":
			return nil, fmt.Errorf("the server at %s redirects to no address", at.Host)
		case next.Scheme != "https" && next.Scheme != at.Scheme:
			return nil, fmt.Errorf("the server at %s redirects from %s to %q, which is refused", at.Host, at.Scheme, next.Scheme)
		}
		at = next
	}
	return nil, fmt.Errorf("the server at %s redirects more than %d times", at.Host, maxRedirects)
}

// ask sends one request. The token goes to the hub's own scheme and host only.
func (c *client) ask(ctx context.Context, at *url.URL, byteRange string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("User-Agent", "floodmark")
	if byteRange != "" {
		request.Header.Set("Range", byteRange)
	}
	if c.settings.Token != "" && at.Scheme == c.home.Scheme && at.Host == c.home.Host {
		request.Header.Set("Authorization", "Bearer "+c.settings.Token)
	}
	resp, err := c.http.Do(request)
	if err != nil {
		return nil, unreachable(err)
	}
	return resp, nil
}

// unreachable takes the address out of an error: a signed one may be a secret.
func unreachable(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%w: it did not answer in time", errUnreachable)
	}
	return fmt.Errorf("%w: %w", errUnreachable, err)
}

// read reads an answer within bounds.
func read(resp *http.Response, limit int64) (*answer, error) {
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusPartialContent {
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		e := &statusError{resp.StatusCode, resp.Header.Get("X-Error-Code"), time.Duration(min(max(seconds, 0), 60)) * time.Second}
		if resp.StatusCode == http.StatusRequestedRangeNotSatisfiable {
			return &answer{status: resp.StatusCode, header: resp.Header}, e
		}
		return nil, e
	}
	if resp.ContentLength > limit {
		return nil, tooLong(resp.ContentLength, limit)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit+1))
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("the answer is cut off after %d bytes: %w", len(body), io.ErrUnexpectedEOF)
	case err != nil:
		return nil, unreachable(err)
	case int64(len(body)) > limit:
		return nil, tooLong(int64(len(body)), limit)
	}
	return &answer{resp.StatusCode, resp.Header, body}, nil
}

// lengthError is an answer of more bytes than were asked for.
type lengthError struct{ length, limit int64 }

func (e *lengthError) Error() string {
	return fmt.Sprintf("the server sends %d bytes or more where at most %d are expected", e.length, e.limit)
}

func tooLong(length, limit int64) error { return &lengthError{length, limit} }
