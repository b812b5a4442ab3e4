package report

import (
	"io"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
)

// DiffText writes a comparison for a terminal.
func DiffText(w io.Writer, d *Diff, style Style) error {
	if style.Width <= 0 {
		style.Width = 100
	}
	style.Width = max(style.Width, 40)
	t := &text{w: w, style: style}
	t.verdict(&Document{Title: d.Title, Notes: d.Notes, Verdict: d.Verdict})
	if style.Quiet {
		return t.err
	}
	for _, c := range d.Caveats {
		t.wrap("  note: ", Printable(c))
	}
	t.line("")
	t.wrap("  before  ", Printable(d.Before.Path+" ("+d.Before.what()+")"))
	t.wrap("  after   ", Printable(d.After.Path+" ("+d.After.what()+")"))
	t.line("")
	t.line("  %-18s %12s %12s %13s %10s", "", "before", "after", "change", "")
	t.diffRows(d.peakRows())
	t.head("By category: %s", d.heading())
	t.diffRows(d.categoryRows())
	t.changed(d)
	t.diffSteps(d)
	return t.err
}

func (t *text) diffRows(rows []diffRow) {
	for _, r := range rows {
		t.line("  %-18s %12s %12s %13s %10s", Printable(r.Name), units.Bytes(r.Before), units.Bytes(r.After), Signed(r.Change()),
			r.relative())
	}
}

// changed lists the call sites that hold more or less.
func (t *text) changed(d *Diff) {
	shown, others, rest := d.changedSites()
	t.head("By call site: %s", d.sameText())
	if len(shown) > 0 {
		t.line("  %13s %12s %12s", "change", "before", "after")
	}
	for i := range shown {
		s := &shown[i]
		words := Printable(s.Name())
		if more := s.detail(); more != "" {
			words += "  (" + Printable(more) + ")"
		}
		category := ""
		if s.Category != nil {
			category = Printable(CategoryWords(*s.Category)) + strings.Repeat(" ", max(0, 16-len(*s.Category)))
		}
		t.wrap("  "+right(Signed(s.Change()), 13)+" "+right(units.Bytes(s.BeforeBytes), 12)+" "+right(units.Bytes(s.AfterBytes),
			12)+"   "+category, words)
	}
	if others > 0 {
		t.line("  %13s %12s %12s   in %s", Signed(rest.Change()), units.Bytes(rest.Before), units.Bytes(rest.After),
			units.Plural(others, "other call site"))
	}
}

func (t *text) diffSteps(d *Diff) {
	if len(d.Steps) == 0 {
		return
	}
	t.head("By step: peak of allocated memory")
	head, tail := d.stepRows()
	t.stepRows(head)
	if tail != nil {
		t.line("  %-18s", "…")
		t.stepRows(tail)
	}
}

func (t *text) stepRows(steps []DiffStep) {
	for _, s := range steps {
		t.line("  step %-13s %12s %12s %13s", s.label(), bytesOr(s.Before), bytesOr(s.After), s.change())
	}
}

// change is the difference, "" where one has no such step.
func (s *DiffStep) change() string {
	if s.Before == nil || s.After == nil {
		return ""
	}
	return Signed(*s.After - *s.Before)
}
