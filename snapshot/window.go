package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unsafe"

	"github.com/vramscope/vramscope/snapshot/input"
	"github.com/vramscope/vramscope/snapshot/pickle"
)

// window is what is at hand of the file, and the memory that reading it takes.
type window struct {
	b      []byte      // what is at hand of the file
	p      int         // position in b
	base   int64       // offset of b[0]
	whole  []byte      // all of the file, where there is no feed
	passed func(p int) // nil, or told now and then what was read of it
	feed   *input.Ahead
	buf    []byte // the feed's, which b is part of; nil when b is the decoder's own
	eof    bool
	torn   bool         // a container ended too early
	more   int          // p from which more of the file is to be made available
	total  int64        // size of the whole file, 0 when unknown
	before func() error // called before more is made available

	limit int64 // bytes of memory that may be used; 0: no limit
	used  int64
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
	w.more = len(w.b) - input.Margin
	if w.eof {
		w.more = len(w.b) + 1
	}
	return nil
}

// slide makes at least n bytes of the whole file available at p, and few more:
// what is called for each piece keeps up with the decoder.
func (w *window) slide(n int) {
	end := min(max(w.p+n, len(w.b))+input.Chunk, len(w.whole))
	w.b = w.whole[:end]
	w.eof = end == len(w.whole)
	if w.passed != nil {
		w.passed(w.p)
	}
}

// read takes chunks from the feed until n bytes are available at p.
func (w *window) read(n int) error {
	for len(w.b)-w.p < n && !w.eof {
		next := w.feed.Next()
		rest := w.b[w.p:]
		w.base += int64(w.p)
		w.p = 0
		if len(rest) <= input.Margin {
			start := input.Margin - len(rest)
			copy(next.Buf[start:], rest)
			if w.buf != nil {
				w.feed.Give(w.buf)
			}
			w.b, w.buf = next.Buf[start:input.Margin+next.N], next.Buf
		} else { // a string longer than a chunk
			if err := w.take(int64(next.N)); err != nil {
				return err
			}
			if w.buf != nil {
				rest = append(make([]byte, 0, max(n, len(rest)+input.Chunk)), rest...)
				w.feed.Give(w.buf)
			}
			w.b, w.buf = append(rest, next.Buf[input.Margin:input.Margin+next.N]...), nil
			if next.Err == nil {
				w.feed.Give(next.Buf)
			}
		}
		if next.Err != nil {
			w.eof = true
			if w.torn = errors.Is(next.Err, io.ErrUnexpectedEOF); !w.torn && next.Err != io.EOF {
				return &Error{Offset: w.base + int64(len(w.b)), Cause: next.Err.Error()}
			}
		}
	}
	return nil
}

// beyond reports whether n more bytes are known not to be there.
func (w *window) beyond(n uint64) bool {
	rest := uint64(len(w.b) - w.p)
	if n <= rest {
		return false
	}
	return w.eof || w.total > 0 && n > uint64(w.total-w.base-int64(w.p))
}

// fail is an error at the present opcode.
func (w *window) fail(at int, format string, args ...any) error {
	return &Error{Offset: w.base + int64(at), Cause: fmt.Sprintf(format, args...)}
}

func (w *window) shape(at int, cause string) error {
	return &Error{Offset: w.base + int64(at), Cause: cause, Err: errShape}
}

// end is where the file ends, once that is known.
func (w *window) end() int64 {
	if read := w.base + int64(len(w.b)); w.eof {
		return read
	}
	return w.total
}

// cut is the error for a file that ends too early.
func (w *window) cut() *Error {
	return &Error{Offset: w.end(), Cause: "the file ends in the middle of the recording",
		Advice: "The dump was cut off: dump again, or read what is there with --partial.", Err: ErrCut}
}

// take accounts for memory about to be used.
func (w *window) take(bytes int64) error {
	w.used += bytes
	return w.roomFor(0)
}

// roomFor refuses what would need more memory for a while.
func (w *window) roomFor(bytes int64) error {
	if w.limit > 0 && w.used+bytes > w.limit {
		return tooMuch(w.base+int64(w.p), w.limit)
	}
	return nil
}

func tooMuch(at, limit int64) error {
	return &Error{Offset: at, Err: ErrMemory, Cause: fmt.Sprintf("needs more than the %d MiB of memory allowed for reading it",
		limit>>20), Advice: "Allow more with --max-memory."}
}

// need makes n bytes available at p.
func (w *window) need(n int) error {
	if len(w.b)-w.p >= n {
		return nil
	}
	if err := w.fill(n); err != nil {
		return err
	}
	if len(w.b)-w.p < n {
		return w.cut()
	}
	return nil
}

// line is the text up to the next newline, as protocol 0 writes arguments.
func (w *window) line() ([]byte, error) {
	for scanned := 0; ; {
		if i := strings.IndexByte(text(w.b[w.p+scanned:]), '\n'); i >= 0 {
			s := w.b[w.p : w.p+scanned+i]
			w.p += scanned + i + 1
			return s, nil
		}
		scanned = len(w.b) - w.p
		if scanned > maxString {
			return nil, w.fail(w.p, "a line of more than %d bytes", maxString)
		}
		if err := w.need(scanned + 1); err != nil {
			return nil, err
		}
	}
}

// cutOr is the error for a length beyond the end of the file.
func (w *window) cutOr(at int, name string, n uint64) error {
	e := w.cut()
	e.Cause = fmt.Sprintf("the file ends in the middle of the recording: %s of %d bytes at offset %d goes beyond the end of "+
		"the file", name, n, w.base+int64(at))
	return e
}

// uint reads n little-endian bytes.
func (w *window) uint(n int) (uint64, error) {
	if err := w.need(n); err != nil {
		return 0, err
	}
	var buf [8]byte
	copy(buf[:], w.b[w.p:w.p+n])
	w.p += n
	return binary.LittleEndian.Uint64(buf[:]), nil
}

// length reads the length that an opcode's argument begins with.
func (w *window) length(op byte, at int) (uint64, error) {
	width := 4
	switch op {
	case pickle.ShortBinUnicode, pickle.ShortBinString, pickle.ShortBinBytes, pickle.Long1:
		width = 1
	case pickle.BinUnicode8, pickle.BinBytes8, pickle.ByteArray8:
		width = 8
	}
	n, err := w.uint(width)
	if err != nil {
		return 0, err
	}
	if w.beyond(n) {
		return 0, w.cutOr(at, "a length", n)
	}
	return n, nil
}

// skip passes over n bytes without keeping them.
func (w *window) skip(n uint64) error {
	for n > 0 {
		if err := w.need(1); err != nil {
			return err
		}
		k := min(n, uint64(len(w.b)-w.p))
		w.p += int(k)
		n -= k
	}
	return nil
}

// text views bytes as a string without copying; the bytes must not change while it is used.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
