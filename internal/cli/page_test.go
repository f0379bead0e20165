//go:build integration

package cli_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"floodmark/internal/cli"
)

// browsed is the page in a real Chromium, with all that must not happen on it.
type browsed struct {
	t    *testing.T
	ctx  context.Context
	url  string // with the token
	host string

	mutex  sync.Mutex
	errors []string
}

// openPage serves the page and opens a browser on it.
func openPage(t *testing.T) *browsed {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	in, out := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- cli.Run(ctx, cli.Env{Args: []string{"serve"}, Stdin: strings.NewReader(""), Stdout: out, Stderr: os.Stderr, Getenv: os.Getenv, Version: "test"})
	}()
	line := make([]byte, 200)
	n, err := in.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	b := &browsed{t: t, url: strings.TrimSpace(string(line[:n]))}
	b.host, _, _ = strings.Cut(b.url, "/#")
	profile := t.TempDir()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.NoSandbox, chromedp.UserDataDir(profile),
		chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true), chromedp.Flag("disable-sync", true))
	allocated, closeAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	var closeBrowser context.CancelFunc
	b.ctx, closeBrowser = chromedp.NewContext(allocated)
	var closeTime context.CancelFunc
	b.ctx, closeTime = context.WithTimeout(b.ctx, 3*time.Minute)
	t.Cleanup(func() {
		closeTime()
		closeBrowser()
		closeAllocator()
		stop()
		if code := <-ended; code != 0 && code != 130 {
			t.Errorf("serve ended with %d", code)
		}
		b.mutex.Lock()
		defer b.mutex.Unlock()
		for _, e := range b.errors {
			t.Error(e)
		}
	})
	if err := chromedp.Listen(b.ctx, b.listen); err != nil {
		t.Fatal(err)
	}
	// A page without a screen has no focus of its own.
	b.do(func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Call(ctx, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true})
		return chromedp.Void{}, err
	})
	return b
}

// listen notes what must not be: an error on the console, and a request that
// goes elsewhere.
func (b *browsed) listen(event any) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		b.errors = append(b.errors, fmt.Sprintf("exception at %s:%d: %s", e.ExceptionDetails.URL, e.ExceptionDetails.LineNumber, e.ExceptionDetails.Exception.Description))
	case *log.EventEntryAdded:
		b.errors = append(b.errors, fmt.Sprintf("console: %s %s", e.Entry.Level, e.Entry.Text))
	case *network.EventRequestWillBeSent:
		if url := e.Request.URL; !strings.HasPrefix(url, b.host+"/") && !strings.HasPrefix(url, "data:") {
			b.errors = append(b.errors, "request elsewhere: "+url)
		}
	}
}

func (b *browsed) do(actions ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	if err := chromedp.Do(b.ctx, actions...); err != nil {
		b.t.Fatal(err)
	}
}

// open goes to a view.
func (b *browsed) open(view string) {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank"), chromedp.Navigate(b.url+"&to="+view))
}

// until waits for an expression to be true.
func (b *browsed) until(expression string) {
	b.t.Helper()
	if _, err := chromedp.Run(b.ctx, chromedp.Poll[bool]("Boolean("+expression+")", chromedp.WithPollingTimeout(30*time.Second))); err != nil {
		text, _ := chromedp.Run(b.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		b.t.Fatalf("%s: %v\n%.2000s", expression, err, text)
	}
}

func (b *browsed) text(expression string) string {
	b.t.Helper()
	text, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return text
}

// picture keeps a screenshot where somebody wants to look at it.
func (b *browsed) picture(name string) {
	folder := os.Getenv("PICTURES")
	if folder == "" {
		return
	}
	image, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, name+".png"), image, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

const (
	sized    = "size%3Fmodel%3Dllama-3.1-70b%26gpu%3Dh100%26context%3D8192%26sequences%3D64%26tensor-parallel%3D4"
	trained  = "size%3Fwork%3Dtraining%26model%3Dllama-3.2-1b%26gpu%3Drtx-4090%26context%3D1024%26micro-batch%3D1"
	launched = "size%3Fwork%3Dserver%26gpu%3Dh100%26command%3Dvllm%2520serve%2520llama-3.1-8b%2520--max-model-len%25208192"
)

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	absolute, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(absolute); err != nil {
		t.Fatal(err)
	}
	return absolute
}
