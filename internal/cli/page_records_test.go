//go:build integration

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"floodmark/record"
)

// keep writes a record to a file of its own.
func keep(t *testing.T, name string, document any) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := record.Create(file, document); err != nil {
		t.Fatal(err)
	}
	return file
}

func head(kind record.Kind) record.Head {
	return record.Head{Envelope: record.NewEnvelope(kind, record.Tool{Version: "test", Command: []string{string(kind)}}, nil)}
}

const gib = 1 << 30

func n(bytes int64) *int64 { return &bytes }

// swept is a sweep with each way to end, of a card of 24 GiB.
func swept() *record.Sweep {
	why, scope, file := "KeyError: 'labels'", "allocated", "points/batch-4.1.json"
	point := func(value int64, status string, peak *int64) record.SweepPoint {
		return record.SweepPoint{Value: value, Attempt: 1, Status: status, PeakBytes: peak, Scope: &scope, DurationNS: 1e9}
	}
	d := &record.Sweep{Head: head(record.KindSweep), Varied: "batch", Command: []string{"python", "train.py", "{batch}"}, Folder: "runs",
		Series:   record.SweepSeries{Order: "ascending", Process: "process", CapacityBytes: n(24 * gib)},
		Points:   []record.SweepPoint{point(1, "passed", n(4*gib)), point(2, "passed", n(7*gib)), point(4, "passed", n(13*gib)), point(8, "out_of_memory", n(22*gib)), point(16, "failed", nil), point(32, "lost", nil)},
		Boundary: record.SweepBoundary{LargestPass: n(4), SmallestFail: n(8), Monotone: true}}
	d.Points[4].Error, d.Points[2].Record = &why, &file
	return d
}

// A sweep is drawn: the boundary, the card's line, and a mark of its own shape for
// each way to end, which is said in words, too.
func TestSweepInBrowser(t *testing.T) {
	b := openPage(t)
	b.open("records%3Fa%3D" + keep(t, "sweep.json", swept()))
	b.until(`document.querySelector("#records svg.plot")`)
	for what, want := range map[string]string{
		`document.querySelector("#records .verdict").textContent`:                                                                   "batch 4 passed, 8 ran out of memory.",
		`[...document.querySelectorAll("svg.plot g title")].map(t => t.textContent).join("|")`:                                      "batch 16: failed, no peak was read",
		`String(["passed", "out_of_memory", "failed", "lost"].map(s => document.querySelectorAll("svg.plot ." + s).length))`:        "3,1,1,1",
		`String(document.querySelectorAll("svg.plot .boundary, svg.plot path.capacity").length)`:                                    "2",
		`document.querySelector("#records .legend").textContent`:                                                                    "lost, it ended without a result: says nothing about memory",
		`[...document.querySelectorAll("#records tbody tr")].map(r => [...r.children].map(c => c.textContent).join(" ")).join("|")`: "8 out of memory ≥ 22.00 GiB allocated",
	} {
		if got := b.text(what); !strings.Contains(got, want) {
			t.Errorf("%s is %q, and lacks %q", what, got, want)
		}
	}
	b.looksRight("record-sweep")
}

// An engine's text beside an estimate is a waterfall: from the estimated total term by
// term to the printed one, the residual last, and what cancels is said.
func TestWaterfallInBrowser(t *testing.T) {
	b := openPage(t)
	b.open("records%3Fa%3D" + mustAbs(t, "../../testdata/against/compensating.log") + "%26b%3D" + mustAbs(t, "../../testdata/against/compensating_plan.json"))
	b.until(`document.querySelector("#records .waterfall")`)
	rows := b.text(`[...document.querySelectorAll(".waterfall tbody tr")].map(r => [...r.children].slice(0, 4).map(c => c.textContent).join(" ")).join("|")`)
	list := strings.Split(rows, "|")
	if !strings.HasPrefix(list[0], "estimated, together 114.26") || !strings.HasPrefix(list[len(list)-2], "residual") || !strings.HasPrefix(list[len(list)-1], "printed, together — 107.35") {
		t.Errorf("the rows are %q", list)
	}
	if !strings.Contains(rows, "weights 103.69 76.23 -27.46") || !strings.Contains(b.text(`document.querySelector(".against").textContent`), "looks good only because errors cancel") {
		t.Errorf("the rows are %q", list)
	}
	// Each bar begins where the one before it ended.
	if gaps := b.text(`(() => {
		const bars = [...document.querySelectorAll(".waterfall .track i")].map(i => i.getBoundingClientRect());
		const ends = bars.map((r, i) => i && [bars[i - 1].left, bars[i - 1].right].every(x => Math.abs(x - r.left) > 2 && Math.abs(x - r.right) > 2) ? i : "").filter(String);
		return ends.join();
	})()`); gaps != "" {
		t.Errorf("the bars %s begin elsewhere", gaps)
	}
	b.looksRight("record-waterfall")
}

