package cli

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"floodmark"
	"floodmark/internal/sweep"
)

// A program that prints more than is read must be judged by how it ended.
func TestOfMuchThatIsPrintedTheEndIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "printed.log")
	end := "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which 1.00 GiB is free.\n"
	for _, before := range []int{0, 1, mostPrinted} {
		if err := os.WriteFile(path, []byte(strings.Repeat("x\n", before)+end), 0o600); err != nil {
			t.Fatal(err)
		}
		printed, err := printedLast(path)
		if err != nil {
			t.Fatal(err)
		}
		if printed.Size() > mostPrinted {
			t.Errorf("%d bytes were read", printed.Size())
		}
		if p := floodmark.SweptMeasurement(nil, printed); p.Status != sweep.OutOfMemory {
			t.Errorf("after %d lines: %s", before, p.Status)
		}
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if printed, err := printedLast(path); err != nil || printed.Size() != 0 {
		t.Errorf("of nothing: %v, %v", printed, err)
	}
}

// A full disk is a fault of the sweep, not of the value: that is run again.
func TestAMeasurementThatWasNotWrittenIsNoPoint(t *testing.T) {
	path := filepath.Join(t.TempDir(), "batch-1.1")
	if err := os.WriteFile(path+".log", []byte(strings.Repeat("x", 1<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &runner{ledger: &sweep.Ledger{Folder: filepath.Dir(path)}}
	for exit, want := range map[int]string{0: "was not written", 3: "xxx"} {
		if _, err := r.point(context.Background(), path, exit); err == nil || !strings.Contains(err.Error(), want) || len(err.Error()) > 2000 {
			t.Errorf("status %d: %.3000v", exit, err)
		}
	}
}
