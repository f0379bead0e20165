//go:build unix

package smi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"floodmark/account"
	"floodmark/device"
)

// script makes an nvidia-smi that answers as a shell script does: $query is the
// list of fields, empty for other questions.
func script(t *testing.T, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nvidia-smi")
	text := "#!/bin/sh\nquery=${1#--query-gpu=}\n[ \"$query\" != \"$1\" ] || query=\n" + body
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	return path
}

// two is a machine with two cards, one of them used, under a driver of today.
const two = `
case "$1" in
--query-gpu=*) echo '0, GPU-aa, 00000000:1A:00.0, 580.95.05, 81559, 551, 76000, 5008, 9.0, Default, Disabled, [N/A], NVIDIA H100 80GB HBM3'
               echo '1, GPU-bb, 00000000:1B:00.0, 580.95.05, 24564, 355, 24208, 1, 8.9, Exclusive_Process, [N/A], [N/A], NVIDIA GeForce RTX 4090, of a kind' ;;
--query-compute-apps=*) echo 'GPU-aa, 4242, 4990'; echo 'GPU-bb, 7, [N/A]'; echo 'GPU-aa, no, 1' ;;
--version) echo 'NVIDIA-SMI version  : 580.95.05'; echo 'CUDA Version        : 13.0' ;;
esac
`

func said(f account.Figure) string {
	if high, ok := f.High(); ok {
		return fmt.Sprintf("%d to %d", f.Low(), high)
	}
	return "unknown: " + f.Reason()
}

func TestCards(t *testing.T) {
	r, err := open(context.Background(), script(t, two))
	if err != nil {
		t.Fatal(err)
	}
	if d := r.Driver(); d.Version != "580.95.05" || d.Runtime != "13.0" {
		t.Errorf("%+v", d)
	}
	devices := r.Devices()
	want := device.Device{Vendor: "NVIDIA", Name: "NVIDIA GeForce RTX 4090, of a kind", UUID: "GPU-bb", PCI: "0000:1b:00.0", Card: 1,
		Kind: device.Discrete, ComputeCapability: "8.9", ComputeMode: "exclusive_process"}
	if len(devices) != 2 || devices[1] != want {
		t.Fatalf("%+v", devices)
	}
	m := r.Read(context.Background(), 0)
	if said(m.Total) != "85519761409 to 85521858559" || said(m.Used) != "5250220033 to 5252317183" || said(m.Reserved) == "" {
		t.Errorf("%s, %s", said(m.Total), said(m.Used))
	}
	if len(m.Processes) != 1 || m.Processes[0].PID != 4242 || said(m.Processes[0].Bytes) != "5231345665 to 5233442815" {
		t.Errorf("%+v", m.Processes)
	}
	if m := r.Read(context.Background(), 1); said(m.Used) != "1 to 2097151" || said(m.Processes[0].Bytes) != "unknown: nvidia-smi used_memory: n/a" {
		t.Errorf("%s, %+v", said(m.Used), m.Processes)
	}
	if m := r.Read(context.Background(), 9); m.Total.Known() {
		t.Errorf("%+v", m)
	}
}

// A release that lacks fields is asked without them.
func TestOlderRelease(t *testing.T) {
	r, err := open(context.Background(), script(t, `
case "$1" in
*memory.reserved*) echo 'Field "memory.reserved" is not a valid field to query.'; exit 2 ;;
*compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2 ;;
--query-gpu=*) echo '0, GPU-aa, 00000000:1A:00.0, 470.57, 15109, 15109, 0, Default, [N/A], [N/A], Tesla T4' ;;
*) exit 1 ;;
esac`))
	if err != nil {
		t.Fatal(err)
	}
	m := r.Read(context.Background(), 0)
	if said(m.Reserved) != "unknown: this nvidia-smi does not know memory.reserved" || said(m.Used) != "0 to 1048575" || !strings.Contains(m.NoProcesses, "status 1") {
		t.Errorf("%+v", m)
	}
	if d := r.Devices()[0]; d.ComputeCapability != "" || d.Name != "Tesla T4" || r.Driver().Runtime != "" {
		t.Errorf("%+v", d)
	}
}

// What is no number is unknown, with the word that was printed.
func TestBlanks(t *testing.T) {
	for printed, want := range map[string]struct {
		figure string
		kind   device.MemoryKind
	}{
		"[N/A]":                      {"unknown: nvidia-smi memory.total: n/a", device.Unified},
		"[Not Supported]":            {"unknown: nvidia-smi memory.total: not supported", device.Unified},
		"[Insufficient Permissions]": {"unknown: nvidia-smi memory.total: insufficient permissions", device.KindUnsaid},
		"[GPU is lost]":              {"unknown: nvidia-smi memory.total: gpu is lost", device.KindUnsaid},
		"[Unknown Error]":            {"unknown: nvidia-smi memory.total: unknown error", device.KindUnsaid},
		"":                           {"unknown: nvidia-smi memory.total: nothing was printed", device.Discrete},
		"-5":                         {"unknown: nvidia-smi memory.total: -5", device.Discrete},
		"99999999999999999999":       {"unknown: nvidia-smi memory.total: 99999999999999999999", device.Discrete},
		"8796093022207":              {"unknown: nvidia-smi memory.total: 8796093022207", device.Discrete},
		"4398046511103":              {"unknown: nvidia-smi memory.total is 4611686018426339328 bytes, which no device has", device.Discrete},
		"0":                          {"0 to 1048575", device.Discrete},
	} {
		line := "0, GPU-aa, 0:1:0.0, 1, " + printed + ", 0, 0, 0, 9.0, Default, [N/A], [N/A], X"
		r, err := open(context.Background(), script(t, "[ -n \"$query\" ] && echo '"+line+"'"))
		if err != nil {
			t.Fatal(err)
		}
		if m := r.Read(context.Background(), 0); said(m.Total) != want.figure || r.Devices()[0].Kind != want.kind {
			t.Errorf("%q: %s, %s", printed, said(m.Total), r.Devices()[0].Kind)
		}
	}
}

