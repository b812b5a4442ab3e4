package report

import (
	"cmp"
	_ "embed"
	"html/template"
	"io"
	"strings"
	"unicode/utf8"
)

// Sheet is an answer of sentences and tables, for a ticket.
type Sheet struct {
	Heading string // of the page, where there is no title
	Title   string // the user's
	Verdict string
	Notes   []Note // the user's
	Parts   []SheetPart
	Tool    string
}

// SheetPart has sentences, then a table. In the table all columns but the first and
// the last are numbers.
type SheetPart struct {
	Heading string // "" for none
	Text    []string
	List    bool // the sentences are a list's
	Head    []string
	Rows    [][]string
}

// SheetText writes a sheet for a terminal, its parts without headings.
func SheetText(w io.Writer, s *Sheet, style Style) error {
	if style.Width <= 0 {
		style.Width = 100
	}
	style.Width = max(style.Width, 40)
	t := &text{w: w, style: style}
	t.verdict(&Document{Title: s.Title, Notes: s.Notes, Verdict: Verdict{Severity: Info, Text: s.Verdict}})
	if style.Quiet {
		return t.err
	}
	for _, p := range s.Parts {
		t.line("")
		mark := "  "
		if p.List {
			mark = "  - "
		}
		for _, text := range p.Text {
			t.wrap(mark, Printable(text))
		}
		t.table(&p)
	}
	return t.err
}

func (t *text) table(p *SheetPart) {
	if len(p.Rows) == 0 {
		return
	}
	var rows [][]string
	widths := make([]int, len(p.Head))
	for _, cells := range append([][]string{p.Head}, p.Rows...) {
		row := make([]string, len(cells))
		for i, cell := range cells {
			row[i] = Printable(cell)
			widths[i] = max(widths[i], utf8.RuneCountInString(row[i]))
		}
		rows = append(rows, row)
	}
	for _, row := range rows {
		line := "  "
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if p.number(i) {
				line += pad + cell + "  "
			} else {
				line += cell + pad + "  "
			}
		}
		t.line("%s", line)
	}
}

// number tells whether a column is one of numbers.
func (p *SheetPart) number(column int) bool { return 0 < column && column < len(p.Head)-1 }

// SheetMarkdown writes a sheet short enough for a ticket.
func SheetMarkdown(w io.Writer, s *Sheet) error {
	m := &markdownWriter{w: w}
	if s.Title != "" {
		m.line("## %s\n", Prose(s.Title))
	}
	m.line("**%s**\n", Prose(s.Verdict))
	for _, n := range s.Notes {
		m.line("- %s: %s", Prose(n.Key), Prose(n.Value))
	}
	for _, p := range s.Parts {
		if p.Heading != "" {
			m.line("\n#### %s", Prose(p.Heading))
		}
		if p.List {
			m.line("")
		}
		for _, text := range p.Text {
			if p.List {
				m.line("- %s", Prose(text))
			} else {
				m.line("\n%s", Prose(text))
			}
		}
		m.table(&p)
	}
	m.line("\n<sub>%s</sub>", Prose(s.Tool))
	return m.err
}

func (m *markdownWriter) table(p *SheetPart) {
	if len(p.Rows) == 0 {
		return
	}
	m.line("")
	m.cells(p.Head)
	m.line("|---|%s---|", strings.Repeat("---:|", len(p.Head)-2))
	for _, row := range p.Rows {
		m.cells(row)
	}
}

func (m *markdownWriter) cells(row []string) {
	cells := make([]string, len(row))
	for i, cell := range row {
		cells[i] = Prose(cell)
	}
	m.row(cells...)
}

//go:embed sheet.html
var sheetPage string

// SheetHTML writes a sheet as one page that loads nothing and runs nothing.
func SheetHTML(w io.Writer, s *Sheet) error {
	page, err := plainPage(sheetPage, template.FuncMap{"number": func(p SheetPart, column int) bool { return p.number(column) }})
	if err != nil {
		return err
	}
	return page.Execute(Shown{w}, struct {
		*Sheet
		Head plainHead
	}{s, newPlainHead(cmp.Or(s.Title, s.Heading))})
}
