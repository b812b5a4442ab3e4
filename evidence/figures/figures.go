// Package figures reads numbers and sizes out of lines of text.
//
//	bytes, rest := figures.Size([]byte("2.90GiB free"))
package figures

import (
	"bytes"
	"math"
	"strings"
)

// Unknown stands for a number of bytes that was not printed.
const Unknown int64 = -1

// MaxMemory refuses nonsense such as 17179869184.00 GiB, which WSL prints.
const MaxMemory = 1 << 52

// Size reads "2.90GiB", "0bytes"; GB of an OOM message are GiB.
func Size(text []byte) (int64, []byte) {
	v, rest, ok := Decimal(text)
	if !ok {
		return Unknown, text
	}
	rest = bytes.TrimPrefix(rest, []byte(".")) // NumPy's "298. GiB"
	unit, n := 0.0, 0
	switch {
	case bytes.HasPrefix(rest, []byte("bytes")):
		unit, n = 1, 5
	case len(rest) >= 2 && rest[1] == 'i' && len(rest) >= 3 && rest[2] == 'B':
		n = 3
	case len(rest) >= 2 && rest[1] == 'B':
		n = 2
	}
	if unit == 0 && n > 0 {
		unit = Prefix(rest[0])
	}
	if v *= unit; unit == 0 || !(v >= 0 && v <= MaxMemory) { // nor what is no number
		// 5607.61 GiB asked for at once is real; 2^60 is not.
		return Unknown, text
	}
	return int64(math.Round(v)), rest[n:]
}

// Prefix is what a unit's first letter stands for, 0 for none of them.
func Prefix(letter byte) float64 {
	switch letter {
	case 'K', 'k':
		return 1 << 10
	case 'M':
		return 1 << 20
	case 'G':
		return 1 << 30
	case 'T':
		return 1 << 40
	case 'P':
		return 1 << 50
	case 'E':
		return 1 << 60
	}
	return 0
}

func Integer(b []byte) (v int64, rest []byte, ok bool) {
	i := digits(b[:min(len(b), 18)], 0)
	v, _ = Digits(b[:i])
	return v, b[i:], i > 0
}

// Decimal reads 12, 12.5 and NumPy's "298. GiB".
func Decimal(b []byte) (v float64, rest []byte, ok bool) {
	const most, places = 1e300, 300
	number := func(from, to int) int {
		for _, c := range b[from:to] {
			v = min(v*10+float64(c-'0'), most)
		}
		return to
	}
	end := number(0, digits(b, 0))
	if end == 0 || end+1 >= len(b) || b[end] != '.' {
		return v, b[end:], end > 0
	}
	switch c := b[end+1]; {
	case IsDigit(c):
		point := end + 1
		end = number(point, digits(b, point))
		if end-point > places {
			return 0, b, false
		}
		v /= math.Pow10(end - point)
	case c == ' ' || c|0x20 >= 'a' && c|0x20 <= 'z':
		end++
	}
	return v, b[end:], true
}

// digits is where those end that begin at a place.
func digits(b []byte, i int) int {
	for i < len(b) && IsDigit(b[i]) {
		i++
	}
	return i
}

// Compact is the beginning of a line without white space.
func Compact(line []byte, limit int) []byte {
	out := make([]byte, 0, limit)
	for _, c := range line {
		if c > ' ' {
			if out = append(out, c); len(out) == limit {
				break
			}
		}
	}
	return out
}

// After reads the size that follows words.
func After(text []byte, words string) int64 {
	i := bytes.Index(text, []byte(words))
	if i < 0 {
		return Unknown
	}
	v, _ := Size(text[i+len(words):])
	return v
}

// Before reads the size in front of words.
func Before(text []byte, words string) int64 {
	end := bytes.Index(text, []byte(words))
	if end < 0 {
		return Unknown
	}
	start := end
	for start > 0 && (text[start-1]|0x20 >= 'a' && text[start-1]|0x20 <= 'z') {
		start--
	}
	for start > 0 && (text[start-1] >= '0' && text[start-1] <= '9' || text[start-1] == '.') {
		start--
	}
	// A sentence's full stop is not part of the number.
	for start < end && text[start] == '.' {
		start++
	}
	v, rest := Size(text[start:end])
	// "19.38GiBofwhich…": the number must reach up to the words.
	if len(rest) > len("is") {
		return Unknown
	}
	return v
}

// MayBeTimed reports whether a line has three numbers as in 12:34:56, 2026-05-20
// or 2026/05/20.
func MayBeTimed(line []byte) bool {
	var between byte
	for i, c := range line {
		switch {
		case IsDigit(c):
		case (c == ':' || c == '-' || c == '/') && i > 0 && IsDigit(line[i-1]):
			if c == between {
				return true
			}
			between = c
		default:
			between = 0
		}
	}
	return false
}

// IsDigit tells 0 to 9.
func IsDigit(c byte) bool { return c >= '0' && c <= '9' }

// IsWordByte tells what words and names are made of.
func IsWordByte(c byte) bool {
	return IsDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'z' || c == '_' || c >= 0x80
}

// Asked are the forms of what was asked for, in the words of allocators, libraries and systems, as Find takes them.
var Asked = []string{"riedtoallocate%", "tensorwith%", "Unabletoallocate%", "ttemptingtoallocate%", "allocationofsize%",
	"allocationofsize#", "bufferofsize%", "bufferofsize#", "Tagged:#", "MemAlloc:#", "%)fromdevice:", "GPUmemory(%",
	"callocasync%", "calloc%", "tryingtoallocate%", "memoryallocating%", "allocating%", "Cannotallocate%", "Need:%",
	"Requested:%", "withsize#", "%KVcacheisneeded", "systemmemory(%", "unabletommap%"}

// Find is the size in the first of some forms that a text without white space has: words with "%" for the size before or
// behind them, or with "#" for a whole number of bytes. nil: none.
func Find(text []byte, forms ...string) *int64 {
	for _, form := range forms {
		v := Unknown
		if words, behind := strings.CutSuffix(form, "%"); behind {
			v = After(text, words)
		} else if words, before := strings.CutPrefix(form, "%"); before {
			v = Before(text, words)
		} else if _, rest, ok := bytes.Cut(text, []byte(strings.TrimSuffix(form, "#"))); ok {
			if n, _, ok := Integer(rest); ok && n <= MaxMemory {
				v = n
			}
		}
		if v != Unknown {
			return &v
		}
	}
	return nil
}
