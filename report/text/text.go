// Package text writes a sheet for a terminal.
package text

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"

	pretty "github.com/jedib0t/go-pretty/v6/text"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
)

// Style is how the terminal wants its text.
type Style struct {
	Width   int  // columns; 0: 100
	Color   bool // ANSI colours
	Quiet   bool // the verdict alone
	Verbose bool // all of it
}

// writer writes lines and remembers the first error.
type writer struct {
	w     io.Writer
	style Style
	err   error
}

// Write writes a sheet.
func Write(w io.Writer, s *view.Sheet, style Style) error {
	if style.Width <= 0 {
		style.Width = 100
	}
	style.Width = max(style.Width, 40)
	narrow()
	t := &writer{w: w, style: style}
	if style.Quiet && s.Short != "" {
		t.line("%s", view.Printable(s.Short))
		return t.err
	}
	t.verdict(s)
	if style.Quiet {
		return t.err
	}
	for _, c := range s.Caveats {
		t.wrap("  note: ", c)
	}
	for i := range s.Parts {
		t.part(&s.Parts[i])
	}
	return t.err
}

func (t *writer) verdict(s *view.Sheet) {
	if s.Title != "" {
		t.line("%s", t.paint(report.Info, view.Printable(s.Title)))
	}
	for _, n := range s.Notes {
		t.line("%s: %s", view.Printable(n.Key), view.Printable(n.Value))
	}
	if s.Above != "" {
		t.line("%s", t.paint(report.Info, view.Printable(s.Above)))
	}
	t.wrapPainted(cmp.Or(s.Verdict.Severity, report.Info), "", units.Rounded(s.Verdict.Text))
	if s.Verdict.Fix != nil && (t.style.Quiet || !s.Changes) {
		t.wrap("  First change: ", units.Rounded(*s.Verdict.Fix)+view.VerdictEffect(&s.Verdict))
	}
}

func (t *writer) part(p *view.Part) {
	if p.Heading != "" || p.Bare {
		t.line("")
	}
	if p.Heading != "" && !p.Bare {
		t.line("%s", t.paint(report.Info, view.Printable(p.Heading)))
	}
	mark := "  "
	if p.List {
		mark = "  - "
	}
	for _, s := range p.Text {
		t.wrap(mark, s)
	}
	for _, f := range p.Facts {
		t.wrap(fmt.Sprintf("  %-16s ", view.Printable(f.Name)), f.Text)
	}
	if len(p.Rows) > 0 {
		t.table(&p.Table)
	}
	for i := range p.Findings {
		t.finding(&p.Findings[i])
	}
	if p.Rest != "" {
		t.wrap("  ", p.Rest)
	}
	if p.Plot != nil {
		t.plot(p.Plot)
	}
}

func (t *writer) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintln(t.w, strings.TrimRight(fmt.Sprintf(format, args...), " "))
	}
}

// wrap writes text broken at spaces, later lines indented like the first's text.
func (t *writer) wrap(prefix, s string) { t.wrapPainted("", prefix, s) }

// wrapPainted does so with each line in a severity's colour.
func (t *writer) wrapPainted(severity report.Severity, prefix, s string) {
	indent := strings.Repeat(" ", columns(prefix))
	room := max(t.style.Width-len(indent), 20)
	text := view.Printable(s)
	for {
		cut, space := fitting(text, room)
		if cut == len(text) {
			break
		}
		if space > 0 {
			cut = space
		}
		t.line("%s%s", prefix, t.paint(severity, text[:cut]))
		text = strings.TrimLeft(text[cut:], " ")
		prefix = indent
	}
	t.line("%s%s", prefix, t.paint(severity, text))
}

// fitting is how many bytes of a text fit into a row, and where the last space of those stands
// or the one right after them; 0: there is none.
func fitting(text string, room int) (cut, space int) {
	width := 0
	for i, r := range text {
		if r == ' ' {
			space = i
		}
		if width += pretty.RuneWidth(r); width > room {
			return max(i, 1), space
		}
	}
	return len(text), space
}

var ansi = map[report.Severity]string{report.Critical: "\x1b[1;31m", report.Warning: "\x1b[1;33m", report.Info: "\x1b[1m"}

func (t *writer) paint(s report.Severity, text string) string {
	if !t.style.Color || s == "" {
		return text
	}
	return ansi[s] + text + "\x1b[0m"
}

// columns is the room that text takes on a terminal, where colours take none and some
// characters two.
func columns(s string) int { return pretty.StringWidthWithoutEscSequences(s) }

// narrow has characters that are wide in some places only be narrow everywhere: the same
// report is the same text.
var narrow = sync.OnceFunc(func() { pretty.OverrideRuneWidthEastAsianWidth(false) })

// table writes the rows, a column without a width as wide as its widest cell.
func (t *writer) table(x *view.Table) {
	rows := x.Rows
	if !x.NoHead {
		head := view.Row{}
		for _, c := range x.Columns {
			head.Cells = append(head.Cells, view.Cell{{Text: lower(c.Name)}})
		}
		rows = append([]view.Row{head}, rows...)
	}
	widths := make([]int, len(x.Columns))
	for i, c := range x.Columns {
		widths[i] = c.Width
		for k := range rows {
			if c.Width == 0 && i < len(rows[k].Cells) {
				widths[i] = max(widths[i], columns(view.Printable(rows[k].Cells[i].String())))
			}
		}
	}
	for _, row := range rows {
		line, last := t.row(x.Columns, widths, row.Cells)
		if x.Wrap {
			t.wrap(line, last)
		} else {
			t.line("%s%s", line, last)
		}
		for _, n := range row.Notes {
			t.wrap("    "+view.Printable(n.Name), n.Text)
		}
	}
}

// row is the cells in their columns, and apart from them a last one of words.
func (t *writer) row(cols []view.Column, widths []int, cells []view.Cell) (line, last string) {
	line = " "
	for i, cell := range cells {
		c, text := &cols[i], view.Printable(cell.String())
		if c.Paper {
			continue
		}
		pad := strings.Repeat(" ", max(0, widths[i]-columns(text)))
		line += strings.Repeat(" ", c.Gap+1)
		switch {
		case i == len(cells)-1 && !c.Number:
			last = text
		case c.Number:
			line += pad + text
		default:
			line += text + pad
		}
	}
	return line, last
}

// lower is a heading within a line, unless it's an abbreviation.
func lower(s string) string {
	runes := []rune(s)
	if len(runes) < 2 || unicode.IsUpper(runes[1]) {
		return s
	}
	runes[0] = unicode.ToLower(runes[0])
	return string(runes)
}

func (t *writer) finding(f *view.Finding) {
	mark := map[report.Severity]string{report.Critical: "!!", report.Warning: "! ", report.Info: "- "}[f.Severity]
	t.wrap("  "+t.paint(f.Severity, mark)+" ", f.Title)
	for _, e := range f.Evidence {
		t.wrap("       ", e)
	}
	if f.Sure != "" {
		t.wrap("       ", f.Sure)
	}
	if f.Change != "" {
		t.wrap("     > ", f.Change+f.Gain)
	}
	if f.Code != "" {
		for _, l := range strings.Split(strings.TrimRight(f.Code, "\n"), "\n") {
			t.line("       | %s", l)
		}
	}
}
