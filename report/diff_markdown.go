package report

import (
	"io"

	"github.com/vramscope/vramscope/internal/units"
)

// DiffMarkdown writes a comparison short enough for a ticket.
func DiffMarkdown(w io.Writer, d *Diff) error {
	m := &markdownWriter{w: w}
	if d.Title != "" {
		m.line("## %s\n", Prose(d.Title))
	}
	m.verdict(&d.Verdict)
	for _, n := range d.Notes {
		m.line("- %s: %s", Prose(n.Key), Prose(n.Value))
	}
	for _, c := range d.Caveats {
		m.line("- %s", Prose(c))
	}
	m.line("\n| | Before | After | Change | |\n|---|---:|---:|---:|---:|")
	m.diffRows(d.peakRows())
	m.line("\n#### By category: %s\n", Prose(d.heading()))
	m.line("| Category | Before | After | Change | |\n|---|---:|---:|---:|---:|")
	m.diffRows(d.categoryRows())
	m.changed(d)
	m.steps(d)
	m.line("\n#### Compared\n")
	m.line("| | Input | | Size | SHA-256 |\n|---|---|---|---:|---|")
	for i, s := range []*DiffSide{&d.Before, &d.After} {
		m.row([]string{"before", "after"}[i], code(s.Path), Prose(s.what()), units.Bytes(s.Bytes), code(s.SHA256))
	}
	m.line("\n<sub>%s</sub>", Prose(d.Tool))
	return m.err
}

func (m *markdownWriter) diffRows(rows []diffRow) {
	for _, r := range rows {
		m.row(Prose(r.Name), units.Bytes(r.Before), units.Bytes(r.After), Signed(r.Change()), r.relative())
	}
}

func (m *markdownWriter) changed(d *Diff) {
	shown, others, rest := d.changedSites()
	m.line("\n#### By call site: %s\n", d.sameText())
	if len(shown) == 0 {
		return
	}
	m.line("| Call site | | Category | Before | After | Change |\n|---|---|---|---:|---:|---:|")
	for i := range shown {
		s := &shown[i]
		m.row(code(s.Name()), Prose(s.detail()), categoryOf(s.Category), units.Bytes(s.BeforeBytes), units.Bytes(s.AfterBytes),
			Signed(s.Change()))
	}
	if others > 0 {
		m.row(units.Plural(others, "other call site"), "", "", units.Bytes(rest.Before), units.Bytes(rest.After),
			Signed(rest.Change()))
	}
}

func (m *markdownWriter) steps(d *Diff) {
	if len(d.Steps) == 0 {
		return
	}
	m.line("\n#### By step: peak of allocated memory\n")
	m.line("| Step | Before | After | Change |\n|---:|---:|---:|---:|")
	head, tail := d.stepRows()
	row := func(s *DiffStep) { m.row(s.label(), bytesOr(s.Before), bytesOr(s.After), s.change()) }
	for i := range head {
		row(&head[i])
	}
	if tail != nil {
		m.row("…", "", "", "")
	}
	for i := range tail {
		row(&tail[i])
	}
}
