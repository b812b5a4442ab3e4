package view

import (
	"fmt"
	"strings"
)

// Steers reports whether a character says how others are shown, or isn't shown itself: it
// breaks lines, turns the direction of writing or has no width, so that a name could pass
// for another.
func Steers(r rune) bool {
	switch {
	case 0x200b <= r && r <= 0x200f, 0x2028 <= r && r <= 0x202e, 0x2060 <= r && r <= 0x206f:
		return true
	case r == 0xad, r == 0x61c, r == 0x180e, r == 0xfeff, 0xfff9 <= r && r <= 0xfffb, 0xe0000 <= r && r <= 0xe007f:
		return true
	}
	return false
}

// controls reports whether a character is for the terminal.
func controls(r rune) bool { return r < 0x20 || 0x7f <= r && r < 0xa0 }

// Printable keeps names from a file from steering the terminal: what would is shown as
// in a program's text, such as \x1b and \u202e.
func Printable(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return controls(r) || Steers(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case controls(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case Steers(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}
