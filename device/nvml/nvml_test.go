//go:build linux && (amd64 || arm64) && !nonvml

package nvml

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"floodmark/account"
	"floodmark/device"
	"floodmark/device/nvml/fakenvml"
	"floodmark/internal/checklist"
)

// opened is the reader of a scenario.
func opened(t *testing.T, scenario string, flags ...string) device.Reader {
	t.Helper()
	return started(t, fakenvml.Build(t, scenario, flags...))
}

// again is the reader of a library that says something else now.
func again(t *testing.T, library, scenario string) device.Reader {
	t.Helper()
	fakenvml.Say(t, library, scenario)
	return started(t, library)
}

func started(t *testing.T, library string) device.Reader {
	t.Helper()
	r, err := open(context.Background(), []string{library})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// said prints a figure for comparison: its bytes, its ends, or why it has none.
func said(f account.Figure) string {
	if n, ok := f.IsExact(); ok {
		return fmt.Sprint(n)
	}
	if high, ok := f.High(); ok {
		return fmt.Sprintf("%d to %d", f.Low(), high)
	}
	return "unknown: " + f.Reason()
}

const twoCards = `system driver=580.95.05 cuda=13000
card name=NVIDIA_H100_80GB_HBM3 uuid=GPU-aa11 bus=00000000:1A:00.0 total=85520809984 reserved=577961984 free=80000000000 used=4942848000 cc=9.0 mode=3
process pid=4242 used=4900000000
process pid=77 used=42848000 kind=graphics
card name=NVIDIA_GeForce_RTX_4090 uuid=GPU-bb22 bus=00000001:0B:00.0 total=25757220864 reserved=372244480 free=25384976384 used=372244480 cc=8.9
`

// Total, reserve, free and use of each card, its owners, and how it is called.
func TestCards(t *testing.T) {
	checklist.Covers(t, 171)
	r := opened(t, twoCards)
	if d := r.Driver(); d.Version != "580.95.05" || d.Runtime != "13.0" || r.Source() != "NVML" {
		t.Errorf("driver %+v through %s", d, r.Source())
	}
	devices := r.Devices()
	if len(devices) != 2 {
		t.Fatalf("%d devices", len(devices))
	}
	want := device.Device{Vendor: "NVIDIA", Name: "NVIDIA H100 80GB HBM3", UUID: "GPU-aa11", PCI: "0000:1a:00.0", Card: 0,
		Kind: device.Discrete, ComputeCapability: "9.0", ComputeMode: "exclusive_process"}
	if devices[0] != want {
		t.Errorf("%+v, want %+v", devices[0], want)
	}
	if d := devices[1]; d.PCI != "0001:0b:00.0" || d.Card != 1 || d.ComputeMode != "" {
		t.Errorf("%+v", d)
	}
	m := r.Read(context.Background(), 0)
	if m.At.IsZero() || said(m.Total) != "85520809984" || said(m.Reserved) != "577961984" || said(m.Free) != "80000000000" || said(m.Used) != "4942848000" {
		t.Errorf("%+v", m)
	}
	if len(m.Processes) != 2 || m.Processes[0].PID != 4242 || said(m.Processes[0].Bytes) != "4900000000" || !m.Processes[1].Graphics || m.NoProcesses != "" {
		t.Errorf("owners %+v, %q", m.Processes, m.NoProcesses)
	}
	// The other card counts its reserve as used: nobody uses it.
	if m := r.Read(context.Background(), 1); said(m.Used) != "0" || said(m.Reserved) != "372244480" || len(m.Processes) != 0 || m.NoProcesses != "" {
		t.Errorf("%+v", m)
	}
	if m := r.Read(context.Background(), 2); m.Total.Known() || m.NoProcesses == "" {
		t.Errorf("a device that is not there: %+v", m)
	}
}

// What the library leaves blank is unknown, with what it said, and never 0.
func TestBlanks(t *testing.T) {
	checklist.Covers(t, 91)
	libraries := map[string]string{"": fakenvml.Build(t, ""), "-DOLD": fakenvml.Build(t, "", "-DOLD")}
	for _, c := range []struct {
		name, card, flags          string
		total, reserved, free, use string
	}{
		{"not available", "total=0xffffffffffffffff free=5 used=5 reserved=1", "",
			"unknown: NVML total is not available here", "1", "5", "5"},
		{"DCGM's blanks", "total=100 reserved=0x7ffffffffffffff2 free=0x7ffffffffffffff3 used=0x7ffffffffffffff0", "",
			"100", "unknown: NVML reserved is not available here", "unknown: NVML free is not available here", "unknown: NVML used is not available here"},
		{"zeros are zeros", "total=100 reserved=0 free=100 used=0", "", "100", "0", "100", "0"},
		{"a total of 0", "total=0 free=0 used=0", "", "unknown: NVML gives a total of 0 bytes", "0", "0", "0"},
		{"used without the reserve", "total=100 reserved=10 free=60 used=30", "", "100", "10", "60", "30"},
		{"used with the reserve", "total=100 reserved=10 free=60 used=40", "", "100", "10", "60", "30"},
		{"parts that do not add up", "total=100 reserved=10 free=60 used=35", "", "100", "10", "60", "25 to 35"},
		{"more than there is", "total=100 reserved=1 free=101 used=9", "", "100", "1", "unknown: NVML free is 101 bytes, which is more than the total", "9"},
		{"no permission", "memory=4", "", "unknown: nvmlDeviceGetMemoryInfo_v2: insufficient permissions", "", "", ""},
		{"lost", "memory=15", "", "unknown: nvmlDeviceGetMemoryInfo_v2: the GPU is lost: it fell off the bus", "", "", ""},
		{"a status of tomorrow", "memory=4711", "", "unknown: nvmlDeviceGetMemoryInfo_v2: error 4711", "", "", ""},
		{"a driver before R510", "total=100 free=70 used=30", "-DOLD",
			"100", "unknown: this driver does not say what it keeps for itself", "70", "30"},
	} {
		m := again(t, libraries[c.flags], "card "+c.card+"\n").Read(context.Background(), 0)
		for i, f := range []account.Figure{m.Total, m.Reserved, m.Free, m.Used} {
			want := []string{c.total, c.reserved, c.free, c.use}[i]
			if want == "" {
				want = c.total
			}
			if said(f) != want {
				t.Errorf("%s: figure %d is %s, want %s", c.name, i, said(f), want)
			}
		}
	}
}

func TestKinds(t *testing.T) {
	library := fakenvml.Build(t, "")
	for _, c := range []struct {
		name, card string
		want       device.MemoryKind
		virtual    string
	}{
		{"a card", "total=100 free=100", device.Discrete, ""},
		{"bare metal", "total=100 free=100 virtual=0", device.Discrete, ""},
		{"WDDM", "total=100 free=100 model=0", device.WDDM, ""},
		{"TCC", "total=100 free=100 model=1", device.Discrete, ""},
		{"GB10", "memory=3 name=NVIDIA_GB10", device.Unified, ""},
		{"a virtual GPU", "total=100 free=100 virtual=2", device.Discrete, "vgpu"},
		{"passed through", "total=100 free=100 virtual=1", device.Discrete, "passthrough"},
		{"no access", "handle=4", device.KindUnsaid, ""},
	} {
		r := again(t, library, "card "+c.card+"\n")
		d := r.Devices()[0]
		if d.Kind != c.want || d.Virtual != c.virtual || (d.Kind != device.Discrete) != (d.KindReason != "") {
			t.Errorf("%s: %+v", c.name, d)
		}
		if m := r.Read(context.Background(), 0); (c.want == device.Unified || c.want == device.KindUnsaid) && m.Total.Known() {
			t.Errorf("%s: %+v", c.name, m)
		}
	}
}

// A divided card has its instances behind it, each with memory and owners of its
// own; the card's own memory needs a permission that a user does not have.
func TestInstances(t *testing.T) {
	r := opened(t, `system driver=550.90.07
card name=NVIDIA_A100-SXM4-40GB uuid=GPU-aa mig=1 memory=4 cc=8.0
instance name=NVIDIA_A100-SXM4-40GB_MIG_3g.20gb uuid=MIG-11 gi=2 ci=0 total=20937965568 reserved=0 free=20900000000 used=37965568
process pid=31 used=0xffffffffffffffff
instance name=NVIDIA_A100-SXM4-40GB_MIG_1c.3g.20gb+me uuid=MIG-12 gi=1 ci=1 total=100 free=100
card uuid=GPU-bb mig=0 total=100 free=100
`)
	devices := r.Devices()
	if len(devices) != 4 || !devices[0].Partitioned || devices[3].Partitioned || devices[3].Card != 1 {
		t.Fatalf("%+v", devices)
	}
	for i, want := range []device.Partition{{Profile: "3g.20gb", GPUInstance: 2, ComputeInstance: 0}, {Profile: "1c.3g.20gb+me", GPUInstance: 1, ComputeInstance: 1}} {
		d := devices[i+1]
		if d.Kind != device.MIG || d.Card != 0 || *d.Partition != want || d.ComputeCapability != "8.0" {
			t.Errorf("instance %d: %+v, %+v", i, d, d.Partition)
		}
	}
	m := r.Read(context.Background(), 1)
	if said(m.Total) != "20937965568" || len(m.Processes) != 1 || said(m.Processes[0].Bytes) != "unknown: NVML usedGpuMemory is not available here" {
		t.Errorf("%+v", m)
	}
	if m := r.Read(context.Background(), 0); m.Total.Known() {
		t.Errorf("the card: %+v", m)
	}
}

// Lists of processes of every version of the library.
func TestProcesses(t *testing.T) {
	many := "card total=100 free=100\n"
	for pid := range 60 {
		many += fmt.Sprintf("process pid=%d used=%d\n", 100+pid, pid)
	}
	for _, flags := range [][]string{nil, {"-DOLD"}, {"-DSTRIDE=32"}} {
		m := opened(t, many, flags...).Read(context.Background(), 0)
		if len(m.Processes) != 60 || m.Processes[59].PID != 159 || said(m.Processes[59].Bytes) != "59" {
			t.Errorf("%v: %d processes, %+v %q", flags, len(m.Processes), m.Processes, m.NoProcesses)
		}
	}
	library := fakenvml.Build(t, "")
	for _, c := range []struct{ name, scenario, want string }{
		{"both kinds", "process pid=7 used=50\nprocess pid=7 used=50 kind=graphics\nprocess pid=8 used=1 kind=mps", "7:50 8:1 "},
		{"both kinds with other bytes", "process pid=7 used=50\nprocess pid=7 used=20 kind=graphics", "7:50 to 70 "},
		{"none", "", ""},
		{"PIDs that no process has", "process pid=0x7fffffff used=1\nprocess pid=0x7ffffffe used=1", "the list makes no sense"},
		{"PID 0", "process pid=0 used=1", "the list makes no sense"},
	} {
		m := again(t, library, "card total=100 free=100\n"+c.scenario+"\n").Read(context.Background(), 0)
		got := ""
		for _, p := range m.Processes {
			got += fmt.Sprintf("%d:%s ", p.PID, said(p.Bytes))
		}
		if _, reason, ok := strings.Cut(m.NoProcesses, ": "); ok {
			got = reason
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	for status, want := range map[string]string{"processes=4": "insufficient permissions", "claims=4000000": "4000000 processes", "claims=60000": "keeps growing"} {
		if m := again(t, library, "card total=100 free=100 "+status+"\n").Read(context.Background(), 0); !strings.Contains(m.NoProcesses, want) {
			t.Errorf("%s: %q", status, m.NoProcesses)
		}
	}
}

// A machine without a driver, and a library that fails, are errors that say why.
func TestNotThere(t *testing.T) {
	folder := t.TempDir()
	broken := filepath.Join(folder, "libnvidia-ml.so.1")
	if err := os.WriteFile(broken, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, want string }{
		{"no library", filepath.Join(folder, "none.so"), "no libnvidia-ml.so.1"},
		{"a damaged one", broken, "could not be loaded"},
		{"another", "libc.so.6", "is not NVIDIA's library"},
		{"no driver", fakenvml.Build(t, "system init=9\n"), "the driver is not loaded"},
		{"an older kernel module", fakenvml.Build(t, "system init=18\n"), "differ in version"},
		{"no count", fakenvml.Build(t, "system count=999\n"), "does not count the cards"},
		{"garbage for a count", fakenvml.Build(t, "system claims=4000000000\n"), "which no machine has"},
	} {
		_, err := open(context.Background(), []string{c.path})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want one that says %q", c.name, err, c.want)
		}
	}
	if r, err := open(context.Background(), []string{"/none.so", fakenvml.Build(t, "")}); err != nil || len(r.Devices()) != 0 {
		t.Errorf("no card: %v", err)
	}
}

// Several may read at once.
func TestTogether(t *testing.T) {
	r := opened(t, twoCards)
	failed := make(chan string, 8)
	for n := range cap(failed) {
		go func() {
			for range 20 {
				if m := r.Read(context.Background(), n%2); !m.Total.Known() {
					failed <- m.Total.Reason()
					return
				}
			}
			failed <- ""
		}()
	}
	for range cap(failed) {
		if reason := <-failed; reason != "" {
			t.Error(reason)
		}
	}
}

// A library that hangs is given up when the context ends, and is not asked
// again while it hangs.
func TestHangs(t *testing.T) {
	ctx, stop := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stop()
	if _, err := open(ctx, []string{fakenvml.Build(t, "system hang=1\n")}); err == nil {
		t.Error("a start that hangs was waited for")
	}
	r := opened(t, "card total=100 free=100 hang=1\n")
	soon, stopSoon := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer stopSoon()
	if m := r.Read(soon, 0); m.Total.Known() {
		t.Errorf("a reading that hangs: %+v", m)
	}
	if m := r.Read(context.Background(), 0); m.Total.Known() || !strings.Contains(m.NoProcesses, "does not answer") {
		t.Errorf("the next reading: %+v", m)
	}
}

// Whatever a library answers, figures are what a device can have, and texts are
// text.
func TestGarbage(t *testing.T) {
	for seed := 1; seed <= 5; seed++ {
		r, err := open(context.Background(), []string{fakenvml.Garbage(t, seed)})
		if err != nil {
			continue
		}
		if len(r.Devices()) > mostDevices {
			t.Errorf("seed %d: %d devices", seed, len(r.Devices()))
		}
		for i, d := range r.Devices()[:min(len(r.Devices()), 20)] {
			if !utf8.ValidString(d.Name + d.UUID + d.PCI) {
				t.Errorf("seed %d: %+v", seed, d)
			}
			for range 50 {
				check(t, seed, r.Read(context.Background(), i))
			}
		}
		_ = r.Close()
	}
}

func check(t *testing.T, seed int, m device.Memory) {
	t.Helper()
	figures := []account.Figure{m.Total, m.Reserved, m.Free, m.Used}
	for _, p := range m.Processes {
		figures = append(figures, p.Bytes)
		if p.PID <= 0 || p.PID > largestPID {
			t.Errorf("seed %d: process %d", seed, p.PID)
		}
	}
	for _, f := range figures {
		if high, known := f.High(); known && (f.Low() < 0 || high < f.Low() || high > 1<<51) || !known && f.Reason() == "" {
			t.Errorf("seed %d: %s is %s", seed, f.Counter, said(f))
		}
	}
}

// BenchmarkRead is one sample of a card with an owner, less the real library's
// own time.
func BenchmarkRead(b *testing.B) {
	r, err := open(context.Background(), []string{fakenvml.Build(b, twoCards)})
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	for b.Loop() {
		r.Read(context.Background(), 0)
	}
}
