package html

import (
	"bytes"
	"io"
	"unicode/utf8"

	"github.com/vramscope/vramscope/report/view"
)

// shown is a page being written, whose names don't steer how it is shown.
type shown struct{ w io.Writer }

// Write writes whole characters: a template writes a name in one piece.
func (s shown) Write(b []byte) (int, error) {
	if bytes.ContainsFunc(b, view.Steers) {
		n := len(b)
		_, err := s.w.Write(steady(b))
		return n, err
	}
	return s.w.Write(b)
}

// steady is text without what steers how it is shown.
func steady(b []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if view.Steers(r) {
			return utf8.RuneError
		}
		return r
	}, b)
}
