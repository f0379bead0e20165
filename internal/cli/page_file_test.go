//go:build integration

package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

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
