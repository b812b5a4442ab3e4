package input

import (
	"archive/zip"
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/vramscope/vramscope/internal/sniff"
)

// Content is the uncompressed bytes from the beginning, and their number, 0
// when it isn't known. A stream that is too long to be kept can be read once.
func (in *Input) Content() (io.ReadCloser, int64, error) {
	r, total, err := in.content()
	if err == nil {
		in.beginDigest()
	}
	return r, total, err
}

func (in *Input) content() (io.ReadCloser, int64, error) {
	fail := func(err error) (io.ReadCloser, int64, error) {
		return nil, 0, &Error{File: in.Name, Offset: 0, Cause: told(in.Compression, err).Error()}
	}
	r := in.raw()
	switch in.Compression {
	case "gzip":
		z, err := newMembers(r)
		if err != nil {
			return fail(err)
		}
		return &packed{ReadCloser: z, kind: in.Compression}, 0, nil
	case "zstd":
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return fail(err)
		}
		return &packed{ReadCloser: z.IOReadCloser(), kind: in.Compression}, 0, nil
	case page:
		p, err := newPage(r)
		if err != nil {
			return fail(err)
		}
		return &packed{ReadCloser: p, kind: in.Compression}, 0, nil
	case "zip":
		at, ok := r.(io.ReaderAt)
		if !ok {
			return fail(errors.New("too long for standard input: give the file's name"))
		}
		z, err := zip.NewReader(at, in.size())
		if err != nil {
			return fail(err)
		}
		files := sniff.Files(z)
		if len(files) != 1 {
			return nil, 0, &Error{File: in.Name, Offset: 0, Cause: sniff.Several(files) + ", of which none is read",
				Advice: sniff.Unpack}
		}
		c, err := files[0].Open()
		if err != nil {
			return fail(err)
		}
		return &packed{ReadCloser: c, kind: in.Compression}, 0, nil
	}
	return io.NopCloser(r), in.size(), nil
}

// packed is what a container holds. Its errors say that it is the container that
// ends too early or breaks, and once there is one it stays.
type packed struct {
	io.ReadCloser
	kind string
	err  error
}

func (p *packed) Read(b []byte) (n int, err error) {
	if p.err != nil {
		return 0, p.err
	}
	n, err = p.ReadCloser.Read(b)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		p.err = &tornError{p.kind}
	case err != nil && err != io.EOF:
		p.err = told(p.kind, err)
	default:
		p.err = err
	}
	return n, p.err
}

// tornError says that a container ends too early.
type tornError struct{ kind string }

func (e *tornError) Error() string { return "the file ends in the middle of its " + e.kind + " data" }

func (e *tornError) Unwrap() error { return io.ErrUnexpectedEOF }

// told is a container's error with the container's name, which some have in front
// already.
func told(kind string, err error) error {
	if strings.HasPrefix(err.Error(), kind+": ") {
		return err
	}
	return fmt.Errorf("%s: %w", kind, err)
}

// members reads the members of a gzip file one after another, and passes over the
// zeros that tapes and disks leave behind them, as gzip itself does.
type members struct {
	*gzip.Reader
	b *bufio.Reader
}

func newMembers(r io.Reader) (*members, error) {
	b := bufio.NewReaderSize(r, 256<<10)
	z, err := gzip.NewReader(b)
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return &members{z, b}, nil
}

func (m *members) Read(p []byte) (n int, err error) {
	for {
		switch n, err = m.Reader.Read(p); {
		case err != io.EOF:
			return n, err
		case n > 0:
			return n, nil
		}
		c := byte(0)
		for c == 0 {
			if c, err = m.b.ReadByte(); err != nil {
				return 0, err
			}
		}
		if err = m.b.UnreadByte(); err == nil {
			err = m.Reset(m.b)
		}
		if err != nil {
			return 0, err
		}
		m.Multistream(false)
	}
}
