//go:build unix

package sweep

import (
	"os"
	"syscall"
)

// lock waits for the file to be ours, until it is closed. Network file systems
// of clusters carry this lock over to the server.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }
