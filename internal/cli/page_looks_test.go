//go:build integration

package cli_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/accessibility"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// looksRight looks at what is shown in light and dark, on a phone and on a wide screen,
// and as it is printed: text has the contrast that people need, nothing hangs out of the
// window, and whatever can be worked or read as a picture has a name.
func (b *browsed) looksRight(name string) {
	b.t.Helper()
	for _, look := range []struct {
		name        string
		width       int64
		dark, print bool
	}{{"phone", 320, false, false}, {"phone-dark", 320, true, false}, {"wide", 1600, false, false}, {"wide-dark", 1600, true, false}, {"print", 800, true, true}} {
		b.do(chromedp.EmulateViewport(look.width, 900), media(look.dark, look.print))
		b.until(fmt.Sprintf("innerWidth === %d", look.width))
		b.judge(name, look.name)
	}
	b.do(chromedp.EmulateViewport(1280, 900), media(false, false))
	b.named(name)
}

// judge looks at what is shown as it is.
func (b *browsed) judge(name, look string) {
	b.t.Helper()
	b.picture(name + "-" + look)
	if over := b.text(`String(document.documentElement.scrollWidth - document.documentElement.clientWidth)`); over != "0" {
		b.t.Errorf("%s, %s: %s pixels hang out of the window: %s", name, look, over, b.text(overhang))
	}
	if poor := b.text(contrast); poor != "" {
		b.t.Errorf("%s, %s: too little contrast: %s", name, look, poor)
	}
}

// media is the look that a person or a printer asks for.
func media(dark, print bool) chromedp.Action[chromedp.Void] {
	scheme, medium := "light", "screen"
	if dark {
		scheme = "dark"
	}
	if print {
		medium = "print"
	}
	return func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Media: medium, Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return chromedp.Void{}, err
	}
}

// worked is the roles that need a name: what can be worked, and pictures.
const worked = "button textbox combobox searchbox slider spinbutton checkbox radio tab link listbox option img image application region table DisclosureTriangle"

// named reads the tree that a screen reader is given.
func (b *browsed) named(view string) {
	b.t.Helper()
	err := chromedp.Do(b.ctx, func(ctx context.Context, _ *chromedp.Target) (chromedp.Void, error) {
		tree, err := chromedp.Call(ctx, accessibility.GetFullAXTree, accessibility.GetFullAXTreeParams{})
		if err != nil {
			return chromedp.Void{}, err
		}
		for _, node := range tree.Nodes {
			if node.Ignored || node.Role == nil {
				continue
			}
			role := strings.Trim(string(node.Role.Value), `"`)
			if strings.Contains(" "+worked+" ", " "+role+" ") && (node.Name == nil || strings.Trim(string(node.Name.Value), `" `) == "") {
				b.t.Errorf("%s: a %s has no name", view, role)
			}
		}
		return chromedp.Void{}, nil
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if twice := b.text(`(() => { const ids = [...document.querySelectorAll("[id]")].map(e => e.id); return ids.filter((id, i) => ids.indexOf(id) !== i).join(); })()`); twice != "" {
		b.t.Errorf("%s: ids are there twice: %s", view, twice)
	}
}

func TestLooksInBrowser(t *testing.T) {
	b := openPage(t)
	for name, address := range map[string]struct{ view, until string }{
		"size-estimate": {sized, `document.querySelector(".verdict")?.textContent.startsWith("CANNOT TELL")`},
		"size-cards":    {strings.Replace(sized, "gpu%3Dh100", "gpu%3Dall", 1), `document.querySelectorAll("#size td button").length > 100`},
		"size-training": {trained, `document.querySelectorAll("#size .phases li").length > 9`},
		"size-server":   {launched, `document.querySelector("#size .verdict")`},
		"size-error":    {"size%3Fmodel%3Dno-such-model", `document.querySelector(".answer")?.textContent.includes("no-such-model")`},
		"trace":         {"trace%3Fpath%3D" + mustAbs(t, "../../testdata/snapshots/training_step.pickle"), `document.querySelectorAll("td details").length > 3`},
	} {
		b.open(address.view)
		b.until(address.until)
		b.looksRight(name)
	}
}

// Everything that can be worked is reached by the keyboard alone, in the order of the
// page, and the place of the focus is seen.
func TestKeyboardInBrowser(t *testing.T) {
	b := openPage(t)
	for _, address := range []struct{ view, until string }{
		{sized, `document.querySelector(".verdict")?.textContent.startsWith("CANNOT TELL")`},
		{"trace%3Fpath%3D" + mustAbs(t, "../../testdata/snapshots/training_step.pickle"), `document.querySelectorAll("td details").length > 3`},
		{"records%3Fa%3D" + keep(t, "sweep.json", swept()), `document.querySelector("#records svg.plot")`},
	} {
		b.open(address.view)
		b.until(address.until)
		b.do(chromedp.Evaluate[chromedp.Void](`window.unreached = new Set([...document.querySelectorAll("a, button, input, select, textarea, summary, canvas[tabindex], [tabindex='0']")].filter(e => e.checkVisibility() && e.tabIndex >= 0)); window.unseen = []; void 0`))
		n := 0
		for ; n < 300 && b.text(`String(unreached.size)`) != "0"; n++ {
			b.do(chromedp.KeyEvent("\t"), chromedp.Evaluate[chromedp.Void](`{ const e = document.activeElement, s = getComputedStyle(e); unreached.delete(e); if (e !== document.body && (s.outlineStyle === "none" || parseFloat(s.outlineWidth) < 2)) unseen.push(e.outerHTML.slice(0, 80)); void 0 }`))
		}
		if left := b.text(`[...unreached].map(e => e.outerHTML.slice(0, 80)).join("\n")`); left != "" {
			t.Errorf("%.30s: after %d steps these were not reached:\n%s", address.view, n, left)
		}
		if unseen := b.text(`unseen.join("\n")`); unseen != "" {
			t.Errorf("%.30s: the focus is not seen on\n%s", address.view, unseen)
		}
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

// overhang lists what reaches beyond the right edge of the window.
const overhang = `[...document.querySelectorAll("body *")].filter(e => e.getBoundingClientRect().right > document.documentElement.clientWidth).map(e => e.tagName + "." + e.className + " " + e.textContent.slice(0, 30)).join("; ")`
