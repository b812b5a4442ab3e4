package monitor

import (
	"bytes"
	"math"
	"slices"

	"github.com/vramscope/vramscope/evidence/figures"
)

// maxBytes refuses readings no machine has; some drivers print garbage near 2^64.
const maxBytes = 1 << 50

// amount reads a number at the start of text and returns what follows it.
func amount(text []byte) (value float64, rest []byte, ok bool) {
	text = bytes.TrimLeft(text, " \t")
	digits, negative := bytes.CutPrefix(text, []byte("-"))
	if value, rest, ok = figures.Decimal(digits); negative {
		value = -value
	}
	return value, rest, ok
}

// memory reads "10549 MiB", "0MiB", "24564" in bytes. The unit is MiB where
// none is printed; nvidia-smi's MB are MiB, too.
func memory(text []byte, unit float64) int64 {
	v, rest, ok := amount(text)
	if !ok || v < 0 {
		return Unknown
	}
	if u := unitBytes(bytes.TrimLeft(rest, " ")); u > 0 {
		unit = u
	}
	if v *= unit; v > maxBytes {
		return Unknown
	}
	return int64(math.Round(v))
}

// unitsOf are bytes by the first letter, in lower case.
var unitsOf = [256]float64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30, 't': 1 << 40, 'b': 1}

func unitBytes(unit []byte) float64 {
	if len(unit) == 0 {
		return 0
	}
	return unitsOf[unit[0]|0x20]
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
	return slices.Contains([]string{"", "-", "N/A", "Not Supported", "Unknown Error", "Insufficient Permissions", "Not Found",
		"GPU is lost", "None", "nan"}, string(bytes.Trim(text, " \t[]\"")))
}
