package view

import (
	"strings"
	"unicode/utf8"
)

// Steers reports whether a character says how others are shown: it breaks lines
// or turns the direction of writing, so that a name could pass for another.
func Steers(r rune) bool {
	return 0x200e <= r && r <= 0x200f || 0x2028 <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069
}

// Printable keeps names from a file from steering the terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < 0x20 || 0x7f <= r && r < 0xa0 || Steers(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}
