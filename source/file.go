// Package source reads Python programs as text, never running them: which statement stores what a
// line makes, and what to write there instead.
//
//	f := source.Parse("train.py", text)
//	at, ok := source.Search{Files: files, Path: calls, Graph: true}.Find()
//	fmt.Println(at.File.Name, at.Line, at.Code)
package source

import (
	"slices"
	"strings"
)

// Bounds on what is read of a program.
const (
	maxBytes  = 2 << 20
	maxTokens = 500_000
	maxNested = 200  // blocks in each other
	maxWords  = 2000 // tokens of a statement
	maxStmts  = 20_000
)

// File is a program's text with its statements.
type File struct {
	Name  string
	Lines []string // as they stand in the file, without their ends
	text  string
	stmts []stmt
}

// stmt is a statement, or the head of a block.
type stmt struct {
	first, last int // lines, from 1
	tokens      []token
	parent      int    // head of the block that it stands in, -1: none
	head        string // def, for, …; "" for a simple statement
}

// blocks are the words that a head begins with.
var blocks = map[string]bool{"def": true, "class": true, "for": true, "while": true, "if": true, "elif": true, "else": true,
	"try": true, "except": true, "finally": true, "with": true, "match": true, "case": true}

// Parse reads a program. It never fails: what isn't Python gives statements that nothing is found in.
func Parse(name, text string) *File {
	f := &File{Name: name}
	if len(text) > maxBytes {
		return f
	}
	f.text = text
	for line := range strings.SplitSeq(text, "\n") {
		f.Lines = append(f.Lines, strings.TrimSuffix(line, "\r"))
	}
	var open []opened
	for _, logical := range logicalLines(tokensOf(text)) {
		if len(logical) <= maxWords && len(f.stmts) < maxStmts {
			open = f.add(logical, open)
		}
	}
	return f
}

// opened is a block that further statements may stand in.
type opened struct{ indent, head int }

// add adds the statements of a logical line.
func (f *File) add(line []token, open []opened) []opened {
	indent := line[0].column
	for len(open) > 0 && open[len(open)-1].indent >= indent {
		open = open[:len(open)-1]
	}
	parent := -1
	if len(open) > 0 {
		parent = open[len(open)-1].head
	}
	word := line[0].text
	if word == "async" && len(line) > 1 {
		word = line[1].text
	}
	if colon := headEnd(line); blocks[word] && colon > 0 && len(open) < maxNested {
		f.stmts = append(f.stmts, stmt{line[0].line, line[colon].line, line[:colon], parent, word})
		head := len(f.stmts) - 1
		open = append(open, opened{indent, head})
		parent, line = head, line[colon+1:]
	}
	for len(line) > 0 {
		end := slices.IndexFunc(line, func(t token) bool { return t.text == ";" && t.depth == 0 })
		if end < 0 {
			end = len(line)
		}
		if end > 0 {
			f.stmts = append(f.stmts, stmt{line[0].line, line[end-1].endLine, line[:end], parent, ""})
		}
		line = line[min(len(line), end+1):]
	}
	return open
}

// headEnd is the colon that ends a block's head, -1 without one.
func headEnd(line []token) int {
	lambda := 0
	for i, t := range line {
		switch {
		case t.depth > 0:
		case t.text == "lambda":
			lambda++
		case t.text == ":" && lambda > 0:
			lambda--
		case t.text == ":":
			return i
		}
	}
	return -1
}

// at is the innermost statement of a line, -1 without one.
func (f *File) at(line int) int {
	found := -1
	for i := range f.stmts {
		if f.stmts[i].first > line {
			break
		}
		if line <= f.stmts[i].last {
			found = i
		}
	}
	return found
}

// function is the head of the function that a statement stands in, -1 for the module's own.
func (f *File) function(i int) int {
	for i = f.stmts[i].parent; i >= 0 && f.stmts[i].head != "def"; i = f.stmts[i].parent {
	}
	return i
}

// nameOf is a function's name, <module> for the module.
func (f *File) nameOf(function int) string {
	if function < 0 {
		return "<module>"
	}
	for i, t := range f.stmts[function].tokens {
		if t.text == "def" && i+1 < len(f.stmts[function].tokens) {
			return f.stmts[function].tokens[i+1].text
		}
	}
	return ""
}

// loop is the innermost loop of a statement's function that it stands in, -1 without one.
func (f *File) loop(i int) int {
	for i = f.stmts[i].parent; i >= 0 && f.stmts[i].head != "def"; i = f.stmts[i].parent {
		if h := f.stmts[i].head; h == "for" || h == "while" {
			return i
		}
	}
	return -1
}

// inside reports whether a statement stands in a block.
func (f *File) inside(i, head int) bool {
	for ; i >= 0; i = f.stmts[i].parent {
		if i == head {
			return true
		}
	}
	return false
}
