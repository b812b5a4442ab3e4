package snapshot

import (
	"errors"
	"fmt"
)

// Error says what in a file can't be read, and where.
type Error struct {
	File   string
	Offset int64 // in the uncompressed bytes; -1: no single place
	Cause  string
	Advice string // what to do about it, "" when nothing is known
	Err    error  // what kind of failure it is, nil for broken structure
}

// Unwrap makes errors.Is see the kind of failure.
func (e *Error) Unwrap() error { return e.Err }

func (e *Error) Error() string {
	s := e.Cause
	if e.Offset >= 0 {
		s = fmt.Sprintf("offset %d: %s", e.Offset, s)
	}
	if e.File != "" {
		s = e.File + ": " + s
	}
	if e.Advice != "" {
		s += "\n  " + e.Advice
	}
	return s
}

// ErrNotSnapshot is wrapped by errors about input that is no snapshot at all,
// so that a caller can try other kinds of evidence.
var ErrNotSnapshot = errors.New("not a memory snapshot")

// ErrMemory is wrapped by errors about input that needs more memory than allowed.
var ErrMemory = errors.New("more memory than allowed")

// errShape marks a pickle that is harmless as far as it was read but not laid
// out as the fast decoder needs it.
var errShape = errors.New("unusual layout")

// ErrCut is wrapped by errors about a file that ends too early.
var ErrCut = errors.New("truncated")
