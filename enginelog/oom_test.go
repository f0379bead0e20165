package enginelog

import (
	"errors"
	"strings"
	"testing"

	"floodmark/account"
	"floodmark/internal/source"
)

const (
	kib = int64(1) << 10
	mib = int64(1) << 20
	gib = int64(1) << 30
)

func read(t *testing.T, text string) *Log {
	t.Helper()
	log, err := Read(source.Bytes("log.txt", []byte(text)))
	if err != nil {
		t.Fatalf("%.80q: %v", text, err)
	}
	return log
}

// one reads a text with one failure.
func one(t *testing.T, text string) OutOfMemory {
	t.Helper()
	log := read(t, text)
	if len(log.OutOfMemory) != 1 {
		t.Fatalf("%.80q: %d failures", text, len(log.OutOfMemory))
	}
	return log.OutOfMemory[0]
}

// Shapes of the message, in the order of PyTorch's versions. Figures are the
// middle of what was printed, in hundredths of a unit; −1 is not printed.
func TestShapes(t *testing.T) {
	for _, c := range []struct {
		name, text              string
		device                  int
		request, capacity, free string
		allocated, unallocated  string
	}{
		{"1.0 to 1.3",
			"RuntimeError: CUDA out of memory. Tried to allocate 381.50 MiB (GPU 1; 7.92 GiB total capacity; 7.16 GiB already allocated; 231.00 MiB free; 452.50 KiB cached)",
			1, "381.50 MiB", "7.92 GiB", "231.00 MiB", "7.16 GiB", "452.50 KiB"},
		{"1.3, with inactive",
			"CUDA out of memory. Tried to allocate 381.50 MiB (GPU 1; 7.92 GiB total capacity; 7.16 GiB already allocated; 231.00 MiB free; 77.13 MiB cached; 0 bytes inactive)",
			1, "381.50 MiB", "7.92 GiB", "231.00 MiB", "7.16 GiB", "77.13 MiB"},
		{"1.4 to 2.0",
			"CUDA out of memory. Tried to allocate 264.00 MiB (GPU 0; 15.78 GiB total capacity; 14.23 GiB already allocated; 210.75 MiB free; 14.28 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF",
			0, "264.00 MiB", "15.78 GiB", "210.75 MiB", "14.23 GiB", ""},
		{"2.1, spelled capacty",
			"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacty of 79.11 GiB of which 14.62 MiB is free. Process 124797 has 79.08 GiB memory in use. Of the allocated memory 78.11 GiB is allocated by PyTorch, and 131.85 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.",
			0, "20.00 MiB", "79.11 GiB", "14.62 MiB", "78.11 GiB", "131.85 MiB"},
		{"2.2 and later",
			"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 3 has a total capacity of 31.36 GiB of which 471.69 MiB is free. Including non-PyTorch memory, this process has 16.63 GiB memory in use. Process 19239 has 14.26 GiB memory in use. Of the allocated memory 15.90 GiB is allocated by PyTorch, and 120.50 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation for Memory Management  (https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)",
			3, "2.00 GiB", "31.36 GiB", "471.69 MiB", "15.90 GiB", "120.50 MiB"},
		{"nothing free",
			"CUDA out of memory. Tried to allocate 76.00 MiB. GPU 1 has a total capacity of 23.64 GiB of which 0 bytes is free. Of the allocated memory 22.12 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
			1, "76.00 MiB", "23.64 GiB", "0 bytes", "22.12 GiB", "0 bytes"},
		{"HIP", // ComfyUI#9529
			"HIP out of memory. Tried to allocate 432.00 MiB. GPU 0 has a total capacity of 15.92 GiB of which 7.12 GiB is free. Of the allocated memory 8.08 GiB is allocated by PyTorch, and 321.96 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting PYTORCH_HIP_ALLOC_CONF=expandable_segments:True to avoid fragmentation.",
			0, "432.00 MiB", "15.92 GiB", "7.12 GiB", "8.08 GiB", "321.96 MiB"},
		{"XPU", // intel/torch-xpu-ops#3011
			"torch.OutOfMemoryError: XPU out of memory. Tried to allocate 4.66 GiB. GPU 0 has a total capacity of 5.65 GiB of which 5.65 GiB is free. Of the allocated memory 195.50 KiB is allocated by PyTorch, and 1.81 MiB is reserved by PyTorch but unallocated. Please use `empty_cache` to release all unoccupied cached memory.",
			0, "4.66 GiB", "5.65 GiB", "5.65 GiB", "195.50 KiB", "1.81 MiB"},
		{"XPU of the extension", // intel/intel-extension-for-pytorch#629
			"RuntimeError: Current platform can NOT allocate memory block with size larger than 4GB! Tried to allocate 6.85 GiB (GPU  0; 15.56 GiB total capacity; 0 bytes already allocated; 0 bytes reserved in total by PyTorch)",
			0, "6.85 GiB", "15.56 GiB", "", "0 bytes", ""},
		{"mapping", // rtx6kpro
			"[W905 00:28:47 CUDACachingAllocator.cpp:508] expandable_segments: memory mapping failed with OOM on device 0 while trying to map 20971520 bytes (free: 19070976, total: 101973491712)",
			0, "20971520 bytes", "101973491712 bytes", "19070976 bytes", "", ""},
		{"an allocation, wrapped (vllm-backport 94)",
			"[rank5]:[W906 CUDACachingAllocator.cpp:3933] memory allocation failed with OOM on device 5\n  while trying to allocate 671088640 bytes (free: 513736704, total: 85095874560).",
			5, "671088640 bytes", "85095874560 bytes", "513736704 bytes", "", ""},
		{"NCCL",
			"node1:42:99 [0] include/alloc.h:103 NCCL WARN Failed to CUDA calloc 536870912 bytes",
			-1, "536870912 bytes", "", "", "", ""},
		{"MPS, which called GiB GB", // haoheliu/AudioLDM2#20
			"RuntimeError: MPS backend out of memory (MPS allocated: 18.02 GB, other allocations: 107.10 MB, max allowed: 18.13 GB). Tried to allocate 4.50 MB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).",
			-1, "4.50 MB", "", "", "", ""},
		{"a Metal buffer", "RuntimeError: Invalid buffer size: 12.00 GB", -1, "12.00 GB", "", "", "", ""},
		{"NPU",
			"NPU out of memory. Tried to allocate 20.00 MiB (NPU 5; 60.97 GiB total capacity; 57.10 GiB already allocated; 57.20 GiB current active; 11.50 MiB free; 58.00 GiB reserved in total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid fragmentation.",
			5, "20.00 MiB", "60.97 GiB", "11.50 MiB", "57.10 GiB", ""},
		{"cudaMallocAsync", // huggingface/text-generation-inference#563
			"Unable to warmup model: Generation(\"Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated     : 16.08 GiB\nRequested               : 4.83 GiB\nDevice limit            : 22.20 GiB\nFree (according to CUDA): 11.12 MiB\nPyTorch limit (set by user-supplied memory fraction)\n                        : 22.20 GiB\")",
			0, "4.83 GiB", "22.20 GiB", "11.12 MiB", "16.08 GiB", ""},
		{"cudaMallocAsync, its first line", "torch.OutOfMemoryError: Allocation on device 1 would exceed allowed memory. (out of memory)", 1, "", "", "", "", ""},
		{"a device number that was lost", "CUDA out of memory. Tried to allocate 20.00 MiB. GPU  has a total capacity of 23.69 GiB of which 10.00 MiB is free.",
			-1, "20.00 MiB", "23.69 GiB", "10.00 MiB", "", ""},
		{"before 1.1", "RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/generic/THCStorage.cu:58", -1, "", "", "", "", ""},
		{"NCCL, no numbers", "NCCL WARN Cuda failure 2 'out of memory'", -1, "", "", "", "", ""},
		{"a driver call", "RuntimeError: CUDA driver error: out of memory", -1, "", "", "", "", ""},
		{"no numbers", "RuntimeError: CUDA error: out of memory", -1, "", "", "", "", ""},
		{"too large", "CUDA out of memory. Tried to allocate more than 1EB memory.", -1, "", "", "", "", ""},
	} {
		m := one(t, c.text)
		if m.Device != c.device {
			t.Errorf("%s: device %d, want %d", c.name, m.Device, c.device)
		}
		for _, f := range []struct {
			name string
			got  account.Figure
			want string
		}{
			{"request", m.Request, c.request}, {"capacity", m.Capacity, c.capacity}, {"free", m.Free, c.free},
			{"allocated", m.Allocated, c.allocated}, {"unallocated", m.Unallocated, c.unallocated},
		} {
			if f.want == "" {
				if f.got.Known() && f.got.Counter == f.name {
					t.Errorf("%s: %s was not printed, yet is %v", c.name, f.name, f.got)
				}
				continue
			}
			number, unit, _ := strings.Cut(f.want, " ")
			want := printed(number, unit, f.got.Provenance)
			if f.got != want {
				t.Errorf("%s: %s is %v, want %v", c.name, f.name, f.got, want)
			}
		}
	}
}

