package store

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"strings"

	"github.com/vramscope/vramscope/internal/cut"
)

// Error says what could not be read or written and why, without credentials.
type Error struct {
	URL    string // the place or file, without parameters
	Cause  string
	Advice string // what to do, where that is known
	Err    error  // the store's own, for errors.Is and As: not to be shown
}

func (e *Error) Error() string {
	s := e.URL + ": " + e.Cause
	if e.Advice != "" {
		s += "\n" + e.Advice
	}
	return s
}

// Unwrap gives the store's own error.
func (e *Error) Unwrap() error { return e.Err }

// Is knows fs.ErrNotExist and fs.ErrPermission, whatever the store.
func (e *Error) Is(target error) bool {
	return target == kindOf(e.Err)
}

var (
	errAbsent  = fs.ErrNotExist
	errDenied  = fs.ErrPermission
	errFolder  = errors.New("is a directory")
	errChanged = errors.New("was changed while it was read")
)

// fail explains a store's error, nil for nil.
func (p *Place) fail(name string, err error) error {
	if err == nil {
		return nil
	}
	var done *Error
	if errors.As(err, &done) {
		if done.URL == "" {
			done.URL = p.URL(name)
		}
		return done
	}
	e := &Error{URL: p.URL(name), Err: err}
	e.Cause, e.Advice = cause(err)
	return e
}

// kindOf is errAbsent, errDenied, or nil for another error of a store and none.
func kindOf(err error) error {
	for _, kind := range [...]error{errAbsent, errDenied} {
		if errors.Is(err, kind) {
			return kind
		}
	}
	return s3Kind(err)
}

// cause puts a store's error into words. Messages of clients may hold whole
// requests, so that only known parts of them are passed on.
func cause(err error) (cause, advice string) {
	var file *fs.PathError
	var link *os.LinkError
	var lookup *net.DNSError
	var network *net.OpError
	switch {
	case errors.Is(err, context.Canceled):
		return "interrupted", ""
	case isTimeout(err):
		return "no answer in time", ""
	case errors.Is(err, ErrNoLocks):
		return "the file system has no locks", "Make sure that nothing else writes there meanwhile."
	case err == errAbsent:
		return "no such object", ""
	case errors.As(err, &file):
		return file.Err.Error(), ""
	case errors.As(err, &link):
		return link.Err.Error(), ""
	}
	if cause, advice = s3Cause(err); cause != "" {
		return cause, advice
	}
	switch {
	case strings.Contains(err.Error(), "get identity"), strings.Contains(err.Error(), "credentials"):
		return "no credentials",
			"Set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; for a public bucket add ?anonymous=true."
	case errors.As(err, &lookup):
		return "the store's host " + lookup.Name + " is not known", ""
	case errors.As(err, &network):
		return "no connection: " + network.Err.Error(), ""
	}
	switch kindOf(err) {
	case errAbsent:
		return "no such object or bucket", ""
	case errDenied:
		return "access denied", ""
	}
	return oneLine(err.Error()), ""
}

// oneLine is the beginning of a message, on one line, without what stands
// behind a question mark: the parameters of a request.
func oneLine(s string) string {
	words := strings.Fields(s)
	for i, w := range words {
		if j := strings.IndexByte(w, '?'); j >= 0 && strings.Contains(w, "://") {
			words[i] = w[:j]
		}
	}
	return cut.Bytes(strings.Join(words, " "), 300)
}
