//go:build unix

package environment

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"floodmark/account"
	"floodmark/device"
	"floodmark/device/devicetest"
	"floodmark/device/owners"
	"floodmark/internal/checklist"
)

const gib = 1 << 30

// python makes an interpreter out of a shell script. $init is 1 where a context
// is to be made, and empty where it is asked for itself.
func python(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(path, []byte("#!/bin/sh\ninit=\n[ $# != 3 ] || init=1\n"+body), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// says is an interpreter that has a PyTorch for CUDA, and goes on with the rest
// of a script where a context is to be made.
func says(t *testing.T, rest string) string {
	t.Helper()
	return python(t, `if [ -z "$init" ]; then cat >&3 <<'END'
{"python": "3.12.3"}
{"torch": {"found": true, "version": "2.8.0+cu128", "cuda": "12.8"}}
{"loaded": {"imported": true, "version": "2.8.0+cu128", "cuda": "12.8", "allocator": "native"}}
{"counted": {"devices": 2}}
END
exit; fi
`+rest)
}

// two is a machine with two cards alike. Each is read once to be shown, and then
// before and after a context is made, which takes half a GiB of the second.
func two() *devicetest.Reader {
	return &devicetest.Reader{
		List: []device.Device{{Vendor: "NVIDIA", Name: "X", UUID: "GPU-aa11"}, {Vendor: "NVIDIA", Name: "X", UUID: "GPU-bb22", Card: 1}},
		Readings: map[int][]device.Memory{
			0: {devicetest.Memory(24*gib, gib, nil)},
			1: {devicetest.Memory(24*gib, gib, map[int]int64{77: gib}), devicetest.Memory(24*gib, gib, map[int]int64{77: gib}),
				devicetest.Memory(24*gib, gib, map[int]int64{77: gib, 4242: gib / 2})},
		}}
}

// hostProc is a /proc of a host, in which 4242 is a process without children.
func hostProc(t *testing.T) owners.Table {
	t.Helper()
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "self/ns"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("pid:[4026531836]", filepath.Join(root, "self/ns/pid")); err != nil {
		t.Fatal(err)
	}
	return owners.Open(root)
}

func look(t *testing.T, o Options) Report {
	t.Helper()
	o.Processes, o.Patience = hostProc(t), 10*time.Second
	if o.Devices == nil {
		o.Devices = two()
	}
	r, err := Look(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func said(f account.Figure) string {
	if n, ok := f.IsExact(); ok {
		return fmt.Sprint(n)
	}
	return "unknown: " + f.Reason()
}

// makes speaks as the script does that creates a context.
const makes = `echo '{"step": "imported", "pid": 4242}' >&3
read go
echo '{"step": "created", "uuid": "bb22", "total": 25000000000, "free": 20000000000, "allocated": 0, "reserved": 0}' >&3
read go
`

// A context is measured from outside, on the device that the process saw, whose
// total and free bytes are what a program has after it began.
func TestContext(t *testing.T) {
	checklist.Covers(t, 172)
	for _, asked := range []string{"", "cuda:0", "cuda:1", "GPU-bb"} {
		c := look(t, Options{Python: says(t, makes), Init: true, Device: asked}).Context
		if c.Problem != "" || c.Device != 1 || said(c.Process) != fmt.Sprint(gib/2) || said(c.Grown) != fmt.Sprint(gib/2) {
			t.Errorf("%s: %+v", asked, c)
		}
		if said(c.Total) != "25000000000" || said(c.Free) != "20000000000" || said(c.Allocated) != "0" || said(c.Reserved) != "0" {
			t.Errorf("%s: %+v", asked, c)
		}
	}
}

// A context that cannot be made, or not be placed, leaves its figures unknown.
func TestContextProblems(t *testing.T) {
	for _, c := range []struct{ name, python, device, problem string }{
		{"no PyTorch", python(t, `echo '{"python": "3.9.2"}' >&3; echo '{"torch": {"found": false}}' >&3; echo '{"counted": {}}' >&3`), "", "PyTorch is missing"},
		{"no Python", "/none", "", "no Python could be asked: /none could not be started"},
		{"no such UUID", says(t, makes), "GPU-zz", "programs do not see GPU-zz"},
		{"refused", says(t, `echo '{"step": "failed", "error": "RuntimeError: CUDA error: out of memory"}' >&3`), "", "RuntimeError: CUDA error: out of memory"},
		{"a crash", says(t, `echo boom >&2; kill -SEGV $$`), "", "the process that was to make it was ended by a signal: segmentation fault: boom"},
		{"silence", says(t, ``), "", "it was not measured"},
		{"nonsense", says(t, `head -c 10000 /dev/urandom >&3`), "", "it was not measured"},
	} {
		got := look(t, Options{Python: c.python, Init: true, Device: c.device}).Context
		if !strings.Contains(got.Problem, c.problem) || got.Process.Known() || got.Grown.Known() || got.Total.Known() || got.Device != -1 {
			t.Errorf("%s: %+v", c.name, got)
		}
	}
	unplaced := strings.ReplaceAll(makes, `"bb22"`, "null")
	got := look(t, Options{Python: says(t, unplaced), Init: true, Environ: []string{"CUDA_VISIBLE_DEVICES="}}).Context
	if got.Problem != "" || got.Process.Known() || got.Grown.Known() || said(got.Total) != "25000000000" {
		t.Errorf("a device that nobody can place: %+v", got)
	}
	o := Options{Python: says(t, `echo '{"step": "imported", "pid": 1}' >&3; sleep 60`), Init: true, Devices: two(), Processes: hostProc(t), Patience: 500 * time.Millisecond}
	r, err := Look(context.Background(), o)
	if err != nil || !strings.Contains(r.Context.Problem, "did not end in time") {
		t.Errorf("one that hangs: %+v, %v", r.Context, err)
	}
}

// The device that is asked for is found as programs count, or by UUID.
func TestSelected(t *testing.T) {
	bare := python(t, "")
	for _, c := range []struct {
		device, environ string
		want            int
		note            string
	}{
		{"cuda", "", 0, ""},
		{"cuda:1", "", 1, ""},
		{"hip:1", "", 1, ""},
		{"cuda:0", "CUDA_VISIBLE_DEVICES=1", 1, ""},
		{"cuda:1", "CUDA_VISIBLE_DEVICES=1", -1, "device_missing"},
		{"cuda:0", "CUDA_VISIBLE_DEVICES=-1", -1, "device_missing"},
		{"GPU-bb", "", 1, ""},
		{"GPU-bb", "CUDA_VISIBLE_DEVICES=0", 1, ""},
		{"GPU-", "", -1, "device_unknown"},
		{"MIG-1", "", -1, "device_missing"},
		{"", "", -1, ""},
	} {
		r := look(t, Options{Python: bare, Device: c.device, Environ: strings.Fields(c.environ)})
		noted := c.note == ""
		for _, n := range r.Notes {
			noted = noted || n.Code == c.note
		}
		if r.Selected != c.want || !noted {
			t.Errorf("%s under %s: %d, %+v", c.device, c.environ, r.Selected, r.Notes)
		}
	}
	for _, name := range []string{"0", "cuda:", "cuda:x", "cuda:-1", "cpu", "cuda:12345", "gpu-1", " cuda:0"} {
		_, err := Look(context.Background(), Options{Devices: two(), Device: name})
		var d *DeviceNameError
		if !errors.As(err, &d) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// The backend is PyTorch's own word, or follows from the raw settings.
func TestAllocator(t *testing.T) {
	checklist.Covers(t, 71)
	cuda := func(version, word string) Torch { return Torch{Version: version, CUDA: "12.8", Allocator: word} }
	for _, c := range []struct {
		name                  string
		torch                 Torch
		environ               string
		backend, origin, note string
	}{
		{"as PyTorch says", cuda("2.8.0", "cudaMallocAsync"), "", "cudaMallocAsync", "pytorch", ""},
		{"by default", cuda("1.13.1", ""), "", "native", "settings", ""},
		{"by the settings", cuda("1.13.1", ""), "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:128,backend:cudaMallocAsync", "cudaMallocAsync", "settings", ""},
		{"for the CPU only", Torch{Version: "2.8.0"}, "PYTORCH_CUDA_ALLOC_CONF=backend:native", "", "", ""},
		{"HIP", Torch{Version: "2.8.0", HIP: "6.4"}, "PYTORCH_HIP_ALLOC_CONF=expandable_segments:True", "native", "settings", ""},
		{"two that differ", cuda("2.9.1", "native"), "PYTORCH_CUDA_ALLOC_CONF=a:1 PYTORCH_ALLOC_CONF=b:1", "native", "pytorch", "settings_differ"},
		{"two alike", cuda("2.9.1", "native"), "PYTORCH_CUDA_ALLOC_CONF=a:1 PYTORCH_ALLOC_CONF=a:1", "native", "pytorch", ""},
		{"a name of tomorrow", cuda("2.8.0+cu128", "native"), "PYTORCH_ALLOC_CONF=a:1", "native", "pytorch", "settings_unread"},
		{"a name of today", cuda("2.9.0+cu128", "native"), "PYTORCH_ALLOC_CONF=a:1", "native", "pytorch", ""},
		{"no caching", cuda("2.9.0", "native"), "PYTORCH_NO_CUDA_MEMORY_CACHING=1", "native", "pytorch", ""},
		{"a version that is none", cuda("nightly", "native"), "PYTORCH_ALLOC_CONF=a:1", "native", "pytorch", ""},
	} {
		a, notes := readAllocator(c.torch, variables(strings.Fields(c.environ)))
		if a.Backend != c.backend || a.Origin != c.origin || len(a.Settings) != len(strings.Fields(c.environ)) {
			t.Errorf("%s: %+v", c.name, a)
		}
		if len(notes) > 1 || len(notes) == 1 && notes[0].Code != c.note || len(notes) == 0 && c.note != "" {
			t.Errorf("%s: %+v", c.name, notes)
		}
	}
	r := look(t, Options{Python: python(t, ""), Environ: []string{"PYTORCH_CUDA_ALLOC_CONFIG=a:1"}})
	if len(r.Notes) != 1 || r.Notes[0].Code != "variable_misspelt" {
		t.Errorf("%+v", r.Notes)
	}
}

// HIP's variables decide where PyTorch is built for it, or where only AMD's
// devices are.
func TestRuntime(t *testing.T) {
	amd := &devicetest.Reader{List: []device.Device{{Vendor: "AMD"}, {Vendor: "AMD", Card: 1}}}
	environ := []string{"HIP_VISIBLE_DEVICES=1"}
	r := look(t, Options{Devices: amd, Python: python(t, ""), Environ: environ})
	if r.Devices[0].Ordinal != -1 || r.Devices[1].Ordinal != 0 {
		t.Errorf("%+v", r.Devices)
	}
	hip := python(t, `echo '{"python": "3.9"}' >&3; echo '{"loaded": {"imported": true, "version": "2.8.0", "hip": "6.4.1"}}' >&3; echo '{"counted": {"devices": 1}}' >&3`)
	r = look(t, Options{Devices: amd, Python: hip, Environ: environ})
	if r.Backend != device.HIP || r.Devices[1].Ordinal != 0 || r.Python.Torch.HIP != "6.4.1" {
		t.Errorf("%s, %+v", r.Backend, r.Devices)
	}
	r = look(t, Options{Python: python(t, ""), Environ: environ})
	if r.Backend != "" || r.Devices[0].Ordinal != 0 {
		t.Errorf("%+v", r.Devices)
	}
}

// Parts that do not go together are noticed.
func TestNotices(t *testing.T) {
	imported := func(fields string, devices int) string {
		return python(t, fmt.Sprintf(`echo '{"python": "3.12.3"}' >&3; echo '{"loaded": {"imported": true, "version": "2.8.0", %s}}' >&3; echo '{"counted": {"devices": %d}}' >&3`, fields, devices))
	}
	mode := func(mode string) *devicetest.Reader {
		r := two()
		r.List[1].ComputeMode = mode
		return r
	}
	old := two()
	old.Of = device.Driver{Version: "535.1", Runtime: "12.2"}
	for _, c := range []struct {
		name    string
		devices *devicetest.Reader
		python  string
		want    string
	}{
		{"all is well", two(), imported(`"cuda": "12.8"`, 2), ""},
		{"for the CPU only", two(), imported(`"cuda": null`, 0), "pytorch_cpu_only"},
		{"no device at all", &devicetest.Reader{}, imported(`"cuda": null`, 0), ""},
		{"for HIP", two(), imported(`"hip": "6.4"`, 0), "backend_mismatch"},
		{"PyTorch counts fewer", two(), imported(`"cuda": "12.8"`, 1), "pytorch_counts"},
		{"a newer minor release", old, imported(`"cuda": "12.8"`, 2), ""},
		{"a newer major release", old, imported(`"cuda": "13.0"`, 2), "driver_old"},
		{"prohibited", mode("prohibited"), imported(`"cuda": "12.8"`, 2), "compute_prohibited"},
		{"exclusive and used", mode("exclusive_process"), imported(`"cuda": "12.8"`, 2), "compute_exclusive"},
		{"no Python", two(), "/none", ""},
	} {
		r := look(t, Options{Devices: c.devices, Python: c.python})
		if len(r.Notes) > 1 || len(r.Notes) == 1 && r.Notes[0].Code != c.want || len(r.Notes) == 0 && c.want != "" {
			t.Errorf("%s: %+v, want %q", c.name, r.Notes, c.want)
		}
	}
}

func FuzzListen(f *testing.F) {
	f.Add([]byte(`{"python": "3.12.3"}` + "\n" + `{"torch": {"found": true, "version": "2.8.0", "cuda": "12.8"}}` + "\n" + `{"counted": {"devices": -1}}`))
	f.Add([]byte(`{"extensions": [{"name": "\ud800", "version": null}]}`))
	f.Fuzz(func(t *testing.T, report []byte) {
		var p Python
		p.listen(report)
		if n := p.Torch.Devices; n != nil && *n < 0 {
			t.Errorf("%d devices", *n)
		}
		if len(p.Version) > 1100 || len(p.Extensions) > len(extensions()) {
			t.Errorf("%d letters, %d extensions", len(p.Version), len(p.Extensions))
		}
	})
}
