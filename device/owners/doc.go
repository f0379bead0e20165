// Package owners says who the processes are that a driver lists on a device.
//
// In: the PIDs of a [device.Memory], and /proc. Out: their names, which other
// processes they started, and what some of them hold together. A driver numbers
// processes as the host does: inside a container a PID can be nobody's, or
// another's, and such a process is unknown, never guessed.
//
// It reads no device, and judges nothing.
package owners
