//go:build integration

package cli_test

import (
	"context"
	"encoding/json"
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
	if err := os.WriteFile(filepath.Join(folder, name+".png"), image, 0o644); err != nil {
		b.t.Fatal(err)
	}
}

const sized = "size%3Fmodel%3Dllama-3.1-70b%26gpu%3Dh100%26context%3D8192%26sequences%3D64%26tensor-parallel%3D4"

// A model is sized on the page to the bytes that the command line says, and a
// slider changes the answer at once.
func TestSizeInBrowser(t *testing.T) {
	b := openPage(t)
	b.open(sized)
	b.until(`document.querySelector(".verdict")?.textContent.startsWith("CANNOT TELL")`)
	command := b.text(`document.querySelector(".command code").textContent`)
	var said struct {
		Ranks []struct {
			Terms []struct {
				ID    string
				Bytes *int64
			}
		}
	}
	out, _, _ := run(100, nil, false, append(strings.Fields(command)[1:], "--json")...)
	if err := json.Unmarshal([]byte(out), &said); err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	for _, term := range said.Ranks[0].Terms {
		if term.ID != "kv_cache" {
			continue
		}
		want := fmt.Sprintf("%.2f", float64(*term.Bytes)/(1<<30))
		if got := b.text(`[...document.querySelectorAll("tbody th")].find(c => c.textContent === "kv cache").nextSibling.textContent`); got != want {
			t.Errorf("the page says %s GiB of cache, the command line %s", got, want)
		}
	}
	b.picture("size-wide")
	b.do(chromedp.Click(".most button"))
	b.until(`document.querySelector(".most span").textContent.includes("that fits: ")`)
	b.do(chromedp.Evaluate[chromedp.Void](`{ const s = document.querySelector("#size-sequences").parentElement.querySelector("[type=range]"); s.value = 3; s.dispatchEvent(new Event("input")); void 0 }`))
	b.until(`document.querySelector(".verdict")?.textContent.startsWith("FITS")`)
	if hash := b.text("location.hash"); !strings.Contains(hash, "sequences=8") || strings.Contains(hash, "token") {
		t.Errorf("the address to share is %q", hash)
	}
	// An address that was shared, in a tab that knows the token, shows the same.
	b.do(chromedp.Evaluate[chromedp.Void](`location.hash = "size?model=llama-3.1-8b&gpu=rtx-4090&context=8192&sequences=1"; void 0`))
	b.until(`document.querySelector(".command code")?.textContent.includes("rtx-4090")`)
	b.do(chromedp.Evaluate[chromedp.Void](`location.hash = "size?model=no-such-model"; void 0`))
	b.until(`document.querySelector(".answer")?.textContent.includes("no-such-model")`)
}

func TestTraceInBrowser(t *testing.T) {
	b := openPage(t)
	path, _ := filepath.Abs("../../testdata/snapshots/training_step.pickle")
	b.open("trace%3Fpath%3D" + path)
	b.until(`document.querySelector(".device [role=status]") && document.body.textContent.includes("the peak: 3.03 GiB requested")`)
	b.until(`document.querySelectorAll("td details").length > 3`)
	b.do(chromedp.Click("td details summary"))
	if stack := b.text(`document.querySelector("td details[open]").innerText`); !strings.Contains(stack, "\n") {
		t.Errorf("no stack is shown: %q", stack)
	}
	b.picture("trace")
	b.do(chromedp.Focus(".device canvas"), chromedp.KeyEvent("+"), chromedp.KeyEvent("+"), chromedp.KeyEvent("\r"))
	b.do(chromedp.SendKeys("#conf-0", "roundup_power2_divisions:1\r"))
	b.until(`document.body.textContent.includes("simulated, not validated on hardware")`)
	b.open("trace%3Fpath%3D" + filepath.Join(filepath.Dir(path), "..", "oom", "exhaustion.txt"))
	b.until(`!document.querySelector("#problem").hidden && document.querySelector("#problem").textContent.includes("snapshot")`)
}

func TestRecordsInBrowser(t *testing.T) {
	b := openPage(t)
	file := filepath.Join(t.TempDir(), "estimate.json")
	if _, stderr, code := run(100, nil, false, "estimate", "llama-3.1-8b", "--context", "1024", "--sequences", "1", "--generated", "1", "--output", file); code != 0 {
		t.Fatal(stderr)
	}
	b.open("records%3Fa%3D" + file)
	b.until(`document.querySelector("#records .phases")`)
	b.open("records%3Fa%3D" + mustAbs(t, "../../testdata/oom/exhaustion.txt"))
	b.until(`document.querySelectorAll("#records td").length > 4`)
	b.do(chromedp.SetUploadFiles("#record-file", []string{file}))
	b.until(`document.querySelector("#records .phases")`)
	snapshot := mustAbs(t, "../../testdata/snapshots/training_step.pickle")
	b.open("records%3Fa%3D" + snapshot + "%26b%3D" + snapshot)
	b.until(`document.querySelector("#records h2")?.textContent === "comparison"`)
}

