package runlog

import (
	"bytes"
	"math"
)

// maxMemory refuses nonsense such as 17179869184.00 GiB, which WSL prints.
const maxMemory = 1 << 52

// size reads "2.90GiB", "0bytes"; GB of an OOM message are GiB.
func size(text []byte) (int64, []byte) {
	v, rest, ok := decimal(text)
	if !ok {
		return unknown, text
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
		unit = prefix(rest[0])
	}
	if v *= unit; unit == 0 || v > maxMemory || v < 0 {
		// 5607.61 GiB asked for at once is real; 2^60 is not.
		return unknown, text
	}
	return int64(math.Round(v)), rest[n:]
}

// prefix is what a unit's first letter stands for, 0 for none of them.
func prefix(letter byte) float64 {
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

func integer(b []byte) (v int64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && i < 18 && b[i] >= '0' && b[i] <= '9' {
		v = v*10 + int64(b[i]-'0')
		i++
	}
	return v, b[i:], i > 0
}

func decimal(b []byte) (v float64, rest []byte, ok bool) {
	i := 0
	for i < len(b) && b[i] >= '0' && b[i] <= '9' {
		v = v*10 + float64(b[i]-'0')
		i++
	}
	if i == 0 {
		return 0, b, false
	}
	if i+1 < len(b) && b[i] == '.' && b[i+1] >= '0' && b[i+1] <= '9' {
		scale := 0.1
		for i++; i < len(b) && b[i] >= '0' && b[i] <= '9'; i++ {
			v += float64(b[i]-'0') * scale
			scale /= 10
		}
	} else if i+1 < len(b) && b[i] == '.' && (b[i+1] == ' ' || b[i+1]|0x20 >= 'a' && b[i+1]|0x20 <= 'z') {
		i++ // NumPy's "298. GiB"
	}
	return v, b[i:], true
}
