package read

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"unicode/utf8"

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

// string decodes a JSON string after its opening quote.
func (n *notebookReader) string() error {
	n.text, n.pending, n.started = n.text[:0], true, n.number
	for {
		c, err := n.in.ReadByte()
		if err != nil {
			return fmt.Errorf("offset %d: the notebook ends inside a string: %w", n.offset, io.ErrUnexpectedEOF)
		}
		n.offset++
		switch c {
		case '"':
			return nil
		case '\\':
			if c, err = n.in.ReadByte(); err != nil {
				continue
			}
			n.offset++
			n.escape(c)
			continue
		case '\n':
			n.number++
		}
		n.put(c)
	}
}

// put takes what a string holds, up to the length of a line.
func (n *notebookReader) put(b ...byte) {
	if len(n.text) < maxLine {
		n.text = append(n.text, b...)
	}
}

func (n *notebookReader) escape(c byte) {
	switch c {
	case 'n':
		c = '\n'
	case 't':
		c = '\t'
	case 'r':
		c = '\r'
	case 'b', 'f':
		return
	case 'u':
		var v rune
		for i := 0; i < 4; i++ {
			d, err := n.in.ReadByte()
			if err != nil {
				return
			}
			n.offset++
			v = v<<4 | hex(d)
		}
		n.put(utf8.AppendRune(nil, v)...)
		return
	}
	n.put(c)
}

func hex(c byte) rune {
	switch {
	case c >= '0' && c <= '9':
		return rune(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return rune(c|0x20-'a') + 10
	}
	return 0
}