// The file of --html shows what the page does, from a disk and alone.
func TestEstimateFileInBrowser(t *testing.T) {
	b := openPage(t)
	file := filepath.Join(t.TempDir(), "estimate.html")
	if _, stderr, code := run(100, nil, false, "estimate", "llama-3.1-70b", "--context", "8192", "--sequences", "32", "--generated", "512", "--tensor-parallel", "8", "--gpu", "h100", "--html", file); code != 0 {
		t.Fatal(stderr)
	}
	b.do(chromedp.Navigate("about:blank"))
	b.host = "file://" + filepath.Dir(file)
	b.do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate("file://"+file))
	// The script has run when the file is loaded; polling would need eval, which
	// the file forbids.
	if got := b.text(`document.querySelector(".verdict")?.textContent + document.querySelectorAll("td").length`); !strings.HasPrefix(got, "FITS") {
		t.Errorf("the file shows %q", got)
	}
	if poor := b.text(contrast); poor != "" {
		t.Errorf("too little contrast: %s", poor)
	}
	b.picture("estimate-file")
	b.do(chromedp.EmulateViewport(320, 900))
	if over := b.text(`String(document.documentElement.scrollWidth - document.documentElement.clientWidth)`); over != "0" {
		t.Errorf("%s pixels hang out of the window", over)
	}
	b.picture("estimate-file-phone")
}

// Light and dark, phone and wide: text has the contrast that people need, and
// nothing hangs out of the window.
func TestLooksInBrowser(t *testing.T) {
	b := openPage(t)
	for _, look := range []struct {
		name  string
		width int64
		dark  bool
	}{{"phone", 320, false}, {"phone-dark", 320, true}, {"wide", 1600, false}, {"wide-dark", 1600, true}} {
		t.Run(look.name, func(t *testing.T) {
			b.do(chromedp.EmulateViewport(look.width, 900), scheme(look.dark))
			b.open(sized)
			b.until(`document.querySelector(".verdict")?.textContent.startsWith("CANNOT TELL")`)
			b.picture("size-" + look.name)
			if over := b.text(`String(document.documentElement.scrollWidth - document.documentElement.clientWidth)`); over != "0" {
				t.Errorf("%s pixels hang out of the window", over)
			}
			if poor := b.text(contrast); poor != "" {
				t.Errorf("too little contrast: %s", poor)
			}
			b.open("trace%3Fpath%3D" + mustAbs(t, "../../testdata/snapshots/training_step.pickle"))
			b.until(`document.querySelectorAll("td details").length > 3`)
			b.picture("trace-" + look.name)
			if over := b.text(`String(document.documentElement.scrollWidth - document.documentElement.clientWidth)`); over != "0" {
				t.Errorf("of the trace %s pixels hang out of the window: %s", over, b.text(overhang))
			}
			if poor := b.text(contrast); poor != "" {
				t.Errorf("of the trace too little contrast: %s", poor)
			}
		})
	}
}

func scheme(dark bool) chromedp.Action[chromedp.Void] {
	value := "light"
	if dark {
		value = "dark"
	}
	return func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: value}}})
		return chromedp.Void{}, err
	}
}

// contrast lists the texts whose contrast with what is behind them is below 4.5,
// as WCAG asks for texts of this size.
const contrast = `(() => {
  const part = v => { v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; };
  const light = c => 0.2126 * part(c[0]) + 0.7152 * part(c[1]) + 0.0722 * part(c[2]);
  const parse = s => s.match(/[\d.]+/g).map(Number);
  const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return parse(getComputedStyle(document.body).backgroundColor); };
  const poor = [];
  for (const e of document.querySelectorAll("body *")) {
    if (e.tagName === "OPTION" || e.closest("[hidden]") || !e.getClientRects().length || ![...e.childNodes].some(n => n.nodeType === 3 && n.data.trim())) continue;
    const style = getComputedStyle(e), ink = parse(e.closest("svg") ? style.fill : style.color), paper = behind(e);
    const [a, b] = [light(ink), light(paper)].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) poor.push(e.tagName + " " + e.textContent.slice(0, 30));
  }
  return poor.join("; ");
})()`

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

// overhang lists what reaches beyond the right edge of the window.
const overhang = `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth).map(e => e.tagName + "." + e.className + " " + e.textContent.slice(0, 30)).join("; ")`