// Two estimates side by side: what changed, what the switch could reach, the terms of
// the peak as a waterfall, and both strips of phases. What differs in more than one
// thing is refused, and shown when somebody wants it.
func TestComparisonInBrowser(t *testing.T) {
	b := openPage(t)
	files := map[string]string{}
	for name, flags := range map[string][]string{"none": {"--checkpointing", "none"}, "full": {"--checkpointing", "full"}, "other": {"--optimizer", "sgd", "--checkpointing", "full"}} {
		files[name] = filepath.Join(t.TempDir(), name+".json")
		command := append([]string{"estimate", "llama-3.2-1b", "--train", "--context", "4096", "--micro-batch", "1", "--precision", "bf16-params-bf16-grads-fp32-master", "--output", files[name]}, flags...)
		if name != "other" {
			command = append(command, "--optimizer", "adamw")
		}
		if _, stderr, code := run(100, nil, false, command...); code != 0 {
			t.Fatal(stderr)
		}
	}
	b.open("records%3Fa%3D" + files["none"] + "%26b%3D" + files["full"])
	b.until(`document.querySelector("#records .waterfall")`)
	text := b.text(`document.querySelector("#records .answer").innerText.replaceAll(/\s+/g, " ")`)
	for _, want := range []string{"checkpointing none full", "What checkpointing can reach in backward 2", "it keeps fewer activations", "phase by phase, GiB", "It costs: duration"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%.3000s", want, text)
		}
	}
	rows := b.text(`[...document.querySelectorAll(".waterfall tbody th")].map(h => h.textContent).join()`)
	if !strings.HasPrefix(rows, "a, all of it,activations") || !strings.HasSuffix(rows, ",b, all of it") {
		t.Errorf("the waterfall has %s", rows)
	}
	b.looksRight("record-comparison")
	b.open("records%3Fa%3D" + files["none"] + "%26b%3D" + files["other"])
	b.until(`document.querySelector("#records h2")?.textContent === "no answer"`)
	b.do(chromedp.Click(`#records .answer > button`))
	b.until(`document.querySelector("#records .verdict")?.textContent.startsWith("NOT COMPARABLE")`)
}

// A decision shows what was chosen, the four counters, the phases that no run had, and
// the raw results by their content.
func TestDecisionInBrowser(t *testing.T) {
	b := openPage(t)
	d := &record.Decision{Head: head(record.KindDecision), WeightsBytes: n(2 * gib), Chosen: &record.Chosen{Option: "batch 2", Reason: "the same quality in half the time", Basis: "measured"},
		Phases: []record.DecidedPhase{{Name: "forward", Step: 1, Status: "completed"}, {Name: "optimizer_step", Step: 1, Status: "failed"}, {Name: "save", Status: "not_exercised"}},
		Margin: []record.Variation{{Variation: "another version", Origin: "assumed"}}, OutOfScope: []string{"resume"},
		Evidence: []record.EvidenceFile{{Name: "b2.json", SHA256: strings.Repeat("3f", 32), Kind: "measurement"}}}
	for i, name := range []string{"max_memory_allocated", "max_memory_reserved", "memory_allocated", "memory_reserved"} {
		d.Counters = append(d.Counters, record.Counter{Name: name, Scope: []string{"allocated", "reserved"}[i%2], Unit: "bytes", Value: n(int64(i+1) * gib), Phase: "optimizer_step 1", Origin: "observed"})
	}
	d.Options = []record.DecisionOption{{Name: "batch 2", Status: "completed", PeakBytes: n(gib), Complete: true, Comparable: true}, {Name: "batch 4", Status: "failed", Missing: []string{"quality"}}}
	d.Cards = []record.DecidedCard{{ID: "rtx-3060-12gb", Verdict: "does_not_fit", Reason: "its tensors alone are more", RoomLowBytes: n(-gib), RoomHighBytes: n(-gib)}}
	b.open("records%3Fa%3D" + keep(t, "decision.json", d))
	b.until(`document.querySelector("#records .verdict")`)
	text := b.text(`document.querySelector("#records").innerText`)
	for _, want := range []string{"batch 2, because the same quality in half the time; measured.", "max_memory_reserved", "4,294,967,296 B (4.00 GiB)", "not exercised", strings.Repeat("3f", 32), "resume", "quality, not comparable", "does not fit"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if b.text(`String(document.querySelectorAll("#records .phases .absent").length)`) != "1" {
		t.Error("the phase that no run had is not hatched")
	}
	b.looksRight("record-decision")
}

// The records of every kind that the page is given are drawn without an error.
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
	// What an engine that refused says of it is the answer, and stands first.
	refused := filepath.Join(t.TempDir(), "refused.log")
	if err := os.WriteFile(refused, []byte("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	b.open("records%3Fa%3D" + refused)
	b.until(`document.querySelector("#records .answer .verdict")?.textContent.includes("utilization")`)
	b.do(chromedp.SetUploadFiles("#record-file", []string{file}))
	b.until(`document.querySelector("#records .phases")`)
	snapshot := mustAbs(t, "../../testdata/snapshots/training_step.pickle")
	b.open("records%3Fa%3D" + snapshot + "%26b%3D" + snapshot)
	b.until(`document.querySelector("#records h2")?.textContent === "comparison"`)
	b.open("records%3Fa%3D" + snapshot)
	b.until(`document.querySelector("#records h2")?.textContent === "snapshot"`)
	b.looksRight("record-snapshot")
	b.do(chromedp.Click("#records .answer button"))
	b.until(`location.hash.startsWith("#trace") && document.querySelector(".device canvas")`)
	b.open("records%3Fa%3D" + mustAbs(t, "../../go.mod"))
	b.until(`document.querySelector("#records h2")?.textContent === "no answer"`)
}
