//go:build integration

package cli_test

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

var large = flag.String("large", "", "a snapshot that snapshot's TestLarge kept: how the page takes it is said")

// A snapshot of a million events is opened and zoomed on the page. It says how
// long the first picture takes after the server has read the file, how long steps
// of the zoom take, and what the page's process holds; how fast is no part of a
// test.
func TestLargeTraceInBrowser(t *testing.T) {
	if *large == "" {
		t.Skip("-large names no snapshot: go test ./snapshot -run 'TestLarge$' -large FILE -events 1000000 makes one")
	}
	b := openPage(t)
	b.do(chromedp.EmulateViewport(1280, 900))
	b.open("trace%3Fpath%3D" + mustAbs(t, *large))
	b.until(`document.querySelector(".device td") && document.body.textContent.includes(", the peak: ")`)
	// The first answer of levels after the file was read is the first picture: it
	// is drawn in the same task as it arrives.
	const entries = `performance.getEntriesByType("resource").filter(e => e.name.includes("/api/traces"))`
	t.Log("the server reads it in", b.text(entries+`[0].duration.toFixed(0)`), "ms; the picture is there after",
		b.text(`(`+entries+`.find(e => e.name.includes("/levels?") && !e.name.endsWith("n=1")).responseEnd - `+entries+`[0].responseEnd).toFixed(0)`), "ms; the stacks after",
		b.text(`(`+entries+`.reduce((l, e) => Math.max(l, e.responseEnd), 0) - `+entries+`[0].responseEnd).toFixed(0)`), "ms")
	b.do(chromedp.Focus(".device canvas"))
	for step := range 12 {
		b.do(chromedp.Evaluate[chromedp.Void](`performance.clearResourceTimings(); performance.mark("key"); void 0`), chromedp.KeyEvent("+"))
		b.until(entries + `.length > 0`)
		t.Logf("zoom %d: %s ms from the key to the last byte of the picture, %s ms of them the server", step+1,
			b.text(`(`+entries+`[0].responseEnd - performance.getEntriesByName("key").at(-1).startTime).toFixed(0)`), b.text(entries+`[0].duration.toFixed(0)`))
	}
	b.picture("trace-large")
	t.Logf("the page holds %s MiB of script memory, its process %d MiB", b.text(`(performance.memory.usedJSHeapSize / 1048576).toFixed(1)`), rendererMiB(b))
}

// rendererMiB is the resident memory of the largest renderer of the browser, which
// is that of the page.
func rendererMiB(b *browsed) int {
	pid := chromedp.FromContext(b.ctx).Browser.Process().Pid
	out, err := exec.Command("ps", "--ppid", fmt.Sprint(pid), "-o", "pid=").Output()
	if err != nil {
		b.t.Log(err)
	}
	most := 0
	for todo := strings.Fields(string(out)); len(todo) > 0; todo = todo[1:] {
		below, _ := exec.Command("ps", "--ppid", todo[0], "-o", "pid=").Output()
		todo = append(todo, strings.Fields(string(below))...)
		command, _ := os.ReadFile("/proc/" + todo[0] + "/cmdline")
		status, _ := os.ReadFile("/proc/" + todo[0] + "/status")
		if _, rest, ok := strings.Cut(string(status), "VmRSS:"); ok && strings.Contains(string(command), "--type=renderer") {
			kib, _ := strconv.Atoi(strings.Fields(rest)[0])
			most = max(most, kib>>10)
		}
	}
	return most
}
