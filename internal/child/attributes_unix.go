//go:build unix && !linux

package child

import "syscall"

func ownGroupAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