func TestInstances(t *testing.T) {
	r, err := open(context.Background(), script(t, `
case "$1" in
--query-gpu=*) echo '0, GPU-aa, 00000000:1A:00.0, 550.90, 40960, 0, 0, 0, 8.0, Default, Enabled, [N/A], NVIDIA A100-SXM4-40GB'
               echo '1, GPU-bb, 00000000:1B:00.0, 550.90, 40960, 0, 0, 0, 8.0, Default, Disabled, [N/A], NVIDIA A100-SXM4-40GB' ;;
-L) cat <<'END'
GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aa)
  MIG 3g.20gb     Device  0: (UUID: MIG-5c89852c-d268-c3f3-1b07-005d5ae1dc3f)
  MIG 1c.3g.20gb     Device  1: (UUID: MIG-GPU-aa/1/0)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bb)
  MIG nonsense
END
esac`))
	if err != nil {
		t.Fatal(err)
	}
	devices := r.Devices()
	if len(devices) != 4 || devices[1].UUID != "MIG-5c89852c-d268-c3f3-1b07-005d5ae1dc3f" || devices[2].Name != "NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb" || devices[2].Partition.Profile != "1c.3g.20gb" || devices[3].Card != 1 {
		t.Errorf("%+v", devices)
	}
	if m := r.Read(context.Background(), 1); m.Total.Known() || m.Total.Reason() != noInstance {
		t.Errorf("%+v", m)
	}
}

// A program that is missing, fails, hangs or talks nonsense is an error that
// says so, and soon.
func TestNotThere(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"no driver", `echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."; exit 9`, "status 9: NVIDIA-SMI has failed"},
		{"nothing", "", "lists no card: it said nothing"},
		{"nonsense", "head -c 100000 /dev/urandom", "lists no card"},
		{"prose", "echo No devices were found", "lists no card: No devices were found"},
		{"a crash", "kill -SEGV $$", "segmentation fault"},
		{"the same complaint for ever", `echo 'Field "name" is not a valid field to query.'; exit 2`, "status 2"},
	} {
		_, err := open(context.Background(), script(t, c.body))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want one that says %q", c.name, err, c.want)
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	if _, err := open(ctx, script(t, "sleep 30")); err == nil {
		t.Error("a program that hangs was waited for")
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Open(context.Background()); err == nil || !strings.Contains(err.Error(), "no nvidia-smi") {
		t.Errorf("%v", err)
	}
}

// A watch follows one program, whose samples come as they are printed.
func TestWatch(t *testing.T) {
	started := filepath.Join(t.TempDir(), "started")
	r, err := open(context.Background(), script(t, two+`
case "$*" in *--loop-ms=10*)
	echo x >>`+started+`
	while sleep 0.01; do
		echo '1, GPU-bb, 00000000:1B:00.0, 580.95.05, 24564, 355, 24000, 209, 8.9, Default, [N/A], [N/A], X'
	done
esac`))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var used []string
	device.Watch(ctx, r, []int{1}, 10*time.Millisecond, func(s device.Sample) {
		if s.Index != 1 || s.NoProcesses == "" {
			t.Errorf("%+v", s)
		}
		if used = append(used, said(s.Used)); len(used) == 4 {
			stop()
		}
	})
	if !slices.Equal(used, []string{"1 to 2097151", "218103809 to 220200959", "218103809 to 220200959", "218103809 to 220200959"}) {
		t.Errorf("%v", used)
	}
	if text, _ := os.ReadFile(started); string(text) != "x\n" {
		t.Errorf("started %q", text)
	}
}

func FuzzRows(f *testing.F) {
	f.Add("0, GPU-aa, 00000000:1A:00.0, 580, 81559, 551, 76000, 5008, 9.0, Default, Disabled, [N/A], NVIDIA H100")
	f.Add("[N/A],,,,,,,,,,,,")
	f.Fuzz(func(t *testing.T, text string) {
		for _, r := range rows([]byte(text), fields()) {
			described(r)
			for _, field := range []string{"memory.total", "memory.used"} {
				b := r.bytes(field, account.Device)
				if high, known := b.High(); known && (b.Low() < 0 || high < b.Low()) {
					t.Errorf("%q is %d to %d", r[field], b.Low(), high)
				}
			}
		}
		reInstance.FindStringSubmatch(text)
	})
}
