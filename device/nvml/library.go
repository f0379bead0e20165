//go:build linux && (amd64 || arm64) && !nonvml

package nvml

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ebitengine/purego"
)

// handle is a nvmlDevice_t.
type handle uintptr

// functions are those of the library that are used, as nvml.h declares them
// (https://docs.nvidia.com/deploy/nvml-api/). One that the library lacks is nil.
type functions struct {
	init            func() status
	shutdown        func() status
	driverVersion   func(text *byte, length uint32) status
	cudaVersion     func(version *int32) status
	count           func(n *uint32) status
	byIndex         func(i uint32, d *handle) status
	name            func(d handle, text *byte, length uint32) status
	uuid            func(d handle, text *byte, length uint32) status
	pci             func(d handle, info *pciInfo) status
	memory          func(d handle, info *memoryV1) status
	memoryV2        func(d handle, info *memoryV2) status
	compute         func(d handle, n *uint32, list *byte) status
	graphics        func(d handle, n *uint32, list *byte) status
	mps             func(d handle, n *uint32, list *byte) status
	capability      func(d handle, major, minor *int32) status
	computeMode     func(d handle, mode *uint32) status
	driverModel     func(d handle, current, pending *uint32) status
	virtualization  func(d handle, mode *uint32) status
	migMode         func(d handle, current, pending *uint32) status
	migCount        func(d handle, n *uint32) status
	migByIndex      func(d handle, i uint32, mig *handle) status
	gpuInstance     func(d handle, id *uint32) status
	computeInstance func(d handle, id *uint32) status

	firstProcesses bool // the list of processes is of the first version
}

// Structures as the library writes them.
type (
	memoryV1 struct{ Total, Free, Used uint64 }
	memoryV2 struct {
		Version                     uint32
		Total, Reserved, Free, Used uint64
	}
	pciInfo struct {
		LegacyID                                [16]byte
		Domain, Bus, Device, PCIID, SubsystemID uint32
		ID                                      [32]byte
	}
)

// memoryVersion2 is nvmlMemory_v2: the size of the structure and its version.
const memoryVersion2 = 40 | 2<<24

// paths are where the library is looked for: wherever the linker looks, and in
// the places of WSL and of containers whose linker was not told.
func paths() []string {
	return []string{"libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1", "/usr/local/nvidia/lib64/libnvidia-ml.so.1"}
}

// load opens the first of some libraries that is there.
func load(paths []string) (functions, error) {
	var failed []error
	for _, path := range paths {
		lib, err := purego.Dlopen(path, purego.RTLD_LAZY|purego.RTLD_LOCAL)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		return bind(lib)
	}
	return functions{}, notThere(failed)
}

// notThere is the error of libraries of which none could be opened: one that is
// there and damaged says more than those that are not.
func notThere(failed []error) error {
	for _, err := range failed {
		if !strings.Contains(err.Error(), "No such file") {
			return fmt.Errorf("NVIDIA's library could not be loaded: %w", err)
		}
	}
	return errors.New("there is no libnvidia-ml.so.1: no NVIDIA driver is installed, or this container was not given it")
}

// bind finds the functions. Each has the names of its versions, newest first,
// that share one form.
func bind(lib uintptr) (functions, error) {
	var f functions
	for _, b := range []struct {
		function any
		names    []string
	}{
		{&f.init, []string{"nvmlInit_v2", "nvmlInit"}},
		{&f.shutdown, []string{"nvmlShutdown"}},
		{&f.driverVersion, []string{"nvmlSystemGetDriverVersion"}},
		{&f.cudaVersion, []string{"nvmlSystemGetCudaDriverVersion_v2", "nvmlSystemGetCudaDriverVersion"}},
		{&f.count, []string{"nvmlDeviceGetCount_v2", "nvmlDeviceGetCount"}},
		{&f.byIndex, []string{"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex"}},
		{&f.name, []string{"nvmlDeviceGetName"}},
		{&f.uuid, []string{"nvmlDeviceGetUUID"}},
		{&f.pci, []string{"nvmlDeviceGetPciInfo_v3"}},
		{&f.memory, []string{"nvmlDeviceGetMemoryInfo"}},
		{&f.memoryV2, []string{"nvmlDeviceGetMemoryInfo_v2"}},
		{&f.graphics, []string{"nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetGraphicsRunningProcesses_v2"}},
		{&f.mps, []string{"nvmlDeviceGetMPSComputeRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v2"}},
		{&f.compute, []string{"nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2"}},
		{&f.capability, []string{"nvmlDeviceGetCudaComputeCapability"}},
		{&f.computeMode, []string{"nvmlDeviceGetComputeMode"}},
		{&f.driverModel, []string{"nvmlDeviceGetDriverModel_v2", "nvmlDeviceGetDriverModel"}},
		{&f.virtualization, []string{"nvmlDeviceGetVirtualizationMode"}},
		{&f.migMode, []string{"nvmlDeviceGetMigMode"}},
		{&f.migCount, []string{"nvmlDeviceGetMaxMigDeviceCount"}},
		{&f.migByIndex, []string{"nvmlDeviceGetMigDeviceHandleByIndex"}},
		{&f.gpuInstance, []string{"nvmlDeviceGetGpuInstanceId"}},
		{&f.computeInstance, []string{"nvmlDeviceGetComputeInstanceId"}},
	} {
		find(lib, b.function, b.names)
	}
	if f.compute == nil {
		f.firstProcesses = true
		find(lib, &f.compute, []string{"nvmlDeviceGetComputeRunningProcesses"})
		find(lib, &f.graphics, []string{"nvmlDeviceGetGraphicsRunningProcesses"})
	}
	if f.init == nil || f.count == nil || f.byIndex == nil {
		return f, errors.New("libnvidia-ml.so.1 is not NVIDIA's library: it lacks nvmlInit, nvmlDeviceGetCount or nvmlDeviceGetHandleByIndex")
	}
	return f, nil
}

func find(lib uintptr, function any, names []string) {
	for _, name := range names {
		if symbol, err := purego.Dlsym(lib, name); err == nil && symbol != 0 {
			purego.RegisterFunc(function, symbol)
			return
		}
	}
}
