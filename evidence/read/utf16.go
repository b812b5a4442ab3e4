package read

import (
	"bufio"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// byteOrder is UTF-16's, 0 where the text is not UTF-16. PowerShell redirects
// into little-endian UTF-16.
type byteOrder uint8

const (
	littleEndian byteOrder = 1
	bigEndian    byteOrder = 2
)

// detectUTF16 goes by the byte order mark, or by every other byte being zero.
func detectUTF16(head []byte) byteOrder {
	if len(head) < 4 {
		return 0
	}
	switch {
	case head[0] == 0xff && head[1] == 0xfe:
		return littleEndian
	case head[0] == 0xfe && head[1] == 0xff:
		return bigEndian
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
		return littleEndian
	case zero[0]*10 >= half*9 && text[1]*10 >= half*9:
		return bigEndian
	}
	return 0
}

// utf16Reader decodes to UTF-8.
type utf16Reader struct {
	in    *bufio.Reader
	order byteOrder
	rest  []byte // decoded and not yet handed out
	buf   []byte
	high  rune // first half of a surrogate pair
	first bool
}

func newUTF16(in *bufio.Reader, order byteOrder) io.Reader {
	return &utf16Reader{in: in, order: order, first: true}
}

func (u *utf16Reader) Read(p []byte) (int, error) {
	if len(u.rest) == 0 {
		if err := u.decode(); err != nil {
			return 0, err
		}
	}
	n := copy(p, u.rest)
	u.rest = u.rest[n:]
	return n, nil
}

// decode takes up to 16 KiB. A byte too many at the end is dropped.
func (u *utf16Reader) decode() error {
	u.buf = u.buf[:0]
	for i := 0; i < 8<<10; i++ {
		var pair [2]byte
		if _, err := io.ReadFull(u.in, pair[:]); err != nil {
			if len(u.buf) > 0 {
				break
			}
			if err == io.ErrUnexpectedEOF { // ReadFull's own: of a container that is cut it is wrapped
				err = io.EOF
			}
			return err
		}
		v := rune(pair[0]) | rune(pair[1])<<8
		if u.order == bigEndian {
			v = rune(pair[1]) | rune(pair[0])<<8
		}
		if u.first && v == 0xfeff {
			u.first = false
			continue
		}
		u.first = false
		switch {
		case v >= 0xd800 && v < 0xdc00:
			u.high = v
			continue
		case v >= 0xdc00 && v < 0xe000:
			v = utf16.DecodeRune(u.high, v)
		}
		u.high = 0
		u.buf = utf8.AppendRune(u.buf, v)
	}
	u.rest = u.buf
	return nil
}
