// Package cut shortens texts that are longer than anyone reads.
package cut

import "unicode/utf8"

// Letters is a text of at most so many letters, of which the last is "…" where there are more.
func Letters(s string, most int) string {
	if len(s) <= most {
		return s
	}
	if r := []rune(s); len(r) > most {
		return string(r[:most-1]) + "…"
	}
	return s
}

// Bytes is a text of at most so many bytes, or as much of its beginning and "…".
func Bytes(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:Whole(s, most)] + "…"
}

// Whole is how many of a longer text's first bytes are whole letters.
func Whole[T string | []byte](s T, most int) int {
	for n := most; n > max(0, most-utf8.UTFMax); n-- {
		if utf8.RuneStart(s[n]) {
			return n
		}
	}
	return max(0, most-utf8.UTFMax)
}
