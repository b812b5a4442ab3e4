//go:build !linux

package run

// fixAddresses starts a process as any other: nothing is simulated here.
func fixAddresses(start func() error) (fixed bool, err error) { return false, start() }
