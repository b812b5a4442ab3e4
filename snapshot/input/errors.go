package input

import "fmt"

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
