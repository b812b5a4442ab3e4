package read

import (
	"io"
	"strings"
	"testing"
)

// TestZeros: what lies behind the end of a file that a crash cut is passed over, and so is a hole in it.
func TestZeros(t *testing.T) {
	for name, c := range map[string]struct {
		in    func() io.Reader
		lines int
		last  string
	}{
		"behind a line": {func() io.Reader { return io.MultiReader(strings.NewReader("a\nb\n"), zerosOf(256<<20)) }, 2, "b"},
		"within a file": {func() io.Reader {
			return io.MultiReader(strings.NewReader("a\n"), zerosOf(64<<20), strings.NewReader("\nb\n"))
		}, 3, "b"},
		"behind half of a line": {func() io.Reader {
			return io.MultiReader(strings.NewReader("a\nb"), zerosOf(64<<20), strings.NewReader("\nc"))
		}, 4, "c"},
		"nothing else": {func() io.Reader { return zerosOf(64 << 20) }, 1, ""},
		"a few":        {func() io.Reader { return strings.NewReader("\x00\x00") }, 1, ""},
		"none":         {func() io.Reader { return strings.NewReader("a\n\nb") }, 3, "b"},
	} {
		var lines, bytes int
		var last string
		if err := textLines(c.in(), func(_ int, line []byte) {
			lines++
			bytes += len(line)
			last = strings.Trim(string(line), "\x00")
		}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if lines > c.lines || last != c.last || bytes > 3<<20 {
			t.Errorf("%s: %d lines of %d bytes, the last %q; want at most %d, %q", name, lines, bytes, last, c.lines, c.last)
		}
	}
}

func zerosOf(n int64) io.Reader { return io.LimitReader(zeroReader{}, n) }

type zeroReader struct{}

func (zeroReader) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}
