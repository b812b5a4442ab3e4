//go:build !unix

package store

// lock can't be had here.
func (folder) lock() (unlock func(), err error) { return nil, ErrNoLocks }

// runs can't be told here.
func runs(int) bool { return true }
