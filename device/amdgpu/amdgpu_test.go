package amdgpu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"floodmark/account"
	"floodmark/device"
)

// tree makes files under a root: a path a line, and behind it what it holds, in
// which | ends a line.
func tree(t testing.TB, lines string) string {
	t.Helper()
	root := t.TempDir()
	for line := range strings.Lines(lines) {
		path, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		if path == "" {
			continue
		}
		path = filepath.Join(root, strings.NewReplacer("DRM/", drmFolder+"/", "KFD/", kfdFolder+"/", "NODE/", kfdFolder+"/topology/nodes/").Replace(path))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "|", "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// mi300x is a machine with a processor, an MI300X that one process uses, and a
// card that draws.
const mi300x = `
proc/sys/kernel/osrelease 6.8.0-40-generic
sys/module/amdgpu/version 6.12.12
NODE/0/gpu_id 0
NODE/0/properties cpu_cores_count 96|simd_count 0
NODE/1/gpu_id 51545
NODE/1/properties cpu_cores_count 0|simd_count 1216|vendor_id 4098|gfx_target_version 90402|drm_render_minor 128|unique_id 11735875245361543
NODE/1/mem_banks/0/properties heap_type 1|size_in_bytes 206141652992|flags 0
DRM/renderD128/device/product_name AMD Instinct MI300X OAM
DRM/renderD128/device/uevent DRIVER=amdgpu|PCI_SLOT_NAME=0000:05:00.0
DRM/renderD128/device/mem_info_vram_total 206141652992
DRM/renderD128/device/mem_info_vram_used 3000000000
DRM/card0/device/vendor 0x1002
DRM/card0/device/uevent PCI_SLOT_NAME=0000:05:00.0
DRM/card0-DP-1/status connected
DRM/card1/device/vendor 0x1002
DRM/card1/device/uevent PCI_SLOT_NAME=0000:0A:00.0
DRM/card1/device/mem_info_vram_total 8573157376
DRM/card1/device/mem_info_vram_used 0
DRM/card2/device/vendor 0x10de
KFD/proc/4242/vram_51545 2700000000
KFD/proc/4243/vram_51545 0
KFD/proc/4244/vram_99 5
`

func said(f account.Figure) string {
	if n, ok := f.IsExact(); ok {
		return fmt.Sprint(n)
	}
	return "unknown: " + f.Reason()
}

func opened(t *testing.T, lines string) device.Reader {
	t.Helper()
	r, err := Open(tree(t, lines))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestDevices(t *testing.T) {
	r := opened(t, mi300x)
	if r.Driver().Version != "6.12.12" || r.Source() != "amdgpu" {
		t.Errorf("%+v", r.Driver())
	}
	devices := r.Devices()
	if len(devices) != 2 {
		t.Fatalf("%+v", devices)
	}
	want := device.Device{Vendor: "AMD", Name: "AMD Instinct MI300X OAM", UUID: "GPU-0029b1b76320c987", PCI: "0000:05:00.0", Kind: device.Discrete, ComputeCapability: "gfx942"}
	if devices[0] != want {
		t.Errorf("%+v, want %+v", devices[0], want)
	}
	if d := devices[1]; d.PCI != "0000:0a:00.0" || d.Card != 1 || d.UUID != "" {
		t.Errorf("%+v", d)
	}
	m := r.Read(context.Background(), 0)
	if said(m.Total) != "206141652992" || said(m.Used) != "3000000000" || said(m.Free) != "203141652992" || m.Reserved.Known() {
		t.Errorf("%+v", m)
	}
	if len(m.Processes) != 2 || m.Processes[0].PID != 4242 || said(m.Processes[0].Bytes) != "2700000000" || m.Processes[1].Bytes.Known() {
		t.Errorf("%+v", m.Processes)
	}
	if m := r.Read(context.Background(), 1); said(m.Used) != "0" || said(m.Free) != "8573157376" || m.NoProcesses == "" {
		t.Errorf("%+v", m)
	}
	if m := r.Read(context.Background(), 7); m.Total.Known() {
		t.Errorf("%+v", m)
	}
}

// The memory of an APU is the machine's: what KFD gives it is more than its own,
// or processor and GPU are one node.
func TestUnified(t *testing.T) {
	memory := `
DRM/renderD128/device/mem_info_vram_total 536870912
DRM/renderD128/device/mem_info_vram_used 100
DRM/renderD128/device/mem_info_gtt_total 64000000000
DRM/renderD128/device/mem_info_gtt_used 900
NODE/0/gpu_id 1
`
	for name, node := range map[string]string{
		"one node":     "NODE/0/properties cpu_cores_count 8|simd_count 16|drm_render_minor 128\n",
		"a large bank": "NODE/0/properties cpu_cores_count 0|drm_render_minor 128\nNODE/0/mem_banks/0/properties heap_type 1|size_in_bytes 64000000000\n",
	} {
		r := opened(t, memory+node)
		m := r.Read(context.Background(), 0)
		if d := r.Devices()[0]; d.Kind != device.Unified || d.KindReason == "" || said(m.Total) != "64536870912" || said(m.Used) != "1000" || said(m.Free) != "64536869912" {
			t.Errorf("%s: %+v, %+v", name, d, m)
		}
	}
}

// Files that hold something else leave a value unknown, and say why.
func TestOddFiles(t *testing.T) {
	base := "NODE/0/gpu_id 7\nNODE/0/properties drm_render_minor 128|gfx_target_version 90010|unique_id 0\n"
	for _, c := range []struct{ name, lines, total string }{
		{"missing", "", "unknown: amdgpu has no mem_info_vram_total here"},
		{"empty", "DRM/renderD128/device/mem_info_vram_total", `unknown: mem_info_vram_total: it holds ""`},
		{"a word", "DRM/renderD128/device/mem_info_vram_total N/A", `unknown: mem_info_vram_total: it holds "N/A"`},
		{"negative", "DRM/renderD128/device/mem_info_vram_total -1", `unknown: mem_info_vram_total: it holds "-1"`},
		{"not available", "DRM/renderD128/device/mem_info_vram_total 18446744073709551615", "unknown: mem_info_vram_total is not available here"},
		{"too many digits", "DRM/renderD128/device/mem_info_vram_total 99999999999999999999999", `unknown: mem_info_vram_total: it holds "99999999999999999999999"`},
		{"a real 0", "DRM/renderD128/device/mem_info_vram_total 0", "0"},
	} {
		r := opened(t, base+c.lines)
		if m := r.Read(context.Background(), 0); said(m.Total) != c.total {
			t.Errorf("%s: %s, want %s", c.name, said(m.Total), c.total)
		}
		if d := r.Devices()[0]; d.ComputeCapability != "gfx90a" || d.UUID != "" {
			t.Errorf("%s: %+v", c.name, d)
		}
	}
	root := tree(t, base)
	folder := filepath.Join(root, drmFolder, "renderD128/device")
	if err := os.MkdirAll(filepath.Join(folder, "mem_info_vram_used"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(folder, "mem_info_vram_total"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "product_name"), []byte{0xff, 0xfe, 0}, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	if m := r.Read(context.Background(), 0); m.Total.Known() || m.Used.Known() || m.Free.Known() || r.Devices()[0].Name != "" {
		t.Errorf("a pipe and a folder: %+v", m)
	}
}

func TestNone(t *testing.T) {
	for name, lines := range map[string]string{
		"an empty tree":    "",
		"another vendor":   "DRM/card0/device/vendor 0x10de",
		"a processor only": "NODE/0/gpu_id 0\nNODE/0/properties cpu_cores_count 4",
		"another's node":   "NODE/0/gpu_id 4\nNODE/0/properties vendor_id 4318",
		"odd names":        "DRM/card/device/vendor 0x1002\nDRM/card01/device/vendor 0x1002\nNODE/x/gpu_id 4\nNODE/-1/gpu_id 4",
	} {
		if r, err := Open(tree(t, lines)); err == nil {
			t.Errorf("%s: %+v", name, r.Devices())
		}
	}
}

func FuzzFiles(f *testing.F) {
	f.Add("cpu_cores_count 0\nvendor_id 4098\ngfx_target_version 90402\ndrm_render_minor 128\n", "206141652992\n")
	f.Add("gfx_target_version 18446744073709551615", "-0")
	// One tree for all: making it costs more than reading it.
	root := tree(f, "NODE/0/gpu_id 7\nNODE/0/properties\nDRM/renderD128/device/mem_info_vram_total\nDRM/renderD128/device/mem_info_vram_used 5")
	f.Fuzz(func(t *testing.T, properties, total string) {
		for path, text := range map[string]string{kfdFolder + "/topology/nodes/0/properties": properties, drmFolder + "/renderD128/device/mem_info_vram_total": total} {
			if err := os.WriteFile(filepath.Join(root, path), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Open(root)
		if err != nil {
			return
		}
		if m := r.Read(context.Background(), 0); m.Total.Known() && m.Free.Known() && m.Free.Low() < 0 {
			t.Errorf("%+v", m)
		}
	})
}
