package redact

import (
	"regexp"
	"sync"
)

// pattern is a regular expression that is compiled when it is first asked for:
// a program that redacts nothing doesn't wait for thirty of them.
func pattern(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
