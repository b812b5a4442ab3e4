package monitor

import (
	"bytes"
	"math"
)

// maxBytes refuses readings no machine has; some drivers print garbage near 2^64.
const maxBytes = 1 << 50

// amount reads a number at the start of text and returns what follows it.
func amount(text []byte) (value float64, rest []byte, ok bool) {
	for len(text) > 0 && (text[0] == ' ' || text[0] == '\t') {
		text = text[1:]
	}
	i, scale := 0, 0.0
	negative := len(text) > 0 && text[0] == '-'
	if negative {
		i++
	}
	start := i
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			value = value*10 + float64(c-'0')
			scale *= 10
		case c == '.' && scale == 0:
			scale = 1
		default:
			goto done
		}
	}
done:
	if i == start || (i == start+1 && scale == 1) {
		return 0, text, false
	}
	if scale > 1 {
		value /= scale
	}
	if negative {
		value = -value
	}
	return value, text[i:], true
}

// memory reads "10549 MiB", "0MiB", "24564" in bytes. The unit is MiB where
// none is printed; nvidia-smi's MB are MiB, too.
func memory(text []byte, unit float64) int64 {
	v, rest, ok := amount(text)
	if !ok || v < 0 {
		return Unknown
	}
	for len(rest) > 0 && rest[0] == ' ' {
		rest = rest[1:]
	}
	if u := unitBytes(rest); u > 0 {
		unit = u
	}
	if v *= unit; v > maxBytes {
		return Unknown
	}
	return int64(math.Round(v))
}

func unitBytes(unit []byte) float64 {
	if len(unit) == 0 {
		return 0
	}
	switch unit[0] | 0x20 {
	case 'k':
		return 1 << 10
	case 'm':
		return 1 << 20
	case 'g':
		return 1 << 30
	case 't':
		return 1 << 40
	case 'b':
		return 1
	}
	return 0
}

// number reads "35 %", "120.5 W"; negative when there is none ([N/A]).
func number(text []byte) float32 {
	v, _, ok := amount(text)
	if !ok {
		return -1
	}
	return float32(v)
}

// missing tells nvidia-smi's ways to say that there is no value.
func missing(text []byte) bool {
	switch string(bytes.Trim(text, " \t[]\"")) {
	case "", "-", "N/A", "Not Supported", "Unknown Error", "Insufficient Permissions", "Not Found", "GPU is lost", "None", "nan":
		return true
	}
	return false
}
