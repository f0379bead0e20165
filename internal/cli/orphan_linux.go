package cli

import (
	"os/exec"
	"runtime"
	"syscall"
)

// endWithUs has the kernel interrupt the process when this one is killed, so that
// nothing is left that holds a card while the sweep goes on elsewhere. The thread
// that starts it must live until the process has ended: then call release.
func endWithUs(cmd *exec.Cmd) (release func()) {
	runtime.LockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	return runtime.UnlockOSThread
}
