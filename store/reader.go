package store

import (
	"context"
	"errors"
	"io"
)

// attempts is how often in a row a reader takes up a connection that broke
// without getting further by some progress, in bytes.
const attempts = 6

const progress = 64 << 10

// window is how much the first request asks for, and the first one after a
// jump, in bytes: who only looks at a file leaves no transfer behind.
const window = 256 << 10

// Reader reads one file from its beginning on. When a connection breaks it
// goes on where it was, as long as the object is still the same. It can go
// back, or ahead, at the price of another request.
type Reader struct {
	Size int64 // bytes of the whole file

	ctx     context.Context
	place   *Place
	name    string
	version string
	content *content // nil: to be opened at offset
	offset  int64
	until   int64 // where content ends
	jumped  bool  // to offset; at the beginning, too
	failed  int   // attempts since there was some progress
	passed  int64 // bytes since the last of them
	check   *check
}

// Read reads on.
func (r *Reader) Read(b []byte) (int, error) {
	for len(b) > 0 {
		if r.offset >= r.Size {
			return 0, io.EOF
		}
		if r.content == nil {
			if err := r.reopen(); err != nil {
				return 0, err
			}
		}
		n, err := r.content.Read(b)
		if r.check.saw(b[:n], r.offset) {
			if err := r.check.differs(r.ctx, r.place, r.name); err != nil {
				return 0, r.place.fail(r.name, err)
			}
		}
		r.offset += int64(n)
		if r.passed += int64(n); r.passed >= progress {
			r.failed = 0
		}
		switch {
		case n > 0:
			return n, nil // an error comes again
		case err == nil:
			continue
		case errors.Is(err, io.EOF) && r.offset >= r.until:
			r.drop()
			continue
		case errors.Is(err, io.EOF):
			err = io.ErrUnexpectedEOF
		}
		r.drop()
		r.passed = 0
		if r.failed++; r.failed >= attempts || r.ctx.Err() != nil {
			return 0, r.place.fail(r.name, err)
		}
		pause(r.ctx, r.failed)
	}
	return 0, nil
}

// reopen asks for what is left, or for a window of it.
func (r *Reader) reopen() error {
	length := int64(-1)
	if r.jumped {
		length = window
	}
	c, err := r.place.backend.open(r.ctx, r.name, r.offset, length)
	if err != nil {
		return r.place.fail(r.name, err)
	}
	if r.version != "" && (c.version != r.version || c.size != r.Size) {
		c.Close()
		return r.place.fail(r.name, errChanged)
	}
	r.content, r.until, r.jumped = c, c.size, false
	if length >= 0 {
		r.until = min(r.offset+length, c.size)
	}
	return nil
}

func (r *Reader) drop() {
	if r.content != nil {
		r.content.Close()
		r.content = nil
	}
}

// Seek says where to read next; the request for it is made by the next Read.
func (r *Reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.offset
	case io.SeekEnd:
		offset += r.Size
	}
	if offset < 0 {
		return r.offset, r.place.fail(r.name, errors.New("a position before the beginning"))
	}
	if offset != r.offset {
		r.drop()
		r.offset, r.jumped = offset, true
	}
	return offset, nil
}

// ReadAt reads from a position; reading goes on behind it. Unlike that of other
// readers it may not be called at the same time as itself.
func (r *Reader) ReadAt(b []byte, offset int64) (int, error) {
	if _, err := r.Seek(offset, io.SeekStart); err != nil {
		return 0, err
	}
	n, err := io.ReadFull(r, b)
	if err == io.ErrUnexpectedEOF {
		err = io.EOF
	}
	return n, err
}

// Close ends the reading.
func (r *Reader) Close() error {
	r.drop()
	return nil
}
