package pickle

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Unescape reads protocol 0's strings: raw-unicode-escape for UNICODE, a
// quoted Python literal for STRING.
func Unescape(s string, quoted bool) (string, error) {
	if quoted {
		if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '\'' && s[0] != '"' {
			return "", fmt.Errorf("STRING %.40q without quotes", s)
		}
		s = s[1 : len(s)-1]
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '\\' {
			if quoted {
				out.WriteByte(c)
			} else {
				writeRune(&out, rune(c)) // UNICODE is Latin-1 where it isn't escaped
			}
			continue
		}
		width := 0
		if i+1 < len(s) {
			switch {
			case s[i+1] == 'u' && !quoted:
				width = 4
			case s[i+1] == 'U' && !quoted:
				width = 8
			case s[i+1] == 'x' && quoted:
				width = 2
			}
		}
		if width > 0 && i+2+width <= len(s) {
			n, err := strconv.ParseUint(s[i+2:i+2+width], 16, 32)
			if err != nil || n > utf8.MaxRune {
				return "", fmt.Errorf("escape %q", s[i:i+2+width])
			}
			if quoted {
				out.WriteByte(byte(n))
			} else {
				writeRune(&out, rune(n))
			}
			i += 1 + width
			continue
		}
		if quoted && i+1 < len(s) {
			if plain := strings.IndexByte(`\'"ntr`, s[i+1]); plain >= 0 {
				out.WriteByte("\\'\"\n\t\r"[plain])
				i++
				continue
			}
		}
		out.WriteByte(c)
	}
	return out.String(), nil
}

// writeRune writes a code point; a lone surrogate is written as CPython's
// surrogatepass writes it, so that all protocols give the same bytes.
func writeRune(out *strings.Builder, r rune) {
	if 0xd800 <= r && r <= 0xdfff {
		out.Write([]byte{0xe0 | byte(r>>12), 0x80 | byte(r>>6)&0x3f, 0x80 | byte(r)&0x3f})
		return
	}
	out.WriteRune(r)
}
