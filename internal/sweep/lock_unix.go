//go:build unix

package sweep

import (
	"errors"
	"os"
	"syscall"
)

// lock waits for the file to be ours, until it is closed. Network file systems
// of clusters carry this lock over to the server.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX) }

// tryLock takes the file unless another process has it.
func tryLock(f *os.File) (ours bool, err error) {
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR) {
		return false, nil
	}
	return err == nil, err
}
