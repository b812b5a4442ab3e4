package read

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/vramscope/vramscope/evidence/runlog"
)

// notebookLines hands out the lines of text that a Jupyter notebook's outputs
// hold, numbered by the line of the file in which their string begins. The
// program's own text and pictures are left out.
func notebookLines(r io.Reader, f lineFunc) error {
	n := notebookReader{in: bufio.NewReaderSize(r, 64<<10), number: 1, f: f}
	return n.read()
}

type notebookReader struct {
	in     *bufio.Reader
	number int
	offset int64
	f      lineFunc

	key     []byte // the last key: that of the strings that follow
	text    []byte // the last string, decoded
	line    []byte // text since the last line feed
	pending bool   // text may turn out to be a key
	started int    // line where text began
	table   stepTable
}

// read walks over the JSON token by token. A string followed by a colon is a
// key; any other is a value of the last key.
func (n *notebookReader) read() error {
	for {
		c, err := n.in.ReadByte()
		if err == io.EOF {
			n.value()
			n.flush()
			return nil
		}
		if err != nil {
			return fmt.Errorf("offset %d: %w", n.offset, err)
		}
		n.offset++
		switch c {
		case '\n':
			n.number++
		case ' ', '\t', '\r':
		case ':':
			if n.pending {
				n.key = append(n.key[:0], n.text...)
				n.pending = false
			}
		case '"':
			n.value()
			if err := n.string(); err != nil {
				return err
			}
		case ']', '}':
			n.value()
			n.flush()
			if c == '}' {
				n.key = n.key[:0]
			}
		default:
			n.value()
		}
	}
}

// value takes the last string as text if its key is one that holds output.
func (n *notebookReader) value() {
	if !n.pending {
		return
	}
	n.pending = false
	switch string(n.key) {
	case "text/html":
		n.table.html(n.text, n.started, n.f)
		return
	case "source": // of the program's own text only what its figures are divided by
		if u := runlog.UnitWord(n.text); u != "" {
			n.f(n.started, []byte(u))
		}
		return
	case "text", "text/plain", "evalue", "traceback", "stdout", "stderr":
	default:
		return
	}
	rest := n.text
	for {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			break
		}
		n.line = append(n.line, rest[:i]...)
		n.emit()
		rest = rest[i+1:]
	}
	n.line = append(n.line, rest...)
	if string(n.key) == "traceback" || string(n.key) == "evalue" || len(n.line) > maxLine {
		n.emit() // a traceback's entries end without line feeds
	}
}

func (n *notebookReader) emit() {
	carriage(n.started, n.line, n.f)
	n.line = n.line[:0]
}

func (n *notebookReader) flush() {
	if len(n.line) > 0 {
		n.emit()
	}
}

// string takes a JSON string after its opening quote, up to the length of a line; what is none of JSON's stays as it is
// written.
func (n *notebookReader) string() error {
	n.pending, n.started = true, n.number
	raw := append(n.text[:0], '"')
	for escaped := false; ; {
		c, err := n.in.ReadByte()
		if err != nil {
			return fmt.Errorf("offset %d: the notebook ends inside a string: %w", n.offset, io.ErrUnexpectedEOF)
		}
		n.offset++
		if c == '\n' {
			n.number++
		}
		if c == '"' && !escaped {
			break
		}
		escaped = c == '\\' && !escaped
		if len(raw) <= maxLine {
			raw = append(raw, c)
		}
	}
	if tail := len(raw) - len(`\u0041`); len(raw) > maxLine { // which may be cut in an escape
		raw = raw[:tail+max(0, bytes.LastIndexByte(raw[tail:], '\\'))]
	}
	n.text = raw[1:]
	var text string
	if json.Unmarshal(append(raw, '"'), &text) == nil {
		n.text = append(raw[:0], text...)
	}
	return nil
}
