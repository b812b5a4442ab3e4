package snapshot

import (
	"errors"
	"io"
	"sync/atomic"
)

const (
	chunk  = 256 << 10 // bytes read at a time: they stay in a core's cache
	ahead  = 8         // chunks in use at most
	batch  = 4         // free chunks that are worth waking the reader for
	margin = 64 << 10  // what the tight loops want ahead of them, carried over between chunks
)

// feed reads a stream ahead of its user, on another core where there is one.
type feed struct {
	full chan piece
	free chan []byte   // margin bytes of room and a chunk each
	idle atomic.Bool   // the reader waits for more
	more chan struct{} // there are some
	stop chan struct{}
	done chan struct{}
}

// piece is a chunk of the stream behind room for what was left of the one before.
type piece struct {
	buf []byte
	n   int
	err error // after these n bytes; io.EOF at the end
}

// newFeed reads r, which gives size bytes when that isn't 0.
func newFeed(r io.Reader, size int64) *feed {
	bytes := int64(chunk)
	if 0 < size && size < bytes {
		bytes = size + 1 // the end shows in the first read
	}
	f := &feed{full: make(chan piece, ahead), free: make(chan []byte, ahead), more: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{})}
	for range ahead {
		f.free <- nil
	}
	go f.read(r, int(bytes))
	return f
}

func (f *feed) read(r io.Reader, bytes int) {
	defer close(f.done)
	for {
		buf, ok := f.take()
		if !ok {
			return
		}
		if buf == nil {
			buf = make([]byte, margin+bytes)
		}
		n, err := io.ReadFull(r, buf[margin:])
		if errors.Is(err, io.ErrUnexpectedEOF) && n > 0 { // also what a truncated container gives
			err = io.EOF
		}
		select {
		case f.full <- piece{buf, n, err}:
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
func (f *feed) take() (buf []byte, ok bool) {
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

// give returns a buffer.
func (f *feed) give(buf []byte) {
	f.free <- buf
	if len(f.free) >= batch && f.idle.CompareAndSwap(true, false) {
		select {
		case f.more <- struct{}{}:
		default: // was told already
		}
	}
}

// close ends the reading; the reader isn't touched any more.
func (f *feed) close() {
	close(f.stop)
	<-f.done
}

// fill makes at least n bytes available at p unless the file ends before.
func (w *window) fill(n int) error {
	if err := w.before(); err != nil {
		return err
	}
	if w.feed == nil {
		w.slide(n)
	} else if err := w.read(n); err != nil {
		return err
	}
	w.more = len(w.b) - margin
	if w.eof {
		w.more = len(w.b) + 1
	}
	return nil
}

// slide makes at least n bytes of the whole file available at p, and few more:
// what is called for each piece keeps up with the decoder.
func (w *window) slide(n int) {
	end := min(max(w.p+n, len(w.b))+chunk, len(w.whole))
	w.b = w.whole[:end]
	w.eof = end == len(w.whole)
	if w.passed != nil {
		w.passed(w.p)
	}
}

// read takes chunks from the feed until n bytes are available at p.
func (w *window) read(n int) error {
	for len(w.b)-w.p < n && !w.eof {
		next := <-w.feed.full
		rest := w.b[w.p:]
		w.base += int64(w.p)
		w.p = 0
		if len(rest) <= margin {
			start := margin - len(rest)
			copy(next.buf[start:], rest)
			if w.buf != nil {
				w.feed.give(w.buf)
			}
			w.b, w.buf = next.buf[start:margin+next.n], next.buf
		} else { // a string longer than a chunk
			if err := w.take(int64(next.n)); err != nil {
				return err
			}
			if w.buf != nil {
				rest = append(make([]byte, 0, max(n, len(rest)+chunk)), rest...)
				w.feed.give(w.buf)
			}
			w.b, w.buf = append(rest, next.buf[margin:margin+next.n]...), nil
			if next.err == nil {
				w.feed.give(next.buf)
			}
		}
		if next.err != nil {
			w.eof = true
			if w.torn = errors.Is(next.err, io.ErrUnexpectedEOF); !w.torn && next.err != io.EOF {
				return &Error{Offset: w.base + int64(len(w.b)), Cause: next.err.Error()}
			}
		}
	}
	return nil
}

// beyond tells whether n more bytes are known not to be there.
func (w *window) beyond(n uint64) bool {
	rest := uint64(len(w.b) - w.p)
	if n <= rest {
		return false
	}
	return w.eof || w.total > 0 && n > uint64(w.total-w.base-int64(w.p))
}
