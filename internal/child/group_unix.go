//go:build unix

package child

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup puts the program into a process group of its own, which is killed as
// a whole.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = ownGroupAttributes()
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

func killGroup(cmd *exec.Cmd) {
	_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
}

// signal is what ended the program; empty where it ended by itself.
func signal(state *os.ProcessState) string {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return status.Signal().String()
	}
	return ""
}
