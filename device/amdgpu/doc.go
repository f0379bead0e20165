// Package amdgpu reads AMD's devices of this machine through the files of the
// amdgpu kernel driver: /sys/class/drm for memory, /sys/class/kfd for what ROCm
// sees and for the processes that compute.
//
// In: a root, "/" but in tests. Out: a [device.Reader]. A file that is missing
// or holds something else leaves its value unknown. It must not know of models,
// runs or verdicts.
package amdgpu
