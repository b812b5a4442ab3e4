package read

import (
	"bytes"
	"io"

	"golang.org/x/text/encoding/unicode"
)

// detectUTF16 tells UTF-16, into which PowerShell redirects, and its byte order, by the
// mark at its beginning or by every other byte being zero.
func detectUTF16(head []byte) (order unicode.Endianness, is bool) {
	head = head[:min(len(head), 512)]
	for zeros, order := range []unicode.Endianness{unicode.BigEndian, unicode.LittleEndian} { // where the zeros are
		mark := [][]byte{{0xfe, 0xff}, {0xff, 0xfe}}[zeros]
		if len(head) >= 4 && (bytes.HasPrefix(head, mark) ||
			most(head, zeros, func(c byte) bool { return c == 0 }) && most(head, 1-zeros, isText)) {
			return order, true
		}
	}
	return unicode.LittleEndian, false
}

// most reports whether nine of ten of every other byte are such.
func most(head []byte, from int, such func(byte) bool) bool {
	n := 0
	for i := from; i < len(head); i += 2 {
		if such(head[i]) {
			n++
		}
	}
	return n*10 >= len(head)/2*9
}

func isText(c byte) bool { return c >= ' ' && c < 0x7f || c == '\n' || c == '\r' || c == '\t' }

// fromUTF16 decodes to UTF-8.
func fromUTF16(in io.Reader, order unicode.Endianness) io.Reader {
	return unicode.UTF16(order, unicode.UseBOM).NewDecoder().Reader(in)
}
