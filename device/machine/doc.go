// Package machine finds the devices of this machine, whatever drives them.
//
// In: nothing but the machine. Out: one [device.Reader] over the devices of all
// drivers, and what was tried in vain. NVIDIA's cards are read through NVML, and
// where that cannot be, through nvidia-smi; AMD's through the files of amdgpu.
//
// Finding and reading create no context. It knows nothing of Python, of programs
// that run, or of which devices they may use: that is [device.Visible].
package machine
