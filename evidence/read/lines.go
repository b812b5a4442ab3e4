package read

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line; longer ones are read in pieces.
const maxLine = 1 << 20

// zeros are what a file holds behind the end that a crash left it, perhaps by gigabytes.
var zeros [maxLine]byte

// textLines hands out the lines of a stream without their ends. Carriage
// returns inside a line separate what a terminal would show over each other:
// every state of a progress bar comes by itself, with the same number.
func textLines(r io.Reader, f lineFunc) error {
	buf := make([]byte, 256<<10)
	number, have := 1, 0
	var offset int64
	for idle := 0; ; {
		n, err := r.Read(buf[have:])
		have += n
		offset += int64(n)
		rest := buf[:have]
		for {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				break
			}
			carriage(number, rest[:i], f)
			number++
			rest = rest[i+1:]
		}
		switch {
		case err != nil:
			if len(rest) > 0 { // a line that isn't ended, or cut
				carriage(number, rest, f)
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("offset %d: %w", offset, err)
		case len(rest) > 0 && rest[0] == 0 && len(rest) <= len(zeros) && bytes.Equal(rest, zeros[:len(rest)]):
			rest = rest[:0]
		case len(rest) >= maxLine:
			carriage(number, rest, f)
			rest = rest[:0]
		case len(rest) == len(buf):
			grown := make([]byte, 2*len(buf))
			have = copy(grown, rest)
			buf = grown
			continue
		}
		if idle++; n > 0 {
			idle = 0
		} else if idle > 100 {
			return fmt.Errorf("offset %d: %w", offset, io.ErrNoProgress)
		}
		have = copy(buf, rest)
	}
}

func carriage(number int, line []byte, f lineFunc) {
	for {
		i := bytes.IndexByte(line, '\r')
		if i < 0 || i == len(line)-1 {
			f(number, bytes.TrimSuffix(line, []byte{'\r'}))
			return
		}
		if i > 0 {
			f(number, line[:i])
		}
		line = line[i+1:]
	}
}
