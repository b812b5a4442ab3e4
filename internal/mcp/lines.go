package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxMessage bounds a line of a client's.
const maxMessage = 1 << 20

// Lines is a transport over streams with a message in each line. A line that is none is answered and
// passed over: whoever sent it can go on.
func Lines(in io.Reader, out io.Writer) sdk.Transport {
	w := &writer{out: out}
	r := &reader{in: in, lines: bufio.NewReaderSize(in, maxMessage), out: w}
	return &sdk.IOTransport{Reader: r, Writer: w, MaxLineLength: 2 * maxMessage}
}

// writer hands out whole lines.
type writer struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(line)
}

func (w *writer) Close() error { return closed(w.out) }

// refuse answers what isn't a message, of which no id is known.
func (w *writer) refuse(code int, why string) error {
	type object = map[string]any
	text, err := json.Marshal(object{"jsonrpc": "2.0", "id": nil, "error": object{"code": code, "message": why}})
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return err
}

// reader hands out the lines that are messages.
type reader struct {
	in    io.Reader
	lines *bufio.Reader
	rest  []byte // of the present one
	out   *writer
}

func (r *reader) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		line, err := r.lines.ReadSlice('\n')
		long := err == bufio.ErrBufferFull
		for err == bufio.ErrBufferFull {
			_, err = r.lines.ReadSlice('\n')
		}
		if err != nil && (err != io.EOF || len(line) == 0) {
			return 0, err
		}
		code, why := refusal(line)
		if long {
			code, why = jsonrpc.CodeInvalidRequest, fmt.Sprintf("a message of more than %d bytes", maxMessage)
		}
		if code == 0 {
			r.rest = line
		} else if err := r.out.refuse(code, why); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func (r *reader) Close() error { return closed(r.in) }

func closed(stream any) error {
	if c, ok := stream.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// refusal is why a line is no message; 0 for one that is, and for a blank line.
func refusal(line []byte) (code int, why string) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return 0, ""
	}
	if !json.Valid(line) {
		return jsonrpc.CodeParseError, "a line that is no JSON"
	}
	if _, err := jsonrpc.DecodeMessage(line); err != nil {
		return jsonrpc.CodeInvalidRequest, "no message of JSON-RPC: " + err.Error()
	}
	return 0, ""
}
