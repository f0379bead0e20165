//go:build !unix

package child

import (
	"os"
	"os/exec"
)

func ownGroup(*exec.Cmd) {}

func killGroup(*exec.Cmd) {}

func signal(*os.ProcessState) string { return "" }
