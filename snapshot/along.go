package snapshot

import (
	"crypto/sha256"
	"encoding/hex"
	"hash"
	"io"
	"os"
)

// along reads a file from its beginning and digests it on the way, so that one
// pass over the bytes serves both: what a feed reads is digested on another
// core, while it is decoded; what a decompressor reads, at once.
type along struct {
	file *os.File
	hash hash.Hash
	at   int64 // digested so far
	read int64
	used bool // by a reader, or not for one: readers get the plain file

	pieces chan piece    // of a feed
	behind bool          // more of them than the digest can follow: it reads on by itself
	idle   chan struct{} // closed when they are all digested, or all of the file
}

func newAlong(f *os.File, used bool) *along { return &along{file: f, hash: sha256.New(), used: used} }

func (a *along) Read(b []byte) (int, error) {
	n, err := a.file.ReadAt(b, a.read)
	a.read += int64(n)
	if a.pieces == nil {
		a.add(b[:n])
	}
	return n, err
}

// Close does nothing: the file belongs to its Input.
func (a *along) Close() error { return nil }

func (a *along) add(b []byte) {
	a.hash.Write(b)
	a.at += int64(len(b))
}

// begin digests the pieces that a feed reads.
func (a *along) begin(f *feed) {
	a.pieces, a.idle = make(chan piece, ahead/2), make(chan struct{})
	go func() {
		defer close(a.idle)
		for p := range a.pieces {
			a.add(p.buf.b[margin : margin+p.n])
			f.give(p.buf)
		}
		if a.behind {
			a.rest()
		}
	}()
}

// offer shares a piece with the digest, which must not hold up the decoder.
func (a *along) offer(p piece) {
	if a.behind {
		return
	}
	p.buf.uses.Add(1)
	select {
	case a.pieces <- p:
	default:
		p.buf.uses.Add(-1)
		a.behind = true
		close(a.pieces)
	}
}

// end ends the pieces.
func (a *along) end() {
	if !a.behind {
		close(a.pieces)
	}
}

// rest digests what nobody else has read.
func (a *along) rest() error {
	n, err := io.CopyBuffer(a.hash, io.NewSectionReader(a.file, a.at, 1<<62-a.at), make([]byte, chunk))
	a.at += n
	return err
}

// finish waits for the pieces and digests the rest.
func (a *along) finish() digest {
	if a.idle != nil {
		<-a.idle
	}
	err := a.rest()
	return digest{hex.EncodeToString(a.hash.Sum(nil)), a.at, err}
}
