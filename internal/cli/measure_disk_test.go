package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// smallDisk mounts a disk of one page.
func smallDisk(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=4096"); err != nil {
		t.Skipf("NOT RUN: a small disk is mounted by root only (%v)", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, 0); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// phases is a program that writes the readings of some phases.
const phases = `out=$FLOODMARK_PROBE_OUT/process.jsonl
echo '{"v":1,"type":"process","mono_ns":1000,"pid":7,"python":"3.12.1","phases":true}' >$out
for step in 1 2 3 4 5 6 7 8; do
	echo '{"v":1,"type":"end","mono_ns":3000,"id":1,"name":"forward","step":'$step',"seen":"hooked","devices":[{"device":0,"start":{"allocated_bytes":1,"reserved_bytes":2},"peak":{"allocated_bytes":3,"reserved_bytes":4},"end":{"allocated_bytes":1,"reserved_bytes":4}}],"status":"ok","duration_ns":10}' >>$out
done
echo ran >>"$1"
exit 3`

// A disk that is full before the run refuses it. One that fills up meanwhile
// costs the record and not the readings: the name keeps its first record, and
// the message says where the readings are and how the program ended.
func TestMeasureOnAFullDisk(t *testing.T) {
	ran := filepath.Join(t.TempDir(), "ran")
	disk := smallDisk(t)
	path := filepath.Join(disk, "run.json")
	_, stderr, code := run(240, nil, false, "measure", "--output", path, "--", "sh", "-c", phases, "sh", ran)
	if code != 125 || !strings.Contains(stderr, "no space left on device") || !strings.Contains(stderr, "the program ended with status 3, and the raw readings are in ") {
		t.Errorf("status %d, said %q", code, stderr)
	}
	_, readings, found := strings.Cut(strings.TrimSpace(stderr), "the raw readings are in ")
	if streams, err := os.ReadDir(readings); !found || err != nil || len(streams) != 1 {
		t.Errorf("the readings in %q: %v, %v", readings, streams, err)
	} else {
		os.RemoveAll(filepath.Dir(readings))
	}
	if data, err := os.ReadFile(path); err != nil || !strings.Contains(string(data), "nothing_reported") {
		t.Errorf("the name has %q, %v", data, err)
	}
	if left, err := os.ReadDir(disk); err != nil || len(left) != 1 {
		t.Errorf("on the disk are %v, %v", left, err)
	}

	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(ran); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(disk, "other"), make([]byte, 4096), 0o644); err != nil {
		t.Fatal(err)
	}
	_, stderr, code = run(240, nil, false, "measure", "--output", path, "--", "sh", "-c", phases, "sh", ran)
	if code != 125 || !strings.Contains(stderr, "no space left on device") {
		t.Errorf("on a full disk: status %d, said %q", code, stderr)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the program ran although nothing could be kept of it")
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a file without a record was left")
	}
}
