package source

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Patch gathers changes of programs. Its zero value is empty.
type Patch struct {
	edits []Edit
	// Untold says of which statements nothing is changed, and why.
	Untold []string
}

// Add adds a change, unless it is there, or another one of the same text.
func (p *Patch) Add(e Edit) {
	for _, x := range p.edits {
		if x.File.Name == e.File.Name && x.from <= e.to && e.from <= x.to {
			return
		}
	}
	p.edits = append(p.edits, e)
}

// Diff is a unified diff; named gives the name of a file below the folder that the diff is applied in,
// false where it lies outside.
func (p *Patch) Diff(named func(file string) (string, bool)) string {
	var b strings.Builder
	edits := slices.Clone(p.edits)
	slices.SortStableFunc(edits, func(x, y Edit) int {
		return cmp.Or(cmp.Compare(x.File.Name, y.File.Name), cmp.Compare(x.from, y.from))
	})
	for len(edits) > 0 {
		n := 1
		for n < len(edits) && edits[n].File.Name == edits[0].File.Name {
			n++
		}
		if name, ok := named(edits[0].File.Name); ok && inside(name) {
			fmt.Fprintf(&b, "--- %s\n+++ %s\n", name, name)
			hunks(&b, edits[0].File.text, edits[:n])
		} else {
			p.Untold = append(p.Untold, path.Base(edits[0].File.Name)+" lies outside of the folder")
		}
		edits = edits[n:]
	}
	return b.String()
}

// Inline is a change as the lines that go and those that come.
func (e Edit) Inline() string {
	var b strings.Builder
	old, changed, _ := e.lines(e.File.text)
	for _, line := range old {
		b.WriteString("-" + strings.TrimRight(line, "\r\n") + "\n")
	}
	for _, line := range changed {
		b.WriteString("+" + strings.TrimRight(line, "\r\n") + "\n")
	}
	return strings.TrimRight(b.String(), "\n")
}

// inside reports whether a name is that of a file below a folder, in characters that a diff can hold.
func inside(name string) bool {
	return name != "" && !path.IsAbs(name) && path.Clean(name) == name && name != ".." && !strings.HasPrefix(name, "../") &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 127 || r == '\\' || r == '"' })
}

// lines are the lines that an edit changes, and what they become, with the byte where they begin.
func (e Edit) lines(text string) (old, changed []string, begin int) {
	begin = strings.LastIndexByte(text[:e.from], '\n') + 1
	end := len(text)
	if n := strings.IndexByte(text[e.to:], '\n'); n >= 0 {
		end = e.to + n + 1
	}
	old, changed = split(text[begin:end]), split(text[begin:e.from]+e.with+text[e.to:end])
	for len(old) > 0 && len(changed) > 0 && old[0] == changed[0] { // lines that are added behind one
		begin += len(old[0])
		old, changed = old[1:], changed[1:]
	}
	return old, changed, begin
}

// split are a text's lines with their ends.
func split(text string) []string {
	return slices.DeleteFunc(strings.SplitAfter(text, "\n"), func(line string) bool { return line == "" })
}

// hunks writes the changes of a file, each with three lines around it; those that are near share one.
func hunks(b *strings.Builder, text string, edits []Edit) {
	const around = 3
	all := split(text)
	type change struct {
		at       int // line, from 0
		old, now []string
	}
	var changes []change
	for _, e := range edits {
		old, now, begin := e.lines(text)
		at := strings.Count(text[:begin], "\n")
		if n := len(changes); n > 0 && changes[n-1].at+len(changes[n-1].old) > at {
			continue // in a line that is changed already
		}
		changes = append(changes, change{at, old, now})
	}
	shift := 0
	for len(changes) > 0 {
		n := 1
		for n < len(changes) && changes[n].at-(changes[n-1].at+len(changes[n-1].old)) <= 2*around {
			n++
		}
		last := changes[n-1]
		from, to := max(0, changes[0].at-around), min(len(all), last.at+len(last.old)+around)
		var body strings.Builder
		at, more := from, 0
		for _, c := range changes[:n] {
			write(&body, " ", all[at:c.at])
			write(&body, "-", c.old)
			write(&body, "+", c.now)
			at, more = c.at+len(c.old), more+len(c.now)-len(c.old)
		}
		write(&body, " ", all[at:to])
		fmt.Fprintf(b, "@@ -%d,%d +%d,%d @@\n%s", from+1, to-from, from+1+shift, to-from+more, body.String())
		shift += more
		changes = changes[n:]
	}
}

func write(b *strings.Builder, mark string, lines []string) {
	for _, line := range lines {
		b.WriteString(mark + line)
		if !strings.HasSuffix(line, "\n") {
			b.WriteString("\n\\ No newline at end of file\n")
		}
	}
}
