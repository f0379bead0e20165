// Package probe starts a program with the counters of PyTorch read around each
// of its phases, and reads the device from outside meanwhile.
//
// In: a command, the devices that it may use, and the protocol. Out: a
// measurement, written as it grows, so that a failed run leaves its last readings.
//
// It installs nothing, downloads nothing, and never takes a CPU for a GPU.
package probe
