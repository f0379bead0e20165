//go:build integration

package cli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"floodmark/record"
)

// sweptOnSlurm is the story that a real Slurm of one node is told: eight values,
// of which one fails for another reason and one is killed, then the same again.
const sweptOnSlurm = `
set -u
sweep() { "$FLOODMARK" sweep --on slurm --poll 300ms --sbatch=--gres=gpu:1 "$@"; }
sweep --vary batch=1,2,4,8,16,32,64,128 --folder array --json -- sh "$PWD/program.sh" {batch} >first.json
echo "first ended with $?"
sweep --resume array --json >again.json
echo "again ended with $?"
sweep --find-limit context=1..64 --folder limit --json -- sh "$PWD/program.sh" {context} >limit.json
echo "limit ended with $?"
`

const slurmProgram = `
echo "on GPU $CUDA_VISIBLE_DEVICES"
if [ "$1" -eq 4 ]; then echo "KeyError: 'labels'"; exit 7; fi
if [ "$1" -eq 2 ]; then scancel "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"; sleep 60; fi
if [ "$1" -gt 16 ]; then echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.56 GiB of which 1.06 GiB is free. Including non-PyTorch memory, this process has 22.48 GiB memory in use. Of the allocated memory 21.00 GiB is allocated by PyTorch, and 1.00 GiB is reserved by PyTorch but unallocated."; exit 1; fi
`

func TestSweepOnSlurm(t *testing.T) {
	folder := t.TempDir()
	program := filepath.Join(folder, "floodmark")
	if out, err := exec.Command("go", "build", "-o", program, "../../cmd/floodmark").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := os.WriteFile(filepath.Join(folder, "program.sh"), []byte(slurmProgram), 0o644); err != nil {
		t.Fatal(err)
	}
	node := exec.Command(mustAbs(t, "../../scripts/slurm_node.sh"), "sh", "-c", sweptOnSlurm)
	node.Dir = folder
	node.Env = append(os.Environ(), "FLOODMARK="+program)
	said, err := node.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	t.Logf("%s", said)
	for _, name := range []string{"first.json", "again.json"} {
		d := readSweep(t, filepath.Join(folder, name))
		statuses := map[int64]string{}
		for _, p := range d.Points {
			statuses[p.Value] = p.Status
		}
		want := map[int64]string{1: "passed", 2: "lost", 4: "failed", 8: "passed", 16: "passed", 32: "out_of_memory", 64: "out_of_memory", 128: "out_of_memory"}
		for value, status := range want {
			if statuses[value] != status {
				t.Errorf("%s: batch %d is %q, want %q", name, value, statuses[value], status)
			}
		}
		if b := d.Boundary; b.LargestPass == nil || *b.LargestPass != 16 || b.SmallestFail == nil || *b.SmallestFail != 32 {
			t.Errorf("%s: boundary %+v", name, b)
		}
	}
	ledger, err := os.ReadFile(filepath.Join(folder, "array", "ledger.jsonl"))
	if lines := strings.Count(string(ledger), "\n"); err != nil || lines != 8 {
		t.Errorf("%d lines, want 8: %v\n%s", lines, err, ledger)
	}
	if attempts, _ := filepath.Glob(filepath.Join(folder, "array", "points", "batch-*.2.log")); len(attempts) > 0 {
		t.Errorf("something was run twice: %q", attempts)
	}
	// 4 is among what a search may ask only where it fails: here it is not met.
	if d := readSweep(t, filepath.Join(folder, "limit.json")); d.Boundary.LargestPass == nil || *d.Boundary.LargestPass != 16 || len(d.Points) > 8 {
		t.Errorf("the search found %+v in %d runs", d.Boundary, len(d.Points))
	}
}

func readSweep(t *testing.T, path string) *record.Sweep {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var d record.Sweep
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatalf("%s: %v\n%s", path, err, text)
	}
	return &d
}
