package machine

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"floodmark/device"
	"floodmark/device/devicetest"
)

const gib = 1 << 30

// under makes a root with some files.
func under(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// Two drivers' devices are one list, whose numbers lead back to each.
func TestJoined(t *testing.T) {
	a := &devicetest.Reader{Name: "a", Of: device.Driver{Version: "1"}, List: []device.Device{{Name: "x", Kind: device.Discrete}, {Name: "y"}},
		Readings: map[int][]device.Memory{1: {devicetest.Memory(8*gib, 0, nil)}}}
	b := &devicetest.Reader{Name: "b", List: []device.Device{{Name: "z"}}, Readings: map[int][]device.Memory{0: {devicetest.Memory(9*gib, 0, nil)}}}
	m := Of(a, b)
	if m.Source() != "a, b" || len(m.Devices()) != 3 || m.Devices()[2].Name != "z" || m.Driver().Version != "1" {
		t.Errorf("%s: %+v", m.Source(), m.Devices())
	}
	for index, want := range map[int]int64{1: 8 * gib, 2: 9 * gib} {
		if n, _ := m.Read(context.Background(), index).Total.IsExact(); n != want {
			t.Errorf("device %d has %d bytes", index, n)
		}
	}
	for _, index := range []int{-1, 3} {
		if m.Read(context.Background(), index).Total.Known() {
			t.Errorf("device %d is read", index)
		}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	seen := map[int]bool{}
	device.Watch(ctx, m, []int{1, 2}, time.Millisecond, func(s device.Sample) {
		if seen[s.Index] = true; len(seen) == 2 {
			stop()
		}
	})
	if err := m.Close(); err != nil || !a.Closed() || !b.Closed() {
		t.Errorf("closed %v and %v: %v", a.Closed(), b.Closed(), err)
	}
}

// A machine without any device is one all the same, and says what was tried.
func TestNone(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	m := open(context.Background(), under(t, map[string]string{
		"proc/sys/kernel/osrelease":               "6.8.0-40-generic",
		"sys/bus/pci/devices/0000:65:00.0/vendor": "0x10de",
		"sys/bus/pci/devices/0000:65:00.0/class":  "0x030200",
		"sys/bus/pci/devices/0000:65:00.1/vendor": "0x10de",
		"sys/bus/pci/devices/0000:65:00.1/class":  "0x040300", // its sound
		"sys/bus/pci/devices/0000:66:00.0/vendor": "0x8086",
		"sys/bus/pci/devices/0000:66:00.0/class":  "0x030000",
	}))
	if m.Source() == "NVML" {
		t.Skip("this machine has an NVIDIA driver")
	}
	if len(m.Devices()) != 0 || m.Driver() != (device.Driver{}) || m.Platform != device.Linux || m.Source() != "" {
		t.Errorf("%+v", m)
	}
	said := ""
	for _, a := range m.Tried {
		said += a.Source + ": " + a.Reason + "\n"
	}
	for _, want := range []string{"NVML: ", "nvidia-smi: there is no nvidia-smi", "a card of NVIDIA is in the machine at 0000:65:00.0", "amdgpu: there is no AMD device"} {
		if !strings.Contains(said, want) {
			t.Errorf("nothing says %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, "65:00.1") || strings.Contains(said, "66:00.0") {
		t.Errorf("a sound card, or Intel's:\n%s", said)
	}
}

// Of memory that is the machine's, what programs could get is MemAvailable.
func TestUnified(t *testing.T) {
	root := under(t, map[string]string{"proc/meminfo": "MemTotal:       125000000 kB\nMemFree:         2000000 kB\nMemAvailable:   52000000 kB"})
	silent := &devicetest.Reader{List: []device.Device{{Name: "NVIDIA GB10", Kind: device.Unified}},
		Readings: map[int][]device.Memory{0: {device.UnknownMemory(time.Now(), "not supported")}}}
	m := Of(silent)
	m.host = host{root}
	r := m.Read(context.Background(), 0)
	if n, _ := r.Total.IsExact(); n != 128_000_000_000 {
		t.Errorf("%+v", r.Total)
	}
	if n, _ := r.Free.IsExact(); n != 53_248_000_000 || r.Free.Counter != "MemAvailable of /proc/meminfo" || r.Used.Known() || r.Used.Reason() == "" {
		t.Errorf("%+v", r)
	}
	open := &devicetest.Reader{List: []device.Device{{Kind: device.Unified}}, Readings: map[int][]device.Memory{0: {devicetest.Memory(100*gib, 0, nil)}}}
	m = Of(open)
	m.host = host{root}
	r = m.Read(context.Background(), 0)
	if high, _ := r.Free.High(); r.Free.Low() != 53_248_000_000 || high != 100*gib {
		t.Errorf("%+v", r.Free)
	}
	for _, text := range []string{"", "MemTotal: lots kB", "MemAvailable: -1 kB", "MemAvailable: 99999999999999999999 kB", "MemAvailable: 9007199254740991 kB"} {
		m.host = host{under(t, map[string]string{"proc/meminfo": text})}
		m.readers[0] = silent
		if r := m.Read(context.Background(), 0); r.Free.Known() || r.Free.Reason() == "" {
			t.Errorf("%q: %+v", text, r.Free)
		}
	}
}

// Under WSL the memory of a card is Windows' to give.
func TestPlatform(t *testing.T) {
	for release, want := range map[string]device.Platform{
		"6.8.0-40-generic": device.Linux, "5.15.167.4-microsoft-standard-WSL2": device.WSL, "4.4.0-19041-Microsoft": device.WSL, "": device.UnknownPlatform,
	} {
		if got := (host{under(t, map[string]string{"proc/sys/kernel/osrelease": release})}).platform(); got != want {
			t.Errorf("%q is %s, want %s", release, got, want)
		}
	}
	m := Of(&devicetest.Reader{List: []device.Device{{Kind: device.Discrete}}})
	m.Platform = device.WSL
	if d := m.Devices()[0]; d.Kind != device.WDDM || d.KindReason == "" {
		t.Errorf("%+v", d)
	}
}
