package input

import (
	"errors"
	"fmt"
	"io/fs"
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

// ErrUnread is wrapped by errors about an input that could not be got at, or not to its
// end, as against one whose content is damaged.
var ErrUnread = errors.New("could not be read")

// Unread is an error of a disk or a store as one that wraps ErrUnread.
func Unread(err error) error { return unread{err} }

type unread struct{ error }

func (u unread) Unwrap() error { return u.error }

func (unread) Is(target error) bool { return target == ErrUnread }

// IsPassing tells by an error about an input that could not be got at that another time it
// may be: that it isn't there, or that one may not read it, is so for good.
func IsPassing(err error) bool {
	return errors.Is(err, ErrUnread) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) &&
		!errors.Is(err, errFolder)
}
