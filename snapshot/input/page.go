package input

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"errors"
	"io"
)

// page is the container that torch/cuda/_memory_viz.py writes: a web page with the
// snapshot's pickle in base64 (trace_plot, segment_plot, profile_plot):
//
//	const local_files = [{"name": "snapshot.pickle", "base64": "gASV…"}]
//	add_local_files(local_files, 'Active Memory Timeline')
const page = "page"

var (
	pageKey  = []byte(`"base64": "`)
	pageMark = []byte("local_files")
)

// pageHead is within how many bytes the pickle must begin.
const pageHead = 64 << 10

// isPage tells such a page by its beginning.
func isPage(head []byte) bool {
	start := bytes.TrimLeft(head, "\xef\xbb\xbf \t\r\n")
	mark := bytes.Index(head, pageMark)
	return len(start) > 0 && start[0] == '<' && mark >= 0 && bytes.Contains(head[mark:], pageKey)
}

// newPage reads the pickle within a page.
func newPage(r io.Reader) (io.ReadCloser, error) {
	b := bufio.NewReaderSize(r, 256<<10)
	head, err := b.Peek(pageHead)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
		return nil, err
	}
	at := bytes.Index(head, pageMark)
	if at < 0 {
		return nil, errors.New("no snapshot in it")
	}
	key := bytes.Index(head[at:], pageKey)
	if key < 0 {
		return nil, errors.New("no snapshot in it")
	}
	if _, err := b.Discard(at + key + len(pageKey)); err != nil {
		return nil, err
	}
	return io.NopCloser(base64.NewDecoder(base64.StdEncoding, &quoted{b: b})), nil
}

// quoted ends at the quote that ends a string.
type quoted struct {
	b    *bufio.Reader
	done bool
}

func (q *quoted) Read(p []byte) (int, error) {
	if q.done {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	if _, err := q.b.Peek(1); err != nil {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF // the page ends before the string does
		}
		return 0, err
	}
	buffered, _ := q.b.Peek(min(len(p), q.b.Buffered()))
	if end := bytes.IndexByte(buffered, '"'); end >= 0 {
		buffered, q.done = buffered[:end], true
		if end == 0 {
			return 0, io.EOF
		}
	}
	n := copy(p, buffered)
	_, err := q.b.Discard(n)
	return n, err
}
