package code

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/vramscope/vramscope/report"
)

// Bounds on what is shown of a program.
const (
	mostBytes = 4 << 20 // of a file
	mostWide  = 160     // characters of a line
)

// Lines reads lines of the program from a folder, and from nowhere else: what a recording
// calls a file may be any name. Without a folder only files below the working directory count
// that the recording names whole.
func Lines(dir string) (func(*report.Place, int) []report.SourceLine, error) {
	given := dir != ""
	if !given {
		dir = "."
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		if given {
			return nil, fmt.Errorf("--source: %w", err)
		}
		return nil, nil
	}
	whole, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("--source: %w", err)
	}
	known := map[string][]string{} // lines by the recording's name
	return func(p *report.Place, around int) (out []report.SourceLine) {
		if p == nil || p.Line == nil || !strings.HasSuffix(p.File, ".py") {
			return nil
		}
		lines, ok := known[p.File]
		if !ok {
			lines = linesOf(root, namesOf(p.File, whole, given))
			known[p.File] = lines
		}
		if *p.Line > len(lines) {
			return nil // it has changed since
		}
		for n := max(1, *p.Line-around); n <= min(len(lines), *p.Line+around); n++ {
			out = append(out, report.SourceLine{Number: n, Text: lines[n-1]})
		}
		return out
	}, nil
}

// namesOf are the names below a folder that a recorded file may have: as much of the end of
// its path as there is.
func namesOf(file, whole string, anyEnd bool) (names []string) {
	file = path.Clean(strings.ReplaceAll(file, `\`, "/"))
	if inside, ok := strings.CutPrefix(file, filepath.ToSlash(whole)+"/"); ok {
		names = append(names, inside)
	}
	if !anyEnd {
		return names
	}
	const most = 12 // folders
	parts := strings.Split(strings.TrimPrefix(file, "/"), "/")
	for i := max(0, len(parts)-most); i < len(parts); i++ {
		names = append(names, strings.Join(parts[i:], "/"))
	}
	return names
}

// linesOf are the lines of the first of some files that is there.
func linesOf(root *os.Root, names []string) []string {
	for _, name := range names {
		f, err := root.Open(filepath.FromSlash(name))
		if err != nil {
			continue
		}
		defer f.Close()
		if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > mostBytes {
			continue
		}
		var lines []string
		s := bufio.NewScanner(io.LimitReader(f, mostBytes))
		s.Buffer(nil, mostBytes)
		for s.Scan() {
			text := []rune(strings.ReplaceAll(strings.TrimRight(s.Text(), " \r"), "\t", "    "))
			lines = append(lines, string(text[:min(len(text), mostWide)]))
		}
		return lines
	}
	return nil
}
