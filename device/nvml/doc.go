// Package nvml reads the cards of this machine through NVIDIA's management
// library.
//
// In: nothing but the machine. Out: readings of package device: total,
// reserved and free bytes, and the processes that own them. It must not know
// of models, runs or verdicts.
package nvml
