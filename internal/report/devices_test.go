package report

import (
	"strings"
	"testing"

	"floodmark/record"
)

// Eight cards are seen and one is used: the others take one line, in each view
// of a recording.
func TestIdleDevicesTakeOneLine(t *testing.T) {
	snapshot := explained()
	replay := &record.Replay{Source: "run.pickle", Devices: []record.ReplayDevice{{Certificate: record.Certificate{Holds: pointer(true), Addresses: record.Matched{Matched: 3, Total: 3}}}}}
	comparison := &record.Comparison{Totals: []record.ComparisonRow{{Term: "peak", Device: pointer(0), ABytes: pointer(int64(9)), BBytes: pointer(int64(9))}}}
	for device := 1; device < 8; device++ {
		snapshot.Devices = append(snapshot.Devices, record.SnapshotDevice{Device: device})
		replay.Devices = append(replay.Devices, record.ReplayDevice{Device: device, Certificate: record.Certificate{EndStateEqual: true}})
		comparison.Totals = append(comparison.Totals, record.ComparisonRow{Term: "peak", Device: pointer(device), ABytes: pointer(int64(0)), BBytes: pointer(int64(0))})
	}
	for _, document := range []any{snapshot, replay, comparison} {
		var b strings.Builder
		if err := Text(&b, document, Style{Width: 80}); err != nil {
			t.Fatal(err)
		}
		text := b.String()
		if !strings.Contains(text, "\ncuda:0") || !strings.Contains(text, "\ncuda:1 to cuda:7: nothing recorded\n") || strings.Count(text, "cuda:") != 3 {
			t.Errorf("%T:\n%s", document, text)
		}
	}
}

// A card that holds memory and recorded no history is not idle.
func TestDeviceWithoutHistoryIsShown(t *testing.T) {
	d := &record.Snapshot{Devices: []record.SnapshotDevice{{Device: 3, Segments: 1, Blocks: 2, EndReservedBytes: pointer(int64(2 << 20))}}}
	var b strings.Builder
	if err := Text(&b, d, Style{Width: 80}); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); !strings.Contains(text, "cuda:3 · 0 events · 1 segment · 2 blocks") || strings.Contains(text, "nothing recorded") {
		t.Error(text)
	}
}

// Numbers of one unit look alike in a table: all of them with two decimals.
func TestPreparationNumbersLookAlike(t *testing.T) {
	d := &record.Estimate{Preparation: &record.Preparation{Parameters: 1, Bits: 1, WeightsBytes: 14_000_000_000_000, ReserveBytes: 4 << 30, TotalBytes: 14_004_294_967_296}}
	var b strings.Builder
	if err := Text(&b, d, Style{Width: 120}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"weights  14,000,000,000,000  14,000.00  13,038.52  calculated: 1 parameter × 1 bit\n",
		"reserve       4,294,967,296       4.29       4.00  assumed by you\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
