// Package markdown writes a sheet for a ticket, in GitHub's dialect: what is in
// a file's names never becomes markup, a mention or a reference.
package markdown

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/report/view"
)

// writer writes lines and remembers the first error.
type writer struct {
	w   io.Writer
	err error
}

// Write writes a sheet.
func Write(w io.Writer, s *view.Sheet) error {
	m := &writer{w: w}
	if s.Title != "" {
		m.line("## %s\n", prose(s.Title))
	}
	m.verdict(s.Above, &s.Verdict)
	if len(s.Notes)+len(s.Caveats) > 0 {
		m.line("")
	}
	for _, n := range s.Notes {
		m.line("- %s: %s", prose(n.Key), prose(n.Value))
	}
	for _, c := range s.Caveats {
		m.line("- %s", prose(c))
	}
	open := false
	for i := range s.Parts {
		p := s.Parts[i]
		if s.Folded > 0 && i >= s.Folded && (p.Level == 3 || !open) {
			if open {
				m.line("\n</details>")
			}
			m.line("\n<details><summary>%s</summary>", prose(cmp.Or(p.Heading, "More")))
			open, p.Heading = true, ""
		}
		m.part(&p)
	}
	if open {
		m.line("\n</details>")
	}
	m.line("\n<sub>%s</sub>", prose(s.Tool))
	return m.err
}

func (m *writer) line(format string, args ...any) {
	if m.err == nil {
		_, m.err = fmt.Fprintf(m.w, format+"\n", args...)
	}
}

var alerts = map[report.Severity]string{report.Critical: "CAUTION", report.Warning: "WARNING", report.Info: "NOTE"}

func (m *writer) verdict(above string, v *report.Verdict) {
	if v.Severity == "" {
		m.line("**%s**\n", prose(v.Text))
		return
	}
	m.line("> [!%s]", alerts[v.Severity])
	if above != "" {
		m.line("> %s\n>", prose(above))
	}
	m.line("> **%s**", prose(units.Rounded(v.Text)))
	if v.Fix != nil {
		m.line(">\n> First change: %s%s", prose(units.Rounded(*v.Fix)), view.VerdictEffect(v))
	}
}

func (m *writer) part(p *view.Part) {
	if p.Heading != "" {
		m.line("\n%s %s", strings.Repeat("#", p.Level), prose(p.Heading))
	}
	if p.Command != "" {
		m.fenced(map[bool]string{false: "sh", true: "python"}[p.Python], p.Command)
	}
	if p.List && len(p.Text) > 0 {
		m.line("")
	}
	for _, text := range p.Text {
		if p.List {
			m.line("- %s", prose(text))
		} else {
			m.line("\n%s", prose(text))
		}
	}
	m.facts(p.Facts)
	if len(p.Rows) > 0 {
		m.table(&p.Table)
	}
	m.findings(p.Findings)
	switch {
	case p.Rest != "" && len(p.Findings) > 0:
		m.line("- %s", prose(p.Rest))
	case p.Rest != "":
		m.line("\n%s", prose(p.Rest))
	}
}

// facts are a list, in which those without a name go on with the one before.
func (m *writer) facts(facts []view.Fact) {
	if len(facts) > 0 && facts[0].Name != "" {
		m.line("")
	}
	for _, f := range facts {
		if f.Name == "" {
			m.line("  - %s", prose(f.Text))
		} else {
			m.line("- %s: %s", prose(f.Name), prose(f.Text))
		}
	}
}

func (m *writer) table(t *view.Table) {
	head, rule := "|", "|"
	for _, c := range t.Columns {
		head += strings.TrimRight(" "+prose(c.Name), " ") + " |"
		rule += map[bool]string{true: "---:|", false: "---|"}[c.Number]
	}
	m.line("\n%s\n%s", head, rule)
	for _, row := range t.Rows {
		cells := make([]string, len(t.Columns))
		for i, c := range row.Cells {
			cells[i] = markup(c, t.Columns[i].Number)
		}
		m.line("| %s |", strings.Join(cells, " | "))
	}
}

// markup is a cell, whose pieces keep the spaces between them.
func markup(c view.Cell, number bool) string {
	var b strings.Builder
	for _, s := range c {
		switch inner := strings.TrimSpace(s.Text); {
		case s.Code:
			b.WriteString(code(s.Text))
		case len(c) == 1 && !number:
			b.WriteString(prose(s.Text))
		default:
			before, after, _ := strings.Cut(s.Text, inner)
			b.WriteString(before + inline(inner) + after)
		}
	}
	return b.String()
}

func (m *writer) findings(findings []view.Finding) {
	if len(findings) > 0 {
		m.line("")
	}
	for i := range findings {
		f := &findings[i]
		m.line("- **%s** (%s)", prose(f.Title), f.Word())
		for _, e := range f.Evidence {
			m.line("  - %s", prose(e))
		}
		for _, more := range []string{f.Rest, f.Sure} {
			if more != "" {
				m.line("  - %s", prose(more))
			}
		}
		if f.Change != "" {
			m.line("  - Change: %s", prose(f.Change+f.Gain))
		}
		if f.Code != "" {
			m.fenced("python", f.Code)
		}
	}
}

// fenced writes a block of code that its text can't end.
func (m *writer) fenced(language, text string) {
	lines := strings.Split(text, "\n")
	for i := range lines {
		lines[i] = view.Printable(lines[i])
	}
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	m.line("\n%s%s\n%s\n%s", fence, language, strings.Join(lines, "\n"), fence)
}
