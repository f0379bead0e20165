package replay

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"floodmark/allocator"
	"floodmark/internal/oracle"
	"floodmark/internal/source"
	"floodmark/snapshot"
)

func read(t *testing.T, path string) *snapshot.Snapshot {
	t.Helper()
	src, err := source.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	s, err := snapshot.Read(src)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fact is what expected.json says of one file.
type fact struct {
	File    string
	Devices []struct {
		Device        int
		ReservedPeak  int64  `json:"reserved_peak"`
		AllocatedPeak *int64 `json:"allocated_peak"`
		RequestedPeak *int64 `json:"requested_peak"`
	}
}

// Over all recorded files: every address, segment and release is found again,
// except in the one that is random data.
func TestOracles(t *testing.T) {
	folder := oracle.Dir(t)
	data, err := os.ReadFile(filepath.Join(folder, "snapshots", "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var facts []fact
	if err := json.Unmarshal(data, &facts); err != nil {
		t.Fatal(err)
	}
	var addresses, segments, releases Count
	held := 0
	for _, f := range facts {
		s := read(t, filepath.Join(folder, "snapshots", f.File))
		all := true
		for i, r := range s.Recordings() {
			got := Replay(s, r, allocator.LatestRules(), 0)
			all = all && got.Certificate.Holds()
			if f.File == "facebookresearch__mosaic/test_snapshots_output.pickle" {
				t.Log(f.File, got.Certificate)
				continue
			}
			if !got.Certificate.Holds() {
				t.Errorf("%s device %d: %s", f.File, i, got.Certificate)
			}
			want := f.Devices[i]
			if want.AllocatedPeak != nil && got.Run.Peaks.Allocated.Bytes != *want.AllocatedPeak {
				t.Errorf("%s: allocated peak %d, want %d", f.File, got.Run.Peaks.Allocated.Bytes, *want.AllocatedPeak)
			}
			if want.RequestedPeak != nil && got.Run.Peaks.Requested.Bytes != *want.RequestedPeak {
				t.Errorf("%s: requested peak %d, want %d", f.File, got.Run.Peaks.Requested.Bytes, *want.RequestedPeak)
			}
			if got.Run.Peaks.Reserved.Bytes != want.ReservedPeak {
				t.Errorf("%s: reserved peak %d, want %d", f.File, got.Run.Peaks.Reserved.Bytes, want.ReservedPeak)
			}
			changedAddressesAreNamed(t, f.File, s, i)
			addresses.add(got.Certificate.Addresses)
			segments.add(got.Certificate.Segments)
			releases.add(got.Certificate.Releases)
		}
		if all {
			held++
		}
	}
	t.Logf("%d of %d files; addresses %v, segments %v, releases %v", held, len(facts), addresses, segments, releases)
	if held != 29 || (addresses != Count{61315, 61315}) || !segments.All() || !releases.All() {
		t.Errorf("not reproduced: %d of %d files; addresses %v, segments %v, releases %v", held, len(facts), addresses, segments, releases)
	}
}

// changedAddressesAreNamed changes some recorded addresses of a device, one at a
// time.
func changedAddressesAreNamed(t *testing.T, file string, s *snapshot.Snapshot, device int) {
	t.Helper()
	if device >= len(s.Traces) {
		return
	}
	trace := &s.Traces[device]
	for i := trace.Len() / 9; i < trace.Len(); i += 1 + trace.Len()/7 {
		for i < trace.Len() && trace.Action[i] != snapshot.Alloc {
			i++
		}
		if i == trace.Len() {
			return
		}
		trace.Addr[i] += 512
		c := Replay(s, s.Recordings()[device], allocator.LatestRules(), 0).Certificate
		if m := c.FirstMismatch; c.Holds() || m == nil || m.Entry != i {
			t.Errorf("%s: the address of entry %d was changed: %s", file, i, c)
		}
		trace.Addr[i] -= 512
	}
}

func (c *Count) add(o Count) {
	c.Matched += o.Matched
	c.Total += o.Total
}
