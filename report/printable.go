package report

import (
	"bytes"
	"io"
	"strings"
	"unicode/utf8"
)

// steers tells whether a character says how others are shown: it breaks lines
// or turns the direction of writing, so that a name could pass for another.
func steers(r rune) bool {
	return 0x200e <= r && r <= 0x200f || 0x2028 <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069
}

// Printable keeps names from a file from steering the terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || 0x7f <= r && r < 0xa0 || steers(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// Shown is a page being written, whose names don't steer how it is shown.
type Shown struct{ W io.Writer }

// Write writes whole characters: a template writes a name in one piece.
func (s Shown) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("\xe2\x80")) || bytes.Contains(b, []byte("\xe2\x81")) { // what they all begin with
		n := len(b)
		_, err := s.W.Write(steady(b))
		return n, err
	}
	return s.W.Write(b)
}

// steady is text without what steers how it is shown.
func steady(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if steers(r) {
			return utf8.RuneError
		}
		return r
	}, b)
}
