package floodmark

import (
	"path/filepath"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/source"
	"floodmark/record"
	"floodmark/snapshot"
)

// readSnapshot reads a committed file of package snapshot.
func readSnapshot(t *testing.T, name string) snapshotEvidence {
	t.Helper()
	src, err := source.Open(filepath.Join("snapshot", "testdata", "real", name))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	s, err := snapshot.Read(src)
	if err != nil {
		t.Fatal(err)
	}
	return newSnapshotEvidence(s)
}

// The rows of a composition sum to the peak, or to the level at the dump, and the reasons to what of it was
// requested.
func TestSnapshotCompositionSumsToThePeak(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("snapshot", "testdata", "real", "*.pickle"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		e := readSnapshot(t, filepath.Base(file))
		for _, d := range e.Record(record.Tool{}).(*record.Snapshot).Devices {
			shares, reasons := int64(0), int64(0)
			for _, share := range d.Composition {
				shares += *share.Bytes
			}
			peak, rounding := *d.PeakRequestedBytes, int64(0)
			if !d.History {
				peak = *d.EndRequestedBytes
			}
			if d.PeakAllocatedBytes != nil {
				peak, rounding = *d.PeakAllocatedBytes, *d.Composition[len(d.Composition)-1].Bytes
			}
			for _, reason := range d.Reasons {
				reasons += reason.Bytes
			}
			if shares != peak || reasons != shares-rounding || d.Summary == "" {
				t.Errorf("%s: shares sum to %d, reasons to %d, rounding is %d, the peak %d; %q", file, shares, reasons, rounding, peak, d.Summary)
			}
		}
	}
}

// Under an exact peak of allocated bytes one row more is rounding.
func TestSnapshotCompositionOfAnExactPeak(t *testing.T) {
	e := readSnapshot(t, "assignment2-silmont.pickle")
	rough := e.device(0, nil)
	exact := e.device(0, &exactPeak{bytes: *rough.PeakRequestedBytes + 1000, entry: int(*rough.PeakEvent)})
	sum := int64(0)
	for _, share := range exact.Composition {
		sum += *share.Bytes
	}
	last := exact.Composition[len(exact.Composition)-1]
	if sum != *exact.PeakAllocatedBytes || exact.PeakAllocatedLowBytes != nil || last.Category != "allocator_rounding" || *last.Bytes != 1000 {
		t.Errorf("rows sum to %d of %d, the last is %+v", sum, *exact.PeakAllocatedBytes, last)
	}
}

// What is stranded is part of what is cached, and streams sum to the whole.
func TestSnapshotStreams(t *testing.T) {
	d := readSnapshot(t, "verl.pickle").device(0, nil)
	reserved, stranded := int64(0), int64(0)
	for _, s := range d.Streams {
		reserved, stranded = reserved+*s.ReservedBytes, stranded+*s.StrandedBytes
	}
	f := d.Fragmentation
	if len(d.Streams) != 3 || reserved != *d.EndReservedBytes || stranded != *f.UnreleasableBytes || stranded > *f.CachedBytes || *f.LargestFreeBytes == 0 {
		t.Errorf("%d streams and pools hold %d of %d; %d of %d cached bytes are stranded", len(d.Streams), reserved, *d.EndReservedBytes, stranded, *f.CachedBytes)
	}
}

// A person learns in one sentence what the memory of a vLLM worker is.
func TestSnapshotSummary(t *testing.T) {
	d := readSnapshot(t, "verl.pickle").device(0, nil)
	if !strings.HasPrefix(d.Summary, "The snapshot holds 23.73 GiB: 20.28 GiB of it is KV cache because ") {
		t.Errorf("summary: %s", d.Summary)
	}
	if top := d.Top[0]; top.Category != "kv_cache" || top.Count != 24 || !strings.Contains(strings.Join(top.Stack, " "), "_allocate_kv_cache (worker/cache_engine.py:83)") {
		t.Errorf("the largest stack is %+v", top)
	}
}

// Accounts have a term for each category, so that they can be compared.
func TestSnapshotAccountTerms(t *testing.T) {
	a := readSnapshot(t, "assignment2-magma.pickle").Accounts()[0]
	bytes := map[string]int64{}
	for _, phase := range a.Phases {
		for _, share := range phase.AtPeak {
			bytes[string(a.Terms[share.Term].ID)] = max(bytes[string(a.Terms[share.Term].ID)], share.Bytes.Low())
		}
	}
	if bytes["weights"] != 514_501_632 || bytes["gradients"] != 514_501_632 || bytes["workspace"] != 17_039_360 {
		t.Errorf("terms at the peak: %v", bytes)
	}
}

// Parts that the program named are in the record, the phases among them as such.
func TestSnapshotNamedParts(t *testing.T) {
	rows := namedOf([]snapshot.Named{
		{Name: "## forward ##", Phase: account.PhaseForward, Intervals: 2, Peak: snapshot.Peak{Bytes: 100, Entry: 3}},
		{Name: "epoch 3", Phase: account.PhaseRecorded, Intervals: 1, Peak: snapshot.Peak{Bytes: 40, Entry: 0}},
	})
	if len(rows) != 2 || *rows[0].Phase != "forward" || *rows[0].PeakRequestedBytes != 100 || rows[0].PeakEvent != 3 || rows[1].Phase != nil {
		t.Errorf("rows are %+v", rows)
	}
}

// Keys that nothing was read from are told, however many.
func TestUnknownKeys(t *testing.T) {
	keys := []snapshot.UnknownKey{{In: "entry", Key: "colour", Count: 7}}
	if got := unknownKeys(keys); len(got) != 1 || got[0].Text != `one key of the file is unknown to this version and was not read: "colour" of entry (7 times)` {
		t.Errorf("one key is %v", got)
	}
	for range 20 {
		keys = append(keys, keys[0])
	}
	if got := unknownKeys(keys); len(got) != 1 || !strings.HasPrefix(got[0].Text, "21 keys ") || strings.Count(got[0].Text, "colour") != topRows {
		t.Errorf("many keys are %v", got)
	}
	if unknownKeys(nil) != nil {
		t.Error("a file without unknown keys is told to have some")
	}
}

// A sentence in parts reads as the summary does, and its amounts are the bytes.
func TestSnapshotSummaryParts(t *testing.T) {
	d := readSnapshot(t, "assignment2-magma.pickle").device(0, nil)
	text, amounts := "", 0
	for _, p := range d.SummaryParts {
		text += p.Text
		if p.Bytes != nil {
			amounts++
		}
	}
	if text != d.Summary || amounts < 3 || *d.SummaryParts[1].Bytes != *d.PeakRequestedBytes {
		t.Errorf("%d amounts in %+v", amounts, d.SummaryParts)
	}
}
