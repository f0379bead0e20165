//go:build integration

package cli_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"floodmark/bytesize"
)

// sameBytes runs the command that the page shows, and holds what the page says of each
// term of the deciding rank against what the command line says, to the last digit shown.
func (b *browsed) sameBytes() {
	b.t.Helper()
	command := b.text(`document.querySelector("#size .command code").textContent`)
	out, stderr, _ := run(100, nil, false, append([]string{strings.Fields(command)[1], "--json"}, strings.Fields(command)[2:]...)...)
	var said struct {
		Verdict struct{ Rank int }
		Ranks   []struct {
			Ranks []int
			Terms []struct {
				ID, Status string
				FromPhase  *string `json:"from_phase"`
				Low        *int64  `json:"low_bytes"`
				High       *int64  `json:"high_bytes"`
				Bytes      *int64
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &said); err != nil || len(said.Ranks) == 0 {
		b.t.Fatalf("%s: %v\n%.300s%s", command, err, out, stderr)
	}
	rows := b.text(`[...document.querySelectorAll("#size tbody tr")].map(r => r.cells[0].textContent + "=" + (r.cells[3]?.textContent ?? "")).join("\n") + "\n"`)
	for _, term := range said.Ranks[0].Terms {
		if term.FromPhase == nil || term.Status == "zero" || term.Bytes == nil && term.High == nil {
			continue
		}
		low, high := term.Bytes, term.Bytes
		if term.Bytes == nil {
			low, high = term.Low, term.High
		}
		want := bytesize.Fixed(*low, bytesize.GiB, 2)
		if most := bytesize.Fixed(*high, bytesize.GiB, 2); most != want {
			want += "–" + most
		}
		if want = strings.ReplaceAll(term.ID, "_", " ") + "=" + want; !strings.Contains(rows, want+"\n") {
			b.t.Errorf("%s says %s, the page\n%s", command, want, rows)
		}
	}
	exact := b.text(`(() => { const d = document.querySelector("#size .raw"); d.open = true; d.dispatchEvent(new Event("toggle")); const r = JSON.parse(d.querySelector("pre").textContent); d.open = false; return JSON.stringify(r.ranks); })()`)
	var page, line any
	_ = json.Unmarshal([]byte(exact), &page)
	var whole struct{ Ranks any }
	_ = json.Unmarshal([]byte(out), &whole)
	if line = whole.Ranks; fmt.Sprint(page) != fmt.Sprint(line) {
		b.t.Errorf("%s: the page's ranks are not those of the command line", command)
	}
}

// A model is sized on the page to the bytes that the command line says, a slider
// changes the answer at once, and the address can be shared.
func TestSizeInBrowser(t *testing.T) {
	b := openPage(t)
	b.open(sized)
	b.until(`document.querySelector(".verdict")?.textContent.startsWith("CANNOT TELL")`)
	b.sameBytes()
	b.do(chromedp.Click(".most button"))
	b.until(`document.querySelector(".most [role=status]").textContent.includes("that fits: ")`)
	b.do(chromedp.Evaluate[chromedp.Void](`{ const s = document.querySelector("#size-sequences").parentElement.querySelector("[type=range]"); s.value = 3; s.dispatchEvent(new Event("input")); void 0 }`))
	b.until(`document.querySelector(".verdict")?.textContent.startsWith("FITS")`)
	if hash := b.text("location.hash"); !strings.Contains(hash, "sequences=8") || strings.Contains(hash, "token") {
		t.Errorf("the address to share is %q", hash)
	}
	// An address that was shared, in a tab that knows the token, shows the same.
	b.do(chromedp.Evaluate[chromedp.Void](`location.hash = "size?model=llama-3.1-8b&gpu=rtx-4090&context=8192&sequences=1"; void 0`))
	b.until(`document.querySelector(".command code")?.textContent.includes("rtx-4090")`)
	// Another view and back leaves what was there.
	b.do(chromedp.Click("#tab-records"), chromedp.Click("#tab-size"))
	if got := b.text(`document.querySelector("#size-gpu").value`); got != "rtx-4090" {
		t.Errorf("after another view the card is %q", got)
	}
	b.do(chromedp.Evaluate[chromedp.Void](`location.hash = "size?model=no-such-model"; void 0`))
	b.until(`document.querySelector(".answer")?.textContent.includes("no-such-model")`)
}

// Training shows its phases step by step, those that are not declared hatched, and each
// change of the advice can be taken.
func TestTrainingInBrowser(t *testing.T) {
	b := openPage(t)
	b.open(trained)
	b.until(`document.querySelector(".verdict")?.textContent.startsWith("CANNOT TELL")`)
	b.sameBytes()
	phases := b.text(`[...document.querySelectorAll("#size .phases li")].map(l => l.querySelector("b").textContent + (l.classList.contains("absent") ? " absent" : "") + (l.classList.contains("peak") ? " peak" : "")).join("|")`)
	if !strings.HasPrefix(phases, "model load|forward 1|loss 1|backward 1|optimizer step 1|forward 2|") || !strings.Contains(phases, "optimizer step 2 peak|resume absent|evaluation absent|") {
		t.Errorf("the phases are %s", phases)
	}
	b.do(chromedp.Click(`[aria-label="Add the phase save"]`))
	b.until(`[...document.querySelectorAll("#size .phases li:not(.absent) b")].some(b => b.textContent === "save")`)
	b.do(chromedp.Click(`[aria-label="Try optimizer=adamw_8bit"]`))
	b.until(`document.querySelector(".verdict")?.textContent.startsWith("FITS") && document.querySelector("#size-optimizer").value === "adamw_8bit"`)
	b.sameBytes()
	if hash := b.text("decodeURIComponent(location.hash)"); !strings.Contains(hash, "work=training") || !strings.Contains(hash, "--phase+save") {
		t.Errorf("the address to share is %q", hash)
	}
	b.do(chromedp.Evaluate[chromedp.Void](`[...document.querySelectorAll(".most button")].find(b => b.textContent === "Which cards fit?").click(); void 0`))
	b.until(`document.querySelector("#size-gpu").value === "all" && document.querySelectorAll("#size td button").length > 50`)
	b.do(chromedp.Click(`#size td button`))
	b.until(`document.querySelector("#size-gpu").value !== "all" && document.querySelector("#size .phases")`)
}

// A server is sized by the command that starts it; what has no flag of its own is asked
// as a change.
func TestServerInBrowser(t *testing.T) {
	b := openPage(t)
	b.open(launched)
	b.until(`document.querySelector("#size .verdict")?.textContent.startsWith("FITS")`)
	b.sameBytes()
	if text := b.text(`document.querySelector("#size .answer").innerText`); !strings.Contains(text, "The cache holds ") || !strings.Contains(text, "graph capture") {
		t.Errorf("the page says %s", text)
	}
	if asked := b.text(`[...document.querySelectorAll(".most button")].map(b => b.textContent).join()`); asked != "Which cards fit?" {
		t.Errorf("of a server it can be asked %q", asked)
	}
	b.do(chromedp.SendKeys("#size-more", "--what-if weights=int8"))
	b.until(`document.querySelector("#size .answer").innerText.includes("With weights=int8")`)
}

// Models are suggested while somebody types, from the catalogue and from what was used
// last, and taken by the keyboard alone.
func TestSuggestionsInBrowser(t *testing.T) {
	b := openPage(t)
	b.open("size")
	b.do(chromedp.Focus("#size-model"))
	b.until(`!document.querySelector("#size-model-list").hidden`)
	b.do(chromedp.SendKeys("#size-model", "tinyl"))
	b.until(`document.querySelectorAll("#size-model-list li").length === 1`)
	b.do(chromedp.KeyEvent(kb.ArrowDown))
	b.until(`document.querySelector("#size-model").getAttribute("aria-activedescendant") === "size-model-list-0"`)
	b.named("suggestions")
	b.do(chromedp.KeyEvent("\r"))
	b.until(`document.querySelector("#size-model").value === "tinyllama-1.1b-chat-v1.0" && document.querySelector("#size .verdict")`)
	b.open("size")
	b.do(chromedp.Focus("#size-model"))
	b.until(`document.querySelector("#size-model-list li")?.textContent === "tinyllama-1.1b-chat-v1.0used last"`)
	b.do(chromedp.KeyEvent(kb.Escape))
	b.until(`document.querySelector("#size-model-list").hidden`)
}
