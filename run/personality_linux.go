package run

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// ADDR_NO_RANDOMIZE of personality(2), and what asks for the present one.
const (
	noRandomAddresses = 0x0040000
	asItIs            = 0xffffffff
)

// fixAddresses starts a process without random addresses, which it inherits from the thread that starts it.
func fixAddresses(start func() error) (fixed bool, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, _, failed := unix.Syscall(unix.SYS_PERSONALITY, asItIs, 0, 0)
	if failed == 0 {
		_, _, failed = unix.Syscall(unix.SYS_PERSONALITY, before|noRandomAddresses, 0, 0)
	}
	if failed == 0 {
		defer unix.Syscall(unix.SYS_PERSONALITY, before, 0, 0)
	}
	return failed == 0, start()
}
