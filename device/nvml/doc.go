// Package nvml reads the cards of this machine through NVIDIA's management
// library, libnvidia-ml.so.1, which comes with the driver.
//
// In: nothing but the machine. Out: a [device.Reader] of cards and MIG
// instances: total, reserved, used and free bytes, and the processes that own
// them. A value that the library leaves blank is unknown, with what it said. A
// library that does not answer is waited for a while, never for ever.
//
// The library is loaded when it is asked for, without C: the program runs where
// it is missing, and a build with the tag nonvml, which is static, has no part
// of this package that loads anything. It must not know of models, runs or
// verdicts.
package nvml