// The decision table. Figures of the cases are those that were reported.
func TestClass(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       Class
		says       string
	}{
		{"spill (meshgen#7)", "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 8.00 GiB total capacity; 13.98 GiB already allocated; 0 bytes free; 14.10 GiB reserved in total by PyTorch)",
			Spill, "13.98"},
		{"spill (sd-webui-replacer#74)", "CUDA out of memory. Tried to allocate 27.12 GiB. GPU 0 has a total capacty of 11.99 GiB of which 0 bytes is free. Of the allocated memory 16.16 GiB is allocated by PyTorch, and 144.59 MiB is reserved by PyTorch but unallocated.",
			Spill, "16.16"},
		{"absurd size (Scene-Splatter#4)", "CUDA out of memory. Tried to allocate 67109892.10 GiB. GPU 0 has a total capacty of 39.59 GiB of which 34.16 GiB is free. Process 75498 has 5.42 GiB memory in use. Of the allocated memory 3.99 GiB is allocated by PyTorch, and 921.15 MiB is reserved by PyTorch but unallocated.",
			AbsurdSize, "corrupt"},
		{"absurd size", "RuntimeError: CUDA out of memory. Tried to allocate more than 1EB memory.", AbsurdSize, "corrupt"},
		{"absurd size that was printed", "CUDA out of memory. Tried to allocate 17179869184.00 GiB. GPU 0 has a total capacity of 23.64 GiB of which 20.00 GiB is free.", AbsurdSize, "corrupt"},
		{"limit outside (Diffuman4D#20)", "CUDA out of memory. Tried to allocate 960.00 MiB. GPU 0 has a total capacity of 31.36 GiB of which 15.52 GiB is free. Of the allocated memory 14.20 GiB is allocated by PyTorch, and 76.00 MiB is reserved by PyTorch but unallocated.",
			LimitOutsideAllocator, "15.52"},
		{"exhaustion (CADS#4)", "CUDA out of memory. Tried to allocate 22.78 GiB. GPU 0 has a total capacity of 31.47 GiB of which 12.73 GiB is free. Of the allocated memory 9.08 GiB is allocated by PyTorch, and 9.35 GiB is reserved by PyTorch but unallocated.",
			Exhaustion, "31.85 to 31.87 GiB"},
		{"exhaustion (rtx6kpro#103)", "CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 94.97 GiB of which 1.10 GiB is free. Of the allocated memory 92.80 GiB is allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated.",
			Exhaustion, "94.97 GiB"},
		{"plausible (kaito#976)", "CUDA out of memory. Tried to allocate 546.00 MiB. GPU 0 has a total capacity of 79.25 GiB of which 514.00 MiB is free. Of the allocated memory 76.40 GiB is allocated by PyTorch, and 737.00 MiB is reserved by PyTorch but unallocated.",
			FragmentationPlausible, "737.00 MiB"},
		{"rounding leaves it open", "CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 31.36 GiB of which 1.00 GiB is free. Of the allocated memory 20.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch but unallocated.",
			CannotTell, "exhaustion or plausible fragmentation"},
		{"cut short", "CUDA out of memory. Tried to allocate 4.70 GiB. GPU 0 has a total capacity of 23.68 GiB of which 4.24 GiB is free. Including non-PyTorch memor",
			CannotTell, "exhaustion or plausible fragmentation"},
		{"cut short, but more than the card", "CUDA out of memory. Tried to allocate 47.00 GiB. GPU 0 has a total capacity of 23.68 GiB of which 4.24",
			Exhaustion, "23.6"},
		{"beginning cut off", "Tried to allocate 20.00 MiB (GPU 0; 1.96 GiB total capacity; 1.24 GiB already allocated; 2.88 MiB free; 1.25 GiB reserved in total by PyTorch)",
			CannotTell, "exhaustion or plausible fragmentation"},
		{"no numbers", "CUDA error: out of memory", CannotTell, "no numbers"},
		{"no numbers, NCCL", "NCCL WARN Failed to CUDA calloc 536870912 bytes", CannotTell, "no numbers"},
		{"within a fraction of the card (TheRock#2118)", "HIP out of memory. Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 255.98 GiB of which 244.65 GiB is free. 1.05 GiB allowed; Of the allocated memory 1017.01 MiB is allocated by PyTorch, with 17.00 MiB allocated in private pools (e.g., HIP Graphs), and 54.99 MiB is reserved by PyTorch but unallocated.",
			CannotTell, "a limit outside the allocator or plausible fragmentation"},
		{"far beyond a fraction of the card", "CUDA out of memory. Tried to allocate 8.00 GiB. GPU 0 has a total capacity of 47.37 GiB of which 46.57 GiB is free. Including non-PyTorch memory, this process has 772.00 MiB memory in use. 800.55 MiB allowed; Of the allocated memory 245.48 MiB is allocated by PyTorch, and 16.52 MiB is reserved by PyTorch but unallocated.",
			Exhaustion, "8.00 GiB"},
		{"XPU with everything free", "XPU out of memory. Tried to allocate 4.66 GiB. GPU 0 has a total capacity of 5.65 GiB of which 5.65 GiB is free. Of the allocated memory 195.50 KiB is allocated by PyTorch, and 1.81 MiB is reserved by PyTorch but unallocated.",
			LimitOutsideAllocator, "5.65"},
		{"MPS (ComfyUI#8984)", "MPS backend out of memory (MPS allocated: 15.72 GiB, other allocations: 2.41 MiB, max allowed: 18.13 GiB). Tried to allocate 5.81 GiB on private pool. Use PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations (may cause system failure).",
			Exhaustion, "21.52 to 21.55 GiB together, more than the 18.13 GiB allowed"},
		{"MPS, by little", "MPS backend out of memory (MPS allocated: 17.43 GB, other allocations: 480.00 MB, max allowed: 18.13 GB). Tried to allocate 300.00 MB on private pool.",
			Exhaustion, "18.18 to 18.20 GiB together"},
		{"MPS, within rounding", "MPS backend out of memory (MPS allocated: 18.02 GB, other allocations: 107.10 MB, max allowed: 18.13 GB). Tried to allocate 4.50 MB on private pool.",
			CannotTell, "a limit outside the allocator or exhaustion"},
		{"MPS, more than is allowed at all", "MPS backend out of memory (MPS allocated: 7.64 GiB, other allocations: 68.91 GiB, max allowed: 88.13 GiB). Tried to allocate 33.92 GiB on private pool.",
			Exhaustion, "33.92"},
	} {
		m := one(t, c.text)
		if m.Class != c.want || !strings.Contains(m.Because, c.says) {
			t.Errorf("%s: %s %v, %s; want %s, saying %q", c.name, m.Class, m.Possible, m.Because, c.want, c.says)
		}
		if len(m.Advice) == 0 {
			t.Errorf("%s: no advice", c.name)
		}
	}
}

func TestNotThisFormat(t *testing.T) {
	for _, text := range []string{
		"", "\n\n", "all went well\n", "Out of memory: Killed process 4711 (python)", "OutOfMemoryError",
		`    if "CUDA out of memory" in str(error):`, `    if 'CUDA out of memory' not in message:`,
	} {
		if _, err := Read(source.Bytes("x", []byte(text))); !errors.Is(err, source.ErrNotThisFormat) {
			t.Errorf("%q: %v", text, err)
		}
	}
}
