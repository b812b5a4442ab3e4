package read

import (
	"bufio"
	"strings"
	"testing"
)

// TestNotebookTable: the table of a Trainer's steps, in a notebook that saved it with tags of how it looks, too.
func TestNotebookTable(t *testing.T) {
	for table, want := range map[string]string{
		"<tr><th>Step</th><th>Training Loss</th></tr><tr><td>5</td><td>2.5</td></tr>":                                                               "step 5 | loss 2.5",
		"<tr><th><span>Step</span></th><th>Training Loss</th></tr><tr><td><b>5</b></td><td>2.5</td></tr>":                                           "step 5 | loss 2.5",
		"<tr><th>\n <p class=\"x\"><strong>Step</strong></p></th><th><em>Loss</em></th></tr><tr><td> <code><i>5</i></code></td><td>\n2.5</td></tr>": "step 5 | loss 2.5",
		"<tr><th><button>Step</button></th><th>Loss</th></tr><tr><td>5</td><td>2.5</td></tr>":                                                       "",
	} {
		var got []string
		var s stepTable
		s.html([]byte("<table>"+table+"</table>"), 1, func(_ int, line []byte) { got = append(got, string(line)) })
		if text := strings.Join(got, "; "); text != want {
			t.Errorf("%s: %q, want %q", table, text, want)
		}
	}
}

// TestNotebookBoundsStrings: a string longer than a line is cut however it is written, and read as far as it goes.
func TestNotebookBoundsStrings(t *testing.T) {
	for name, piece := range map[string]string{"plain": "a", "escaped": `\t`, "by number": `\u0041`} {
		var got int
		n := notebookReader{in: bufio.NewReader(nil), number: 1, f: func(_ int, line []byte) { got += len(line) }}
		n.in.Reset(strings.NewReader(`{"text": "` + strings.Repeat(piece, 2*maxLine) + `"}`))
		if err := n.read(); err != nil {
			t.Fatal(name, err)
		}
		if want := maxLine / len(piece); got > want || got < want-len(`\u0041`) || cap(n.text) > 2*maxLine {
			t.Errorf("%s: %d bytes of %d, in a buffer of %d", name, got, want, cap(n.text))
		}
	}
}

// TestCutNotebook: of a notebook that ends before an exception's traceback, the exception's text is read.
func TestCutNotebook(t *testing.T) {
	const text = `{"cells": [{"outputs": [{"output_type": "error", "ename": "OutOfMemoryError", "evalue": "CUDA out of memory. Tried to ` +
		`allocate 1.50 GiB. GPU 0 has a total capacity of 23.65 GiB of which 1.12 GiB is free.",`
	var got []string
	n := notebookReader{in: bufio.NewReader(strings.NewReader(text)), number: 1,
		f: func(_ int, line []byte) { got = append(got, string(line)) }}
	if err := n.read(); err != nil || len(got) != 1 || !strings.HasPrefix(got[0], "CUDA out of memory. Tried to allocate 1.50 GiB") {
		t.Errorf("%q, %v", got, err)
	}
}
