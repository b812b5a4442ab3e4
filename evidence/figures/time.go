package figures

import (
	"time"

	"github.com/vramscope/vramscope/internal/civil"
)

// DateTime reads 2026-05-20 04:24:47,521 with any separator within the date, a blank, T or _ behind it and what
// fraction there is, in nanoseconds since 1970 by the clock that printed it.
func DateTime(b []byte) (nanos int64, rest []byte, ok bool) {
	if len(b) < 19 || b[4] != b[7] || b[13] != ':' || b[10] != ' ' && b[10] != 'T' && b[10] != '_' {
		return 0, b, false
	}
	day, ok := parseDate(b[:10])
	if !ok {
		return 0, b, false
	}
	clock, rest, ok := parseClock(b[11:])
	return day + clock, rest, ok
}

// parseDate reads YYYY-MM-DD with any separator, in nanoseconds since 1970.
func parseDate(b []byte) (int64, bool) {
	year, ok1 := Digits(b[0:4])
	month, ok2 := Digits(b[5:7])
	day, ok3 := Digits(b[8:10])
	if !ok1 || !ok2 || !ok3 || b[4] != b[7] || month < 1 || month > 12 || day < 1 || day > 31 ||
		year < 1970 || year > 2200 {
		return 0, false
	}
	return civil.Days(year, month, day) * int64(24*time.Hour), true
}

// parseClock reads HH:MM:SS and a fraction after a point or a comma.
func parseClock(b []byte) (nanos int64, rest []byte, ok bool) {
	if len(b) < 8 || b[2] != ':' || b[5] != ':' {
		return 0, nil, false
	}
	h, ok1 := Digits(b[0:2])
	m, ok2 := Digits(b[3:5])
	s, ok3 := Digits(b[6:8])
	if !ok1 || !ok2 || !ok3 || h > 23 || m > 59 || s > 60 {
		return 0, nil, false
	}
	fraction, rest := parseFraction(b[8:])
	return (h*3600+m*60+s)*1e9 + fraction, rest, true
}

// parseFraction reads that of a second, behind a point or a comma.
func parseFraction(b []byte) (nanos int64, rest []byte) {
	if len(b) < 2 || b[0] != '.' && b[0] != ',' {
		return 0, b
	}
	b = b[1:]
	for scale := int64(1e8); len(b) > 0 && b[0] >= '0' && b[0] <= '9'; scale /= 10 {
		nanos += int64(b[0]-'0') * scale
		b = b[1:]
	}
	return nanos, b
}

// Digits is a number of nothing else.
func Digits(b []byte) (int64, bool) {
	var v int64
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	return v, len(b) > 0
}
