package probe

import "golang.org/x/sys/unix"

// monotonic is the machine's monotonic clock in nanoseconds, which all of its
// processes share: Python's time.monotonic_ns reads the same one. A wall clock
// that is set does not touch it.
func monotonic() int64 {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) != nil {
		return 0
	}
	return t.Nano()
}
