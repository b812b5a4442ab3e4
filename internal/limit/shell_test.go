package limit

import (
	"strings"
	"testing"
)

// TestShellBlocks counts blocks where a command may stand, and none of the same words elsewhere.
func TestShellBlocks(t *testing.T) {
	again := strings.Repeat
	for _, c := range []struct {
		name, text string
		deep       bool
	}{
		{"ifs in ifs", again("if ", 200), true},
		{"loops in loops", again("for x in a; do\n", 200), true},
		{"cases behind then", again("if a; then case x in y) ", 120), true},
		{"one after the other", again("if a; then b; fi\nfor x in y; do z; done\n", 300), false},
		{"a command's words", "echo " + again("if ", 200) + "\n" + again("echo for while\n", 200), false},
		{"a comment's words", again("# if for\n", 300), false},
	} {
		if err := Check(Shell, []byte(c.text)); (err != nil) != c.deep {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
