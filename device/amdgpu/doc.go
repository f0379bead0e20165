// Package amdgpu reads the cards of this machine through the amdgpu kernel
// driver's files.
//
// In: nothing but the machine. Out: readings of package device: total and used
// bytes, and the processes that own them. It must not know of models, runs or
// verdicts.
package amdgpu
