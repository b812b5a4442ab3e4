// Package view puts what a report says into sheets of sections: sentences,
// facts and tables in the words that all writers share. It knows what is said
// and how much of it, not how it looks.
//
//	err := text.Write(os.Stdout, view.Document(doc, view.Terminal), text.Style{Width: 100})
package view

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/report"
)

// Edition is who reads: it decides what is shown, and how much of it.
type Edition int

// The editions.
const (
	Terminal Edition = iota // all of it
	Ticket                  // for an issue, and for pages without scripts
	Brief                   // a screen of it
	Web                     // the same where there is no command line
)

// Sheet is an answer: what happened, then parts in the order of reading.
type Sheet struct {
	Heading string // of a page, where there is no title
	Title   string // the user's
	Above   string // the verdict: that the GPU was simulated
	Verdict report.Verdict
	Notes   []report.Note // the user's
	Caveats []string      // what makes the verdict less than sure
	Parts   []Part
	Tool    string
	Short   string // all of it in a word, "": the verdict
	Changes bool   // the parts tell of the verdict's change
	Folded  int    // parts from this one on are folded in a ticket; 0: none
}

// Part is a heading with what stands below it, in the order of the fields. A
// part without a heading goes on with the one before.
type Part struct {
	Heading string
	Level   int  // of the heading in a ticket
	Bare    bool // on a terminal, an empty line stands for the heading
	Text    []string
	List    bool // the texts are a list's
	Facts   []Fact
	Table
	Findings []Finding
	Rest     string         // what isn't listed: "and 3 more"
	Plot     *report.Device // its curve
	Bars     *Bars          // on a page, above the table
	Command  string         // for a shell
	Python   bool           // Command is code of a program
}

// Fact is a sentence with a name in front of it.
type Fact struct{ Name, Text string }

// Table is columns and rows. A row with fewer cells than columns ends early.
type Table struct {
	Columns []Column
	Rows    []Row
	NoHead  bool // on a terminal
	Wrap    bool // on a terminal, the last cell
}

// Column is a column of a table. On a terminal it takes Width, or what its widest
// cell needs, and Gap more spaces than one stand before it.
type Column struct {
	Name       string
	Number     bool
	Signed     bool // its figures are differences
	Leads      bool // names the rows: a page has it first, a terminal where sizes align
	Paper      bool // left out on a terminal
	Bar        bool // of block characters: left out on a page, which has its own
	Width, Gap int
}

// Row is a row of a table, with what is to be said below it.
type Row struct {
	Cells    []Cell
	Notes    []Fact
	Category string // that it is about, whose colour it has on a page; "" for none
	Device   string // its place among those that a page shows below; "" for none
}

// Bars are bars of one scale, beside limits.
type Bars struct {
	Rows   []Stacked
	Limits []Limit
	Whole  int64 // bytes of the longest bar that there is room for
}

// Stacked is a bar of pieces.
type Stacked struct {
	Name   string
	Bytes  int64
	Pieces []Piece
}

// Piece is a part of a bar.
type Piece struct {
	Class string // what a page has its colour by
	Name  string
	Bytes int64
	Share string // of what was allocated, "" for what wasn't
}

// Legend are the kinds of pieces, each once.
func (b *Bars) Legend() (kinds []Piece) {
	for _, row := range b.Rows {
		for _, p := range row.Pieces {
			if !slices.ContainsFunc(kinds, func(k Piece) bool { return k.Name == p.Name }) {
				kinds = append(kinds, p)
			}
		}
	}
	return kinds
}

// Limit is a line across bars.
type Limit struct {
	Name  string
	Bytes int64
}

// Cell is a text of which some words are code.
type Cell []Span

// Span is a piece of a cell.
type Span struct {
	Text string
	Code bool
}

// Code is a text as it stands in a program, a path or a command.
type Code string

// String is a cell without the difference.
func (c Cell) String() string {
	var b strings.Builder
	for _, s := range c {
		b.WriteString(s.Text)
	}
	return b.String()
}

// cell puts texts, codes and cells together.
func cell(parts ...any) (c Cell) {
	for _, part := range parts {
		switch x := part.(type) {
		case string:
			c = append(c, Span{Text: x})
		case Code:
			c = append(c, Span{string(x), true})
		case Cell:
			c = append(c, x...)
		}
	}
	return c
}

// add adds a row of texts, codes and cells.
func (t *Table) add(cells ...any) *Row {
	row := Row{}
	for _, c := range cells {
		row.Cells = append(row.Cells, cell(c))
	}
	t.Rows = append(t.Rows, row)
	return &t.Rows[len(t.Rows)-1]
}

// words are columns of text, numbers those of figures.
func words(names ...string) (out []Column) {
	for _, name := range names {
		out = append(out, Column{Name: name})
	}
	return out
}

func numbers(names ...string) (out []Column) {
	for _, name := range names {
		out = append(out, Column{Name: name, Number: true})
	}
	return out
}

// textColumn and figureColumn are columns that a terminal gives a width.
func textColumn(name string, width int) Column { return Column{Name: name, Width: width} }
func figureColumn(name string, width int) Column {
	return Column{Name: name, Width: width, Number: true}
}

// Finding is a finding of which only the lines are left that are shown.
type Finding struct {
	report.Severity
	Tag      string // in place of the severity's word, "": that
	Title    string
	Evidence []string
	Rest     string // evidence that isn't shown
	Change   string
	Gain     string // what comes of the change
	Code     string // "" where an earlier one has the same
	Sure     string // how sure it is, "": sure
	Open     bool   // on a page
}

// Word is what stands above a finding's title.
func (f *Finding) Word() string { return cmp.Or(f.Tag, f.Severity.Words()) }
