// Package pattern keeps regular expressions that are compiled when they are
// first asked for: a program that doesn't come to them doesn't wait for them.
package pattern

import (
	"regexp"
	"sync"
)

// Of is a regular expression; it panics when it is asked for and can't be one.
func Of(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}
