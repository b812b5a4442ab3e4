package input

import (
	"errors"
	"io"
	"sync/atomic"
)

const (
	Chunk  = 256 << 10 // bytes read at a time: they stay in a core's cache
	ahead  = 8         // chunks in use at most
	batch  = 4         // free chunks that are worth waking the reader for
	Margin = 64 << 10  // what the tight loops want ahead of them, carried over between chunks
)

// Ahead reads a stream ahead of its user, on another core where there is one.
type Ahead struct {
	full chan Piece
	free chan []byte   // Margin bytes of room and a chunk each
	idle atomic.Bool   // the reader waits for more
	more chan struct{} // there are some
	stop chan struct{}
	done chan struct{}
}

// Piece is a chunk of the stream behind room for what was left of the one before.
type Piece struct {
	Buf []byte
	N   int
	Err error // after these N bytes; io.EOF at the end
}

// NewAhead reads r, which gives size bytes when that isn't 0.
func NewAhead(r io.Reader, size int64) *Ahead {
	bytes := int64(Chunk)
	if 0 < size && size < bytes {
		bytes = size + 1 // the end shows in the first read
	}
	f := &Ahead{full: make(chan Piece, ahead), free: make(chan []byte, ahead), more: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{})}
	for range ahead {
		f.free <- nil
	}
	go f.read(r, int(bytes))
	return f
}

func (f *Ahead) read(r io.Reader, bytes int) {
	defer close(f.done)
	for {
		buf, ok := f.take()
		if !ok {
			return
		}
		if buf == nil {
			buf = make([]byte, Margin+bytes)
		}
		n, err := io.ReadFull(r, buf[Margin:])
		if errors.Is(err, io.ErrUnexpectedEOF) && n > 0 { // also what a truncated container gives
			err = io.EOF
		}
		select {
		case f.full <- Piece{buf, n, err}:
		case <-f.stop:
			return
		}
		if err != nil {
			return
		}
	}
}

// take is a free buffer, nil for one that is still to be made; not ok once
// nobody wants any more. Waking the reader takes longer than a chunk is read
// in, so that it sleeps until several are free.
func (f *Ahead) take() (buf []byte, ok bool) {
	for {
		select {
		case <-f.stop:
			return nil, false
		case buf = <-f.free:
			return buf, true
		default:
		}
		f.idle.Store(true)
		if len(f.free) >= batch { // came in the meantime
			f.idle.Store(false)
			continue
		}
		select {
		case <-f.more:
		case <-f.stop:
			return nil, false
		}
	}
}

// Give returns a buffer.
func (f *Ahead) Give(buf []byte) {
	f.free <- buf
	if len(f.free) >= batch && f.idle.CompareAndSwap(true, false) {
		select {
		case f.more <- struct{}{}:
		default: // was told already
		}
	}
}

// Next is the next piece of the stream.
func (f *Ahead) Next() Piece { return <-f.full }

// Close ends the reading; the reader isn't touched any more.
func (f *Ahead) Close() {
	close(f.stop)
	<-f.done
}
