// Package input opens the files, streams and objects of a store that evidence lies
// in: compression is taken off, whatever a name says, and a digest is worked out
// meanwhile.
//
//	in, err := input.Open("train.log.gz")
//	if err != nil {
//		return err
//	}
//	defer in.Close()
//	r, _, err := in.Content()
package input

import (
	"archive/zip"
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"os"
	"path"
	"sync"

	"github.com/vramscope/vramscope/internal/sniff"
)

// kept is how much of a stream is held so that it can be read a second time.
const kept = 64 << 20

// Input is a file or a stream, opened and looked at: gzip, zstd and single-file
// zip are taken off, whatever the name says.
type Input struct {
	Name        string
	Compression string // "gzip", "zstd", "zip", "page" (of _memory_viz.py), "" for none
	// Undigested says that nobody will show a file's digest, which takes as long
	// as decoding: Digest then gives the size alone. Set before anything is read,
	// or by Discard.
	Undigested bool
	// Sum gives a file's SHA-256 where something else works it out faster; nil, or "": nothing does. Set like Undigested.
	Sum func(name string, size int64) string

	failed unreadSource // the source's first error
	file   *os.File     // nil for streams
	once   *os.File     // a stream's that has a name: a pipe or a device
	far    *far         // of a store
	data   []byte       // of a stream that is short enough to be kept
	rest   *bufio.Reader
	digest chan digest
	begun  sync.Once // of the digest
	sum    *digest
	hash   hash.Hash // of a stream that isn't kept
	read   int64
}

var errFolder = errors.New("is a directory")

// Open opens a file. Its digest is worked out while it is read, on another
// core where there is one.
func Open(name string) (*Input, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &Error{File: name, Offset: -1, Cause: unwrapPath(err), Err: Unread(err)}
	}
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = errFolder
	}
	if err != nil {
		f.Close()
		return nil, &Error{File: name, Offset: -1, Cause: unwrapPath(err), Err: Unread(err)}
	}
	in := &Input{Name: name, digest: make(chan digest, 1)}
	if !st.Mode().IsRegular() { // a pipe or a device can be read only once
		in.once = f
		if _, err = in.stream(f); err != nil {
			f.Close()
			return nil, err
		}
		return in, nil
	}
	in.file = f
	if err := in.sniff(); err != nil {
		f.Close()
		return nil, err
	}
	return in, nil
}

// Read takes a stream, such as standard input.
func Read(name string, r io.Reader) (*Input, error) {
	return (&Input{Name: name, digest: make(chan digest, 1)}).stream(r)
}

func (in *Input) stream(r io.Reader) (*Input, error) {
	r = in.failed.reader(r)
	data, err := io.ReadAll(io.LimitReader(r, kept))
	if err != nil {
		return nil, &Error{File: in.Name, Offset: int64(len(data)), Cause: err.Error(), Err: Unread(err)}
	}
	in.data = data
	if len(data) < kept {
		sum := sha256.Sum256(data)
		in.digest <- digest{hex.EncodeToString(sum[:]), int64(len(data))}
	} else {
		in.hash = sha256.New()
		in.rest = bufio.NewReaderSize(io.TeeReader(io.MultiReader(bytes.NewReader(data), r), streamed{in}), 1<<20)
		in.data = nil
	}
	return in, in.sniff()
}

// streamed counts and digests an input's stream as it goes by.
type streamed struct{ in *Input }

func (s streamed) Write(b []byte) (int, error) {
	s.in.read += int64(len(b))
	return s.in.hash.Write(b)
}

// Discard closes an input that turned out to be nothing of interest: its digest is
// not waited for.
func (in *Input) Discard() {
	in.Undigested = true
	if in.far != nil {
		in.far.wanted = false
	}
	in.Close()
}

// Close lets go of the file. The digest of what was read can still be asked for.
func (in *Input) Close() error {
	if in.far != nil {
		in.Digest()
		return in.far.r.Close()
	}
	if in.once != nil {
		return in.once.Close()
	}
	if in.file == nil {
		return nil
	}
	unread := false
	in.begun.Do(func() { unread = true })
	if unread || in.Undigested {
		in.sum = &digest{}
	} else {
		in.Digest()
	}
	return in.file.Close()
}

