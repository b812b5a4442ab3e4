package monitor

import (
	"bytes"
	"strconv"
	"time"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/internal/units"
)

// parseStamp reads the times nvidia-smi and the scripts around it write:
// 2026/07/14 09:00:44.579, ISO 8601 with or without zone, seconds or
// milliseconds since 1970. Dates whose day and month cannot be told apart are
// refused rather than guessed.
func parseStamp(text []byte) (evidence.Stamp, bool) {
	if n := len(text); n > 0 && (!units.IsDigit(text[0]) || !units.IsDigit(text[n-1])) {
		text = bytes.Trim(text, " \t\"'[]")
	}
	if len(text) >= 19 && (text[4] == '/' || text[4] == '-') {
		return parseDateTime(text)
	}
	if s, ok := parseEpoch(text); ok {
		return s, true
	}
	return parseCtime(text)
}

func parseDateTime(b []byte) (evidence.Stamp, bool) {
	at, rest, ok := figures.DateTime(b)
	if !ok {
		return evidence.Stamp{}, false
	}
	switch rest = bytes.TrimSpace(rest); {
	case len(rest) == 0:
		return evidence.LocalStamp(at), true
	case rest[0] == 'Z' || string(rest) == "UTC":
		return evidence.ZonedStamp(at), true
	case rest[0] == '+' || rest[0] == '-':
		zone, err := time.Parse("-0700", string(bytes.ReplaceAll(rest, []byte(":"), nil)))
		_, offset := zone.Zone()
		return evidence.ZonedStamp(at - int64(offset)*1e9), err == nil
	}
	return evidence.Stamp{}, false
}

func parseEpoch(b []byte) (evidence.Stamp, bool) {
	whole := b
	if i := bytes.IndexByte(b, '.'); i >= 0 {
		whole = b[:i]
	}
	if len(whole) != 10 && len(whole) != 13 {
		return evidence.Stamp{}, false
	}
	v, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return evidence.Stamp{}, false
	}
	if len(whole) == 13 {
		v /= 1000
	}
	return evidence.ZonedStamp(int64(v*1e6) * 1e3), true
}

// parseCtime reads "Tue Jul 14 08:12:38 2026", also with a zone's name before
// the year, which `date` adds and which says nothing certain about the offset.
func parseCtime(line []byte) (evidence.Stamp, bool) {
	f := bytes.Fields(line)
	half := ""
	if len(f) == 7 && (string(f[4]) == "AM" || string(f[4]) == "PM") { // GNU date's in some languages
		half, f = string(f[4]), append(f[:4:4], f[5:]...)
	}
	if len(f) == 6 && len(f[5]) == 4 {
		f = append(f[:4:4], f[5])
	}
	if len(f) != 5 || len(f[0]) != 3 || len(f[1]) != 3 || len(f[3]) != 8 {
		return evidence.Stamp{}, false
	}
	text := string(bytes.Join(f, []byte(" ")))
	layout := "Mon Jan 2 15:04:05 2006"
	if half != "" {
		layout, text = "Mon Jan 2 03:04:05 2006 PM", text+" "+half
	}
	t, err := time.Parse(layout, text)
	if err != nil {
		return evidence.Stamp{}, false
	}
	return evidence.LocalStamp(t.UnixNano()), true
}
