package input

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"sync"
)

// farHead is how much of the beginning of a far input is kept, so that looking
// at it again takes no request.
const farHead = 64 << 10

// far is an input that lies in a store: read in order it is one request, and
// each jump is another.
type far struct {
	r      io.ReadSeekCloser
	size   int64
	wanted bool // its content, not only a look at it

	mu     sync.Mutex
	head   []byte
	at     int64     // r's position
	hash   hash.Hash // of the first hashed bytes
	hashed int64
	failed error // why not all of it could be read
}

// Far takes an object of a store, which can be read from any position on.
// It closes r with the input.
func Far(name string, r io.ReadSeekCloser) (*Input, error) {
	f := &far{r: r, hash: sha256.New()}
	in := &Input{Name: name, far: f}
	err := f.begin()
	if err == nil {
		err = in.sniff()
	} else {
		err = &Error{File: name, Offset: 0, Cause: err.Error(), Err: Unread(err)}
	}
	if err != nil {
		r.Close()
		return nil, err
	}
	return in, nil
}

// begin reads the head.
func (f *far) begin() (err error) {
	if f.size, err = f.r.Seek(0, io.SeekEnd); err != nil {
		return err
	}
	if _, err = f.r.Seek(0, io.SeekStart); err != nil {
		return err
	}
	head := make([]byte, min(f.size, farHead))
	n, err := io.ReadFull(f.r, head)
	f.head = head[:n]
	f.passed(f.head)
	return err
}

// passed notes what was read at the present position.
func (f *far) passed(b []byte) {
	if known := f.hashed - f.at; known >= 0 && known < int64(len(b)) {
		f.hash.Write(b[known:])
		f.hashed = f.at + int64(len(b))
	}
	f.at += int64(len(b))
}

// ReadAt reads from a position; where that is behind what was read last, it
// goes on with the same request.
func (f *far) ReadAt(b []byte, at int64) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at < int64(len(f.head)) {
		n = copy(b, f.head[at:])
		at += int64(n)
	}
	if n == len(b) {
		return n, nil
	}
	if at != f.at {
		if f.at, err = f.r.Seek(at, io.SeekStart); err != nil {
			return n, err
		}
	}
	m, err := io.ReadFull(f.r, b[n:])
	f.passed(b[n : n+m])
	if err == io.ErrUnexpectedEOF && f.at >= f.size {
		err = io.EOF
	}
	return n + m, err
}

// digest reads what is left. Of what was only looked at the sum stays empty: a
// checkpoint of many gigabytes is not worth its transfer.
func (f *far) digest() (sum string, bytes int64) {
	if !f.wanted || f.failed != nil {
		return "", f.size
	}
	for buf := make([]byte, 256<<10); f.hashed < f.size; {
		if n, err := f.ReadAt(buf[:min(int64(len(buf)), f.size-f.hashed)], f.hashed); n == 0 && err != nil {
			f.failed = err
			return "", f.size
		}
	}
	return hex.EncodeToString(f.hash.Sum(nil)), f.size
}
