package environment

import (
	"strconv"
	"strings"

	"floodmark/device"
)

// notice adds what a person should know of how these parts go together: what is
// installed and what is in the machine can each be right, and not fit.
func (r *Report) notice() {
	r.noticeBackend()
	r.noticeCount()
	r.noticeRuntime()
	for _, d := range r.Devices {
		r.noticeMode(d)
	}
}

// noticeBackend compares what PyTorch was built for with what is there.
func (r *Report) noticeBackend() {
	t := r.Python.Torch
	if len(r.Devices) == 0 || !t.Imported {
		return
	}
	vendor := map[device.Backend]string{device.CUDA: "NVIDIA", device.HIP: "AMD"}[r.Backend]
	if r.Backend == "" {
		r.note("pytorch_cpu_only", "PyTorch %s is built for the CPU only, and uses no device of this machine", t.Version)
		return
	}
	for _, d := range r.Devices {
		if d.Vendor == vendor {
			return
		}
	}
	r.note("backend_mismatch", "PyTorch %s is built for %s, and no device here is %s's", t.Version, strings.ToUpper(string(r.Backend)), vendor)
}

// noticeCount compares what PyTorch counts with what it should see.
func (r *Report) noticeCount() {
	t := r.Python.Torch
	if t.Devices == nil || r.Backend == "" || *t.Devices == len(r.Visibility.Indexes) {
		return
	}
	r.note("pytorch_counts", "PyTorch counts %s, and the driver and the variables leave %s: it may be of another driver, or not be allowed to use them",
		count(*t.Devices), count(len(r.Visibility.Indexes)))
}

// noticeRuntime compares the CUDA that PyTorch was built for with the newest that
// the driver runs. Within a major release any runs on any
// (https://docs.nvidia.com/deploy/cuda-compatibility/).
func (r *Report) noticeRuntime() {
	built, _, _ := strings.Cut(r.Python.Torch.CUDA, ".")
	runs, _, _ := strings.Cut(r.Driver.Runtime, ".")
	a, bad := strconv.Atoi(built)
	b, worse := strconv.Atoi(runs)
	if bad == nil && worse == nil && a > b {
		r.note("driver_old", "PyTorch is built for CUDA %s, and the driver runs CUDA up to %s: it needs a newer driver, or NVIDIA's compatibility libraries", r.Python.Torch.CUDA, r.Driver.Runtime)
	}
}

// noticeMode says of a card that its mode keeps programs away.
func (r *Report) noticeMode(d Device) {
	name := "card " + strconv.Itoa(d.Card)
	switch {
	case d.ComputeMode == "prohibited":
		r.note("compute_prohibited", "%s is in compute mode prohibited: no program can compute on it", name)
	case d.ComputeMode == "exclusive_process" && len(d.Owners) > 0:
		r.note("compute_exclusive", "%s is in compute mode exclusive process, and process %d uses it: another cannot", name, d.Owners[0].PID)
	}
}
