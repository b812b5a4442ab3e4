package snapshot

import (
	"errors"

	"github.com/vramscope/vramscope/snapshot/input"
)

// Error says what in a file can't be read, where, and what to do about it.
type Error = input.Error

// ErrUnread is wrapped by errors about an input that could not be got at.
var ErrUnread = input.ErrUnread

// Unread is an error of a disk or a store as one that wraps ErrUnread.
func Unread(err error) error { return input.Unread(err) }

// IsPassing tells by such an error that another time it may be.
func IsPassing(err error) bool { return input.IsPassing(err) }

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
