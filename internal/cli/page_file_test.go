//go:build integration

package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// openFile opens a file that --html wrote, from a disk and alone.
func (b *browsed) openFile(command ...string) {
	b.t.Helper()
	file := filepath.Join(b.t.TempDir(), "page.html")
	if _, stderr, code := run(100, nil, false, append(command, "--html", file)...); code != 0 {
		b.t.Fatal(stderr)
	}
	b.do(chromedp.Navigate("about:blank"))
	b.host = "file://" + filepath.Dir(file)
	// The script has run when the file is loaded; polling would need eval, which the
	// file forbids.
	b.do(chromedp.EmulateViewport(1280, 900), chromedp.Navigate("file://"+file))
}

// The files of estimate, explain and decide show what the page does.
func TestFilesInBrowser(t *testing.T) {
	b := openPage(t)
	b.openFile("estimate", "llama-3.1-70b", "--context", "8192", "--sequences", "32", "--generated", "512", "--tensor-parallel", "8", "--gpu", "h100")
	if got := b.text(`document.querySelector(".verdict")?.textContent + document.querySelectorAll("td").length`); !strings.HasPrefix(got, "FITS") {
		t.Errorf("the file shows %q", got)
	}
	b.fileLooksRight("file-estimate")

	b.openFile("explain", "../../testdata/against/compensating.log", "--against", "../../testdata/against/compensating_plan.json")
	if got := b.text(`document.querySelector(".waterfall tr.residual")?.textContent`); !strings.HasPrefix(got, "residual") {
		t.Errorf("the file shows %q", got)
	}
	b.fileLooksRight("file-waterfall")

	b1, b2 := filepath.Join(t.TempDir(), "b1.json"), filepath.Join(t.TempDir(), "b2.json")
	for _, file := range []string{b1, b2} {
		if _, stderr, code := run(100, nil, false, "measure", "--quiet", "--output", file, "--", "true"); code != 0 {
			t.Fatal(stderr)
		}
	}
	b.openFile("decide", "--option", "batch 1="+b1, "--option", "batch 2="+b2, "--card", "rtx-4090", "--margin", "longest input=1.2GiB")
	if got := b.text(`document.querySelector("#answer").innerText`); !strings.Contains(got, "Nothing is chosen.") || !strings.Contains(got, "longest input") || !strings.Contains(got, "SHA-256") {
		t.Errorf("the file shows %q", got)
	}
	b.fileLooksRight("file-decision")
}

// The file of a snapshot holds its trace: the picture is drawn, zoomed, and a moment
// read with its stacks and segments.
func TestSnapshotFileInBrowser(t *testing.T) {
	b := openPage(t)
	b.openFile("explain", "../../testdata/snapshots/training_step.pickle")
	if got := b.text(`document.querySelector(".device [role=status]").textContent`); got != "after moment 43, the peak: 3.03 GiB requested inside 3.52 GiB reserved, in 9 segments; the 17 largest allocations alive:" {
		t.Errorf("the file says %q", got)
	}
	if text := b.text(`document.querySelector("main > details pre").textContent`); !strings.Contains(text, "3.52 GiB") && !strings.Contains(text, "3.52") {
		t.Errorf("as text it says %q", text)
	}
	b.fileLooksRight("file-snapshot")
	b.do(chromedp.Focus(".device canvas"), chromedp.KeyEvent("+"), chromedp.KeyEvent("+"), chromedp.KeyEvent("Home"), chromedp.KeyEvent("p"))
	b.do(chromedp.Evaluate[chromedp.Void](`for (let i = 0; i < 5; i++) document.querySelector(".device canvas").dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowLeft" })); document.querySelector(".device canvas").dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" })); void 0`))
	if got := b.text(`document.querySelector(".device [role=status]").textContent`); !strings.HasPrefix(got, "after moment 38: ") || strings.Contains(got, "segments") {
		t.Errorf("five moments before it says %q", got)
	}
}

// fileLooksRight is looksRight where nothing may be polled.
func (b *browsed) fileLooksRight(name string) {
	b.t.Helper()
	for _, dark := range []bool{false, true} {
		for _, width := range []int64{320, 1600} {
			b.do(chromedp.EmulateViewport(width, 900), media(dark, false))
			b.judge(name, map[bool]string{false: "light", true: "dark"}[dark]+map[int64]string{320: "-phone", 1600: "-wide"}[width])
		}
	}
	b.do(chromedp.EmulateViewport(1280, 900), media(false, false))
	b.named(name)
}
