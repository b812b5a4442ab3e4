package input

import (
	"errors"
	"io"
	"sync"
)

// unreadSource keeps the first error of what an input is read from. Who reads may make
// of it what it makes of damage: the end of a container, or of a text.
type unreadSource struct {
	mu  sync.Mutex
	err error
}

func (u *unreadSource) note(err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.err == nil {
		u.err = err
	}
}

// Unread is why the input could not be read to where somebody wanted; nil: it could.
func (in *Input) Unread() error {
	in.failed.mu.Lock()
	defer in.failed.mu.Unlock()
	return in.failed.err
}

func (u *unreadSource) passed(err error) {
	if err != nil && !errors.Is(err, io.EOF) {
		u.note(err)
	}
}

// reader notes the errors of a stream.
func (u *unreadSource) reader(r io.Reader) io.Reader { return notingReader{r, u} }

type notingReader struct {
	io.Reader
	u *unreadSource
}

func (n notingReader) Read(b []byte) (int, error) {
	read, err := n.Reader.Read(b)
	n.u.passed(err)
	return read, err
}

// readerAt notes those of a file or an object.
func (u *unreadSource) readerAt(r io.ReaderAt) io.ReaderAt { return notingReaderAt{r, u} }

type notingReaderAt struct {
	io.ReaderAt
	u *unreadSource
}

func (n notingReaderAt) ReadAt(b []byte, at int64) (int, error) {
	read, err := n.ReaderAt.ReadAt(b, at)
	n.u.passed(err)
	return read, err
}
