package torch

// Device is what kernels ask of the device before they allocate scratch.
type Device struct {
	Name         string
	CPU          bool
	SMs          int   // multiprocessors
	ThreadsPerSM int   // most resident threads of one
	Workspace    int64 // bytes that cuBLAS keeps for each thread that multiplies; 0 for none
	Major, Minor int   // compute capability
	Threads      int   // of a CPU's kernels; 0 is one
}

func (d Device) threads() int64 { return int64(max(d.Threads, 1)) }

// The workspaces of cuBLAS by default: :4096:2:16:8, and 32 MiB on compute
// capability 9.0, since 2.12 on Blackwell's 10 and 12 too
// (https://github.com/pytorch/pytorch/blob/v2.9.0/aten/src/ATen/cuda/CublasHandlePool.cpp,
// https://github.com/pytorch/pytorch/pull/175344,
// https://docs.nvidia.com/cuda/cublas/#results-reproducibility).
const (
	workspaceDefault = 2*4096*1024 + 8*16*1024
	workspaceLarge   = 8 * 4096 * 1024
)

// Under is the device as a release of PyTorch takes it; the newest where it is none.
func (d Device) Under(r Release) Device {
	if d.Major >= 10 && r.before(2, 12) {
		d.Workspace = workspaceDefault
	}
	return d
}

// CardOf is the card that stands for an architecture, as a release of PyTorch takes it:
// one that most do not differ from where none is named. What kernels ask of a device
// differs little between the cards of an architecture.
func CardOf(arch string, r Release) Device {
	card := A100()
	switch arch {
	case "Hopper":
		card = H100()
	case "Blackwell":
		card = B200()
	case "Ada":
		card = RTX4090()
	}
	return card.Under(r)
}

// A100 has 108 multiprocessors.
func A100() Device {
	return Device{Name: "A100", SMs: 108, ThreadsPerSM: 2048, Workspace: workspaceDefault, Major: 8}
}

// H100 is the SXM card: 132 multiprocessors.
func H100() Device {
	return Device{Name: "H100", SMs: 132, ThreadsPerSM: 2048, Workspace: workspaceLarge, Major: 9}
}

// B200 has 148 multiprocessors.
func B200() Device {
	return Device{Name: "B200", SMs: 148, ThreadsPerSM: 2048, Workspace: workspaceLarge, Major: 10}
}

// RTX4090 has 128 multiprocessors of 1,536 threads.
func RTX4090() Device {
	return Device{Name: "RTX 4090", SMs: 128, ThreadsPerSM: 1536, Workspace: workspaceDefault, Major: 8, Minor: 9}
}

// CPU computes without workspaces and kernels' scratch of CUDA. It is what
// recordings of PyTorch on a CPU are compared with.
func CPU() Device { return Device{Name: "CPU", CPU: true} }
