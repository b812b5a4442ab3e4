//go:build unix && !linux

package run

import (
	"os/exec"
	"syscall"
)

// apart keeps a helper from the keys of the terminal.
func apart(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// deadly isn't known here: a signal is passed on.
func deadly(int, syscall.Signal) bool { return false }

func pythonIn(int) bool { return false }
