package report

import (
	"strings"
	"testing"

	"floodmark/bytesize"
	"floodmark/record"
)

func pointer[T any](v T) *T { return &v }

// explained is a snapshot with a row of everything.
func explained() *record.Snapshot {
	return &record.Snapshot{Source: "run.pickle", Devices: []record.SnapshotDevice{{
		History: true, Events: 22331, Segments: 234, Blocks: 1031, PeakEvent: pointer(int64(3737)), CompositionEvent: 3736,
		PeakRequestedBytes: pointer(int64(24_207_167_496)), PeakAllocatedBytes: pointer(int64(24_210_000_000)),
		Summary:      "The peak of 22.55 GiB is in a backward: most of it is activations.",
		SummaryParts: []record.SentencePart{{Text: "The peak of "}, {Text: "22.55 GiB", Bytes: pointer(int64(24_210_000_000))}, {Text: " is in a backward: most of it is activations."}},
		Named:        []record.NamedPart{{Name: "warmup", Phase: pointer("warmup"), Intervals: 3, PeakRequestedBytes: pointer(int64(3 << 30)), PeakEvent: 1200}, {Name: "## forward ##", Phase: pointer("forward"), Intervals: 1, PeakRequestedBytes: pointer(int64(2 << 30))}},
		Composition: []record.Share{
			{Category: "activation", Bytes: pointer(int64(24_000_000_000))},
			{Category: "logits", Bytes: pointer(int64(4))},
			{Category: "unattributed", Bytes: pointer(int64(655_360))},
			{Category: "allocator_rounding", Bytes: pointer(int64(209_344_636))},
		},
		Reasons: []record.Reason{{Category: "activation", Why: "made by a forward and held for its backward"}},
		Top: []record.TopStack{
			{Bytes: 6 << 30, Count: 24, Where: "exp ← softmax (project/nn_utils.py:6) ← scaled_dot_product_attention (project/model.py:432)"},
			{Bytes: 1 << 30, Count: 2, Where: "div_Tensor ← DivBackward0"},
			{Bytes: 1 << 29, Count: 664},
		},
		Files:   []record.Place{{Name: pointer("project/model.py"), Bytes: 10 << 30}, {Bytes: 5 << 30}},
		Streams: []record.StreamPool{{Stream: "0", Pool: "default", ReservedBytes: pointer(int64(3 << 30))}, {Stream: "7", Pool: "0,1", ReservedBytes: pointer(int64(1 << 30))}},
	}}}
}

func TestSnapshotText(t *testing.T) {
	var b strings.Builder
	if err := Text(&b, explained(), Style{Width: 80}); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, line := range strings.Split(text, "\n") {
		if Columns(line) > 80 {
			t.Errorf("%d columns: %s", Columns(line), line)
		}
	}
	for _, want := range []string{
		"The peak of 22.55 GiB is in a backward",
		"the allocated peak, after event 3,736\n",
		"requested stands highest after event 3,737 of 22,331, counted from 0;",
		"3.00        1,200      3  warmup\n",
		"2.00            0      1  ## forward ## (forward)\n",
		"22.35  99.1  activation          made by a forward and held for its backward",
		" 0.00   0.0  unattributed",
		" 0.19   0.9  allocator_rounding",
		"exp ← softmax (project/nn_utils.py:6) ←",
		"div_Tensor ← DivBackward0",
		"no stack was recorded",
		"by file: project/model.py 10.00 GiB\n",
		"7       0,1               1.00       —",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if strings.Contains(text, "logits") {
		t.Error("a row that reads 0.0 is shown")
	}
	if t.Failed() {
		t.Log(text)
	}
}

// A unit that was asked for holds in the sentence as well.
func TestSnapshotTextInAUnit(t *testing.T) {
	var b strings.Builder
	unit := bytesize.GB
	if err := Text(&b, explained(), Style{Width: 80, Unit: &unit}); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, "The peak of 24.21 GB is in a backward") || strings.Contains(text, "GiB") {
		t.Error(text)
	}
}

// Without a recorded history nothing is called a peak.
func TestSnapshotTextWithoutHistory(t *testing.T) {
	d := explained()
	d.Devices[0].History, d.Devices[0].Summary, d.Devices[0].SummaryParts = false, "The snapshot holds 22.55 GiB.", nil
	var b strings.Builder
	if err := Text(&b, d, Style{Width: 80}); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.Contains(text, "peak") || strings.Contains(text, "highest after") || !strings.Contains(text, "at the dump") {
		t.Error(text)
	}
}

// One stream in one pool is what the lines above say already.
func TestSnapshotTextOfOneStream(t *testing.T) {
	d := explained()
	d.Devices[0].Streams = d.Devices[0].Streams[:1]
	var b strings.Builder
	if err := Text(&b, d, Style{Width: 80}); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "stuck") {
		t.Errorf("a table of one stream is shown:\n%s", b.String())
	}
}
