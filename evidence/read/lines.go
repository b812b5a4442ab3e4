package read

import (
	"bufio"
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
	b := bufio.NewReaderSize(r, maxLine)
	number, offset := 1, int64(0)
	for {
		line, err := b.ReadSlice('\n')
		offset += int64(len(line))
		if err == nil {
			carriage(number, line[:len(line)-1], f)
			number++
			continue
		}
		if len(line) > 0 && !(line[0] == 0 && bytes.Equal(line, zeros[:len(line)])) { // a line's piece, or one that isn't ended
			carriage(number, line, f)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("offset %d: %w", offset, err)
		}
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
