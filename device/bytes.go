package device

import (
	"fmt"

	"floodmark/account"
)

// mostMemory is more than any device has: 1 PiB. The values by which libraries
// say that they have none are far above it: NVML's NVML_VALUE_NOT_AVAILABLE,
// which is −1, and DCGM's blank, not found, not supported and not permissioned,
// 0x7ffffffffffffff0 and the next three
// (https://github.com/NVIDIA/DCGM/blob/28bfbd4c97413d4aec249cdd9543a67d24f95b78/dcgmlib/dcgm_structs.h).
const (
	mostMemory = 1 << 50
	leastBlank = 0x7ffffffffffffff0
)

// Bytes is a count of bytes that a driver gave for a counter of a device;
// unknown where it is a value that stands for none, or cannot be one.
func Bytes(n uint64, p account.Provenance) account.Figure {
	switch {
	case n >= leastBlank:
		return account.Unknown(p.Counter+" is not available here", p)
	case n > mostMemory:
		return account.Unknown(fmt.Sprintf("%s is %d bytes, which no device has", p.Counter, n), p)
	}
	return account.Exact(int64(n), p)
}
