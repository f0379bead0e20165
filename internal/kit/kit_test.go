package kit

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"floodmark/internal/checklist"
	"floodmark/record"
)

func TestTheKitIsWhole(t *testing.T) {
	checklist.Covers(t, 104, 112, 127, 129)
	folder := filepath.Join(t.TempDir(), "lab")
	if err := Write(folder, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"README.md", "lab.py", "lab.ipynb", "floodmark_probe.py", "comparison.csv", "LICENSE", "VERSION", "SHA256SUMS"} {
		if info, err := os.Stat(filepath.Join(folder, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	check := exec.Command("sha256sum", "-c", "--quiet", "SHA256SUMS")
	check.Dir = folder
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("the checksums: %v\n%s", err, out)
	}
	readme, _ := os.ReadFile(filepath.Join(folder, "README.md"))
	for _, want := range []string{"Floodmark 1.2.3", "from this folder", "authorized to use", "cold_forward", "How far a result reaches", "without outputs", "opens notebooks"} {
		if !strings.Contains(string(readme), want) {
			t.Errorf("README.md lacks %q", want)
		}
	}
	ours, _ := os.ReadFile("../../LICENSE")
	if theirs, _ := os.ReadFile(filepath.Join(folder, "LICENSE")); !bytes.Equal(ours, theirs) {
		t.Error("the licence is not that of the project")
	}
	table, _ := os.ReadFile(filepath.Join(folder, "comparison.csv"))
	if rows := strings.Split(strings.TrimSpace(string(table)), "\n"); len(rows) != 2 || strings.Trim(rows[1], ",") != "" {
		t.Errorf("the table for comparisons is not empty: %q", table)
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	for _, name := range []string{"lab", "lab.zip"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := Write(path, "1"); !errors.Is(err, record.ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
		if kept, _ := os.ReadFile(path); string(kept) != "mine" {
			t.Errorf("%s is lost", name)
		}
	}
}

func TestTheSameKitIsTheSameFile(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		path := filepath.Join(t.TempDir(), "lab.zip")
		if err := Write(path, "1"); err != nil {
			t.Fatal(err)
		}
		archives[i], _ = os.ReadFile(path)
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of one version differ")
	}
	z, err := zip.NewReader(bytes.NewReader(archives[0]), int64(len(archives[0])))
	if err != nil || len(z.File) != 8 {
		t.Errorf("%d files, %v", len(z.File), err)
	}
	for _, f := range z.File {
		if !strings.HasPrefix(f.Name, "floodmark-lab/") {
			t.Errorf("%s would be unpacked among other things", f.Name)
		}
	}
}

func TestTheNotebookHasNoOutputs(t *testing.T) {
	checklist.Covers(t, 108, 127)
	data, err := notebook()
	if err != nil {
		t.Fatal(err)
	}
	var n struct {
		Cells []struct {
			Type    string            `json:"cell_type"`
			ID      string            `json:"id"`
			Outputs []json.RawMessage `json:"outputs"`
			Count   *int              `json:"execution_count"`
			Source  string            `json:"source"`
		} `json:"cells"`
		Format int `json:"nbformat"`
	}
	if err := json.Unmarshal(data, &n); err != nil || n.Format != 4 {
		t.Fatal(n.Format, err)
	}
	for _, c := range n.Cells {
		if len(c.Outputs) > 0 || c.Count != nil || c.ID == "" {
			t.Errorf("cell %q was executed", c.ID)
		}
	}
}

// python runs the kit with a Python in which PyTorch cannot be found.
func python(t *testing.T, args ...string) (out string, status int, folder string) {
	t.Helper()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT RUN: there is no python3 (apt-get install python3)")
	}
	folder = filepath.Join(t.TempDir(), "lab")
	var b bytes.Buffer
	status = pythonTo(t, folder, &b, &b, args...)
	return b.String(), status, folder
}

// pythonTo is [python] with its output elsewhere.
func pythonTo(t *testing.T, folder string, out, faults io.Writer, args ...string) (status int) {
	t.Helper()
	if err := Write(folder, "1"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("python3", append([]string{"-c", withoutTorch}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, out, faults
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode()
}

// Whoever reads the output may have enough of it, as head does.
func TestAReaderThatStops(t *testing.T) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("NOT RUN: there is no python3 (apt-get install python3)")
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	reader.Close()
	var faults bytes.Buffer
	if status := pythonTo(t, filepath.Join(t.TempDir(), "lab"), writer, &faults, "lab.py", "environment"); status != 0 || faults.Len() > 0 {
		t.Errorf("status %d, and said:\n%s", status, faults.String())
	}
}

// withoutTorch runs a script, or the cells of a notebook one after the other, as
// on a machine where nobody installed PyTorch.
const withoutTorch = `
import json, runpy, sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")
sys.meta_path.insert(0, Hidden())
sys.path.insert(0, ".")
sys.argv = sys.argv[1:]
if sys.argv[0].endswith(".ipynb"):
    space = {"__name__": "__main__"}
    for cell in json.load(open(sys.argv[0], encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile(cell["source"], cell["id"], "exec"), space)
else:
    runpy.run_path(sys.argv[0], run_name="__main__")
`

func TestEstimateNeedsNothing(t *testing.T) {
	checklist.Covers(t, 105)
	out, status, _ := python(t, "lab.py", "estimate", "--parameters", "7000000000", "--bits", "16", "--reserve-gib", "4")
	for _, want := range []string{"14,000,000,000", "14.00", "13.04", "18,294,967,296", "17.04", "no proof"} {
		if status != 0 || !strings.Contains(out, want) {
			t.Errorf("status %d, without %q:\n%s", status, want, out)
		}
	}
	if out, status, _ := python(t, "lab.py", "estimate", "--parameters", "7000000000", "--bits", "4", "--json"); status != 0 || !strings.Contains(out, `"weights_bytes": 3500000000`) {
		t.Errorf("status %d:\n%s", status, out)
	}
}

func TestTheGuardOfTheKit(t *testing.T) {
	checklist.Covers(t, 106, 114, 128)
	out, status, folder := python(t, "lab.py", "measure", "--device", "cuda:0", "--output", "measure-1.jsonl")
	if status != 2 || !strings.Contains(out, "PyTorch is missing") {
		t.Errorf("status %d:\n%s", status, out)
	}
	if _, err := os.Stat(filepath.Join(folder, "measure-1.jsonl")); err == nil {
		t.Error("something was written")
	}
	for _, args := range []string{"estimate", "estimate --parameters 0", "estimate --parameters 7 --bits 65", "measure", "measure --device cuda:0 --dtype int8", "nothing", ""} {
		if out, status, _ := python(t, append([]string{"lab.py"}, strings.Fields(args)...)...); status != 64 {
			t.Errorf("%q ended with %d:\n%s", args, status, out)
		}
	}
}

func TestTheNotebookRunsUpToItsGuard(t *testing.T) {
	out, status, folder := python(t, "lab.ipynb")
	for _, want := range []string{"13.04", "python     3.", "PyTorch is missing", "nothing was measured: status 2"} {
		if status != 1 || !strings.Contains(out, want) {
			t.Errorf("status %d, without %q:\n%s", status, want, out)
		}
	}
	if made, _ := filepath.Glob(filepath.Join(folder, "*.jsonl")); len(made) > 0 {
		t.Errorf("something was written: %v", fmt.Sprint(made))
	}
}
