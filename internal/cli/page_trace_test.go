//go:build integration

package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

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
	// Other settings beside the recorded curve: each is a row and two lines of a colour
	// of its own, and can be taken away again.
	pixels := func() string {
		return b.text(`String(document.querySelector(".device canvas").toDataURL().length)`)
	}
	b.do(chromedp.Focus(".device canvas"), chromedp.KeyEvent(kb.Home))
	before := pixels()
	for i, conf := range []string{"roundup_power2_divisions:1", "expandable_segments:True"} {
		b.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#conf-0").value = ""; void 0`), chromedp.SendKeys("#conf-0", conf+"\r"))
		b.until(`document.querySelectorAll(".device i.curve").length === ` + string(rune('1'+i)))
	}
	if got := b.text(`[...document.querySelectorAll(".device i.curve")].map(i => i.closest("tr").innerText.replaceAll(/\s+/g, " ")).join("|")`); !strings.Contains(got, "roundup_power2_divisions:1") || !strings.Contains(got, "expandable_segments:True") {
		t.Errorf("the settings beside the recording are %q", got)
	}
	if !strings.Contains(b.text(`document.body.innerText`), "simulated, not validated on hardware") || pixels() == before {
		t.Error("the curves are not drawn, or not said to be simulated")
	}
	b.looksRight("trace-what-if")
	b.do(chromedp.Click(`[aria-label="Take away expandable_segments:True"]`))
	b.until(`document.querySelectorAll(".device i.curve").length === 1`)
	// Segments of a moment, one by one.
	if got := b.text(`[...document.querySelectorAll("figure details tr")].map(r => r.textContent).join("|")`); !strings.Contains(got, "512.00 MiB") {
		t.Errorf("the segments are %q", got)
	}
	b.open("trace%3Fpath%3D" + filepath.Join(filepath.Dir(path), "..", "oom", "exhaustion.txt"))
	b.until(`!document.querySelector("#problem").hidden && document.querySelector("#problem").textContent.includes("snapshot")`)
}
