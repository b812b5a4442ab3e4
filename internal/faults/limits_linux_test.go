package faults

import (
	"context"
	"os/exec"
	"syscall"
	"testing"
)

// limited is a command under a limit of the shell's.
func limited(t testing.TB, limit string, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, "bash", append([]string{"-c", limit + `; exec "$0" "$@"`, program}, args...)...)
}

// mountSmall mounts a small disk, where this may be done.
func mountSmall(dir, size string) bool {
	return syscall.Mount("none", dir, "tmpfs", 0, "size="+size) == nil
}

func unmount(dir string) { _ = syscall.Unmount(dir, 0) }
