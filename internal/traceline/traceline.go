// Package traceline reads the entries of Python's tracebacks as recordings hold them, one by one.
package traceline

import (
	"strconv"
	"strings"
)

// Read reads an entry of a traceback, such as
//
//	File "train.py", line 12, in step
//	  loss.backward()
func Read(text string) (file string, line int32, function string, ok bool) {
	text, ok = strings.CutPrefix(strings.TrimLeft(text, " "), `File "`)
	if !ok {
		return "", 0, "", false
	}
	text, _, _ = strings.Cut(text, "\n")
	at := strings.LastIndex(text, `", line `)
	if at < 0 {
		return "", 0, "", false
	}
	digits, function, _ := strings.Cut(text[at+len(`", line `):], ", in ")
	n, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || n < 0 {
		return "", 0, "", false
	}
	return text[:at], int32(n), function, true
}