// Rereadable reports whether the input is a file or a store's, which can be
// opened again by its name.
func (in *Input) Rereadable() bool { return in.file != nil || in.far != nil }

// Head is up to n bytes from the beginning, uncompressed: enough to tell what a
// file is, without reading it.
func (in *Input) Head(n int) ([]byte, error) {
	if in.rest != nil && in.Compression == "" {
		b, err := in.rest.Peek(min(n, in.rest.Size()))
		if errors.Is(err, io.EOF) {
			err = nil
		}
		return b, err
	}
	if in.rest != nil {
		return nil, nil // can't be read twice
	}
	r, _, err := in.content()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	b, err := io.ReadAll(io.LimitReader(r, int64(n)))
	if err != nil && len(b) == 0 {
		return nil, &Error{File: in.Name, Offset: 0, Cause: err.Error()}
	}
	return b, nil
}

// raw is the input from its beginning, as given.
func (in *Input) raw() io.Reader {
	switch {
	case in.file != nil:
		return io.NewSectionReader(in.failed.readerAt(in.file), 0, 1<<62)
	case in.far != nil:
		return io.NewSectionReader(in.failed.readerAt(in.far), 0, in.far.size)
	case in.rest != nil:
		return in.rest
	}
	return bytes.NewReader(in.data)
}

// sniff recognises containers by their first bytes.
func (in *Input) sniff() error {
	var magic []byte
	if in.rest != nil {
		magic, _ = in.rest.Peek(4)
	} else {
		magic = make([]byte, 4)
		n, err := io.ReadFull(in.raw(), magic)
		magic = magic[:n]
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return &Error{File: in.Name, Offset: 0, Cause: unwrapPath(err), Err: Unread(err)}
		}
	}
	in.Compression = sniff.Compression(magic)
	if bytes.ContainsRune(magic, '<') && isPage(in.beginning()) {
		in.Compression = page
	}
	return nil
}

// beginning is as much of the input as given as a page's pickle must begin within.
func (in *Input) beginning() []byte {
	if in.rest != nil {
		head, _ := in.rest.Peek(pageHead)
		return head
	}
	head := make([]byte, pageHead)
	n, _ := io.ReadFull(in.raw(), head)
	return head[:n]
}

// size is the number of bytes as given, 0 when it isn't known.
func (in *Input) size() int64 {
	if in.far != nil {
		return in.far.size
	}
	if in.file != nil {
		if st, err := in.file.Stat(); err == nil {
			return st.Size()
		}
	}
	return int64(len(in.data))
}

// Once reports whether the content can be read only once: it is a stream that is too
// long to be kept.
func (in *Input) Once() bool { return in.rest != nil }

// Whole calls read with all of the input where that is at hand without a copy: a
// short stream, or a file as the system maps it. What read has passed over it may
// tell passed, unless that is nil, and must not look at again. whole is false,
// and nothing was read, for any other input: its Content is to be read.
func (in *Input) Whole(read func(b []byte, passed func(p int)) error) (whole bool, err error) {
	in.beginDigest()
	switch {
	case in.Compression != "":
	case in.data != nil:
		return true, read(in.data, nil)
	case in.file != nil:
		if m := mapFile(in.file, in.size()); m != nil {
			defer m.close()
			err := m.guard(func() error { return read(m.b, m.pass) })
			if errors.Is(err, ErrUnread) {
				in.failed.note(err)
			}
			return true, err
		}
	}
	return false, nil
}

// unwrapPath is an error without the path, which the caller names.
func unwrapPath(err error) string {
	var p *os.PathError
	if errors.As(err, &p) {
		return p.Err.Error()
	}
	return err.Error()
}

// IsCheckpoint reports whether a zip is laid out as torch.save writes it.
func (in *Input) IsCheckpoint() bool {
	at, ok := in.raw().(io.ReaderAt)
	if !ok || in.Compression != "zip" {
		return false
	}
	z, err := zip.NewReader(at, in.size())
	if err != nil {
		return false
	}
	for _, f := range z.File {
		if path.Base(f.Name) == "data.pkl" {
			return true
		}
	}
	return false
}
