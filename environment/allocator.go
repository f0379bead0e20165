package environment

import (
	"fmt"
	"regexp"
	"strconv"

	"floodmark/device"
)

// Allocator is whose the memory of tensors is, and its settings.
type Allocator struct {
	// Backend is "native" or "cudaMallocAsync"; empty where it is not known. Its
	// counters mean other things under the second.
	Backend string
	// Origin says who named it: "pytorch" itself, or "settings", from which it
	// follows. Empty without a backend.
	Origin   string
	Settings []device.Variable // raw, those that are set
}

// settingNames are the variables that set the allocator, newest name first.
func settingNames() []string {
	return []string{newestSetting, "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"}
}

const (
	newestSetting = "PYTORCH_ALLOC_CONF"
	// noCaching gives every tensor straight back to the driver
	// (https://docs.pytorch.org/docs/stable/cuda_environment_variables.html).
	noCaching = "PYTORCH_NO_CUDA_MEMORY_CACHING"
)

// runtimeNames are further variables that change what a context or a program can
// take.
func runtimeNames() []string {
	return []string{"CUDA_MODULE_LOADING", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "HSA_OVERRIDE_GFX_VERSION"}
}

// set lists those of some variables that are set.
func set(environ map[string]string, names []string) []device.Variable {
	var list []device.Variable
	for _, name := range names {
		if value, is := environ[name]; is {
			list = append(list, device.Variable{Name: name, Value: value})
		}
	}
	return list
}

// reBackend is the backend that settings name.
var reBackend = regexp.MustCompile(`(?:^|[,\s])backend\s*:\s*([A-Za-z]+)`)

// readAllocator says what allocates: by PyTorch's own word, or by what it would
// read in the settings. A build without a GPU's runtime has no such allocator.
func readAllocator(t Torch, environ map[string]string) (Allocator, []device.Note) {
	var a Allocator
	a.Settings = set(environ, append(settingNames(), noCaching))
	switch {
	case t.Allocator != "":
		a.Backend, a.Origin = t.Allocator, "pytorch"
	case t.CUDA != "" || t.HIP != "":
		a.Backend, a.Origin = "native", "settings"
		for _, s := range a.Settings {
			if m := reBackend.FindStringSubmatch(s.Value); m != nil {
				a.Backend = m[1]
			}
		}
	}
	return a, a.notes(t)
}

func (a Allocator) notes(t Torch) []device.Note {
	var notes []device.Note
	values := map[string]bool{}
	newestAlone := true
	for _, s := range a.Settings {
		if s.Name != noCaching {
			values[s.Value] = true
			newestAlone = newestAlone && s.Name == newestSetting
		}
	}
	if len(values) > 1 {
		notes = append(notes, device.Note{Code: "settings_differ",
			Text: "the allocator is set by several variables to different values, and which one counts depends on PyTorch's release: set one"})
	}
	if len(values) == 1 && newestAlone && before(t.Version, 2, 9) {
		notes = append(notes, device.Note{Code: "settings_unread",
			Text: fmt.Sprintf("%s is set, and PyTorch %s does not read it: releases before 2.9 read PYTORCH_CUDA_ALLOC_CONF", newestSetting, t.Version)})
	}
	return notes
}

// reRelease is the release in a version: "2.11" of "2.11.0+cu128".
var reRelease = regexp.MustCompile(`^(\d{1,4})\.(\d{1,4})`)

// before reports a version that is known and older than a release.
func before(version string, major, minor int) bool {
	m := reRelease.FindStringSubmatch(version)
	if m == nil {
		return false
	}
	a, _ := strconv.Atoi(m[1])
	b, _ := strconv.Atoi(m[2])
	return a < major || a == major && b < minor
}
