package child

import "syscall"

// ownGroupAttributes also has the kernel end the program with the thread that
// started it: an interrupted floodmark ends at once, and must leave nothing
// behind that holds a card.
func ownGroupAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
