package read

import (
	"bufio"
	"strings"
	"testing"
)

// TestNotebookBoundsStrings: a string longer than a line is cut however it is written.
func TestNotebookBoundsStrings(t *testing.T) {
	for name, piece := range map[string]string{"plain": "a", "escaped": `\t`, "by number": `\u0041`} {
		var got int
		n := notebookReader{in: bufio.NewReader(nil), number: 1, f: func(_ int, line []byte) { got += len(line) }}
		n.in.Reset(strings.NewReader(`{"text": "` + strings.Repeat(piece, 2*maxLine) + `"}`))
		if err := n.read(); err != nil {
			t.Fatal(name, err)
		}
		if got != maxLine || cap(n.text) > 2*maxLine {
			t.Errorf("%s: %d bytes of %d, in a buffer of %d", name, got, maxLine, cap(n.text))
		}
	}
}
