//go:build !linux

package faults

import (
	"os/exec"
	"testing"
)

func limited(t testing.TB, _ string, _ ...string) *exec.Cmd {
	t.Skip("limits are set as on Linux")
	return nil
}

func mountSmall(string, string) bool { return false }

func unmount(string) {}
