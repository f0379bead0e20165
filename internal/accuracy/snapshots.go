package accuracy

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"floodmark"
	"floodmark/record"
)

// expected is what an independent count says of one file. A null is a total
// that the file contradicts itself about.
type expected struct {
	File    string
	Devices []struct {
		Device        int
		RequestedPeak *int64 `json:"requested_peak"`
		RequestedEnd  *int64 `json:"requested_end"`
		AllocatedPeak *int64 `json:"allocated_peak"`
		ReservedPeak  *int64 `json:"reserved_peak"`
		ReservedEnd   *int64 `json:"reserved_end"`
		AllocatedEnd  *int64 `json:"allocated_end"`
		ActiveEnd     *int64 `json:"active_end"`
	}
}

// Snapshots scores the files that dir/expected.json lists.
func Snapshots(dir string) ([]Row, error) {
	data, err := os.ReadFile(filepath.Join(dir, "expected.json"))
	if err != nil {
		return nil, err
	}
	var files []expected
	if err := json.Unmarshal(data, &files); err != nil {
		return nil, err
	}
	var rows []Row
	for _, f := range files {
		document, err := read(filepath.Join(dir, f.File))
		for _, d := range f.Devices {
			got, why := record.SnapshotDevice{}, ""
			if err != nil {
				why = err.Error()
			} else {
				got, why = find(document, d.Device)
			}
			add := func(quantity string, want, got *int64) {
				if want != nil {
					rows = append(rows, Row{Table: "snapshots", Name: f.File, Quantity: fmt.Sprintf("cuda:%d %s", d.Device, quantity), Want: *want, Got: got, Why: why})
				}
			}
			add("requested peak", d.RequestedPeak, got.PeakRequestedBytes)
			add("requested end", d.RequestedEnd, got.EndRequestedBytes)
			add("allocated peak", d.AllocatedPeak, got.PeakAllocatedBytes)
			add("reserved peak", d.ReservedPeak, got.PeakReservedBytes)
			add("reserved end", d.ReservedEnd, got.EndReservedBytes)
			add("allocated end", d.AllocatedEnd, got.EndAllocatedBytes)
			add("active end", d.ActiveEnd, got.EndActiveBytes)
		}
	}
	return rows, nil
}

func read(path string) (*record.Snapshot, error) {
	evidence, err := floodmark.Open(path)
	if err != nil {
		return nil, err
	}
	document, ok := evidence.Record(record.Tool{}).(*record.Snapshot)
	if !ok {
		return nil, fmt.Errorf("%s is not read as a snapshot", path)
	}
	return document, nil
}

func find(document *record.Snapshot, device int) (record.SnapshotDevice, string) {
	for _, d := range document.Devices {
		if d.Device == device {
			return d, ""
		}
	}
	return record.SnapshotDevice{}, fmt.Sprintf("no cuda:%d in the record", device)
}
