package read

import (
	"io"

	"golang.org/x/text/encoding/unicode"
)

// detectUTF16 tells UTF-16, into which PowerShell redirects, and its byte order, by the
// mark at its beginning or by every other byte being zero.
func detectUTF16(head []byte) (order unicode.Endianness, is bool) {
	if len(head) < 4 {
		return unicode.LittleEndian, false
	}
	switch {
	case head[0] == 0xff && head[1] == 0xfe:
		return unicode.LittleEndian, true
	case head[0] == 0xfe && head[1] == 0xff:
		return unicode.BigEndian, true
	}
	if len(head) > 512 {
		head = head[:512]
	}
	var zero, text [2]int
	for i, c := range head {
		switch {
		case c == 0:
			zero[i&1]++
		case c >= ' ' && c < 0x7f || c == '\n' || c == '\r' || c == '\t':
			text[i&1]++
		}
	}
	half := len(head) / 2
	switch {
	case zero[1]*10 >= half*9 && text[0]*10 >= half*9:
		return unicode.LittleEndian, true
	case zero[0]*10 >= half*9 && text[1]*10 >= half*9:
		return unicode.BigEndian, true
	}
	return unicode.LittleEndian, false
}

// fromUTF16 decodes to UTF-8.
func fromUTF16(in io.Reader, order unicode.Endianness) io.Reader {
	return unicode.UTF16(order, unicode.UseBOM).NewDecoder().Reader(in)
}
