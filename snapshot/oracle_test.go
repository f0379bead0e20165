package snapshot

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"floodmark/internal/oracle"
)

// expected is what expected.json says of one device of one file. A null is a
// figure that nobody can give.
type expected struct {
	Device        int            `json:"device"`
	Segments      int            `json:"segments"`
	Blocks        int            `json:"blocks"`
	Events        int            `json:"events"`
	Actions       map[string]int `json:"actions"`
	ReservedEnd   int64          `json:"reserved_end"`
	ReservedPeak  int64          `json:"reserved_peak"`
	AllocatedEnd  int64          `json:"allocated_end"`
	ActiveEnd     int64          `json:"active_end"`
	RequestedEnd  *int64         `json:"requested_end"`
	RequestedPeak *int64         `json:"requested_peak"`
}

type expectedFile struct {
	File        string     `json:"file"`
	Devices     []expected `json:"devices"`
	Annotations int        `json:"annotations"`
}

// TestOracleSnapshots checks every real file of the folder of published facts.
func TestOracleSnapshots(t *testing.T) {
	checkFiles(t, filepath.Join(oracle.Dir(t), "snapshots"))
}

// TestCommittedFiles checks the real files of five eras that are committed.
func TestCommittedFiles(t *testing.T) {
	checkFiles(t, filepath.Join("testdata", "real"))
}

func checkFiles(t *testing.T, folder string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var files []expectedFile
	if err := json.Unmarshal(text, &files); err != nil {
		t.Fatal(err)
	}
	for _, want := range files {
		t.Run(want.File, func(t *testing.T) {
			checkFile(t, readFile(t, filepath.Join(folder, want.File)), want)
		})
	}
}

func checkFile(t *testing.T, s *Snapshot, want expectedFile) {
	t.Helper()
	if len(s.Annotations) != want.Annotations || len(s.Unknown) != 0 || len(s.Warnings) != 0 {
		t.Errorf("%d annotations, want %d; unknown keys %v; warnings %v", len(s.Annotations), want.Annotations, s.Unknown, s.Warnings)
	}
	recordings := s.Recordings()
	if len(recordings) != len(want.Devices) {
		t.Fatalf("%d devices, want %d", len(recordings), len(want.Devices))
	}
	for i, r := range recordings {
		checkDevice(t, r, want.Devices[i])
	}
}

func checkDevice(t *testing.T, r *Recording, want expected) {
	t.Helper()
	equal := func(what string, got, want int64) {
		t.Helper()
		if got != want {
			t.Errorf("device %d: %s is %d, want %d", r.Timeline.Device, what, got, want)
		}
	}
	blocks, counted := 0, Levels{}
	for _, segment := range r.Segments {
		blocks += segment.Count
		counted.Allocated += segment.Allocated
		counted.Active += segment.Active
	}
	equal("device", int64(r.Timeline.Device), int64(want.Device))
	equal("segments", int64(len(r.Segments)), int64(want.Segments))
	equal("blocks", int64(blocks), int64(want.Blocks))
	equal("events", int64(r.Trace.Len()), int64(want.Events))
	actions := map[string]int{}
	for _, a := range r.Trace.Action {
		actions[a.String()]++
	}
	for _, a := range Actions() {
		equal(a.String(), int64(actions[a.String()]), int64(want.Actions[a.String()]))
	}
	peaks := r.Peaks()
	equal("reserved at the end", r.End.Reserved, want.ReservedEnd)
	equal("reserved peak", peaks.Reserved.Bytes, want.ReservedPeak)
	equal("allocated at the end, as the segments count", counted.Allocated, want.AllocatedEnd)
	equal("active at the end, as the segments count", counted.Active, want.ActiveEnd)
	if want.RequestedEnd == nil {
		if len(r.Timeline.Warnings) == 0 {
			t.Error("a trace that contradicts its segments gives no warning")
		}
		return
	}
	if len(r.Timeline.Warnings) != 0 {
		t.Errorf("warnings %v", r.Timeline.Warnings)
	}
	equal("allocated at the end", r.End.Allocated, want.AllocatedEnd)
	equal("active at the end", r.End.Active, want.ActiveEnd)
	equal("requested at the end", r.Timeline.EndRequested(), *want.RequestedEnd)
	peak, _ := r.Timeline.PeakRequested()
	equal("requested peak", peak, *want.RequestedPeak)
	equal("requested peak of the walk", peaks.Requested.Bytes, *want.RequestedPeak)
	var last Levels
	r.Walk(func(_ int, l Levels) { last = l })
	if last != r.End {
		t.Errorf("the walk ends at %+v, the segments say %+v", last, r.End)
	}
}
