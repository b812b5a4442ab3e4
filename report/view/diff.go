package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// How much of a comparison is shown; the JSON form has all of it.
const (
	diffSites = 15
	diffSteps = 12
)

// Diff is a comparison as a sheet.
func Diff(d *report.Diff, e Edition) *Sheet {
	s := &sheet{Edition: e}
	peaks := differences("", 18)
	for _, kind := range []string{"allocated", "requested", "active", "reserved"} {
		peaks.change("peak "+kind, d.Peaks[kind])
	}
	s.add(Part{Bare: true, Heading: "Peaks", Level: 4, Table: peaks})
	categories := differences("Category", 18)
	for _, c := range byChange(d.Categories) {
		categories.change(report.CategoryTitle(c.Category), c.DiffSize).Category = c.Category
	}
	s.add(Part{Heading: "By category: " + compared(d), Level: 4, Table: categories})
	s.changedSites(d)
	s.changedSteps(d)
	t := Table{Columns: slices.Concat(words("", "Input", ""), numbers("Size"), words("SHA-256"))}
	t.Columns[1].Gap, t.Columns[2].Gap, t.Columns[4].Paper = 1, 1, true
	for i, x := range []*report.DiffSide{&d.Before, &d.After} {
		t.add([]string{"before", "after"}[i], Code(x.Path), what(x), units.Bytes(x.Bytes), Code(x.SHA256))
	}
	s.table("Compared", 4, t, "")
	return &Sheet{Heading: "What grew", Title: d.Title, Verdict: d.Verdict, Notes: d.Notes, Caveats: d.Caveats, Parts: s.parts,
		Tool: d.Tool}
}

// differences are columns of a size before and after, and the difference.
func differences(name string, width int) Table {
	return Table{Columns: []Column{textColumn(name, width), figureColumn("Before", 12), figureColumn("After", 12),
		{Name: "Change", Number: true, Signed: true, Width: 13}, figureColumn("", 10)}}
}

func (t *Table) change(name string, s report.DiffSize) *Row {
	return t.add(name, units.Bytes(s.Before), units.Bytes(s.After), units.Signed(s.Change()), when(s.Before > 0,
		fmt.Sprintf("%+.1f %%", 100*float64(s.Change())/float64(s.Before))))
}

// byChange are the categories that hold anything, largest change first.
func byChange(categories []report.DiffCategory) []report.DiffCategory {
	categories = slices.DeleteFunc(slices.Clone(categories), func(c report.DiffCategory) bool {
		return c.Before == 0 && c.After == 0
	})
	slices.SortStableFunc(categories, func(a, b report.DiffCategory) int {
		return cmp.Compare(units.Abs(b.Change()), units.Abs(a.Change()))
	})
	return categories
}

// compared says which instants the tables compare.
func compared(d *report.Diff) string {
	at := func(s *report.DiffSide) string {
		if s.Event == nil || s.Moment != "peak" {
			return "the " + s.Moment
		}
		return "its peak (event " + units.Count(*s.Event) + ")"
	}
	return fmt.Sprintf("%s at %s before, %s at %s after", units.Bytes(d.Before.Allocated), at(&d.Before),
		units.Bytes(d.After.Allocated), at(&d.After))
}

// what is one side in words.
func what(s *report.DiffSide) string {
	return list(fmt.Sprintf("device %d", s.Device), Histories[s.History], era(&s.Input))
}

// changedSites lists the call sites that hold more or less.
func (s *sheet) changedSites(d *report.Diff) {
	t := Table{Wrap: true, Columns: []Column{{Name: "Change", Number: true, Signed: true, Width: 13}, figureColumn("Before", 12),
		figureColumn("After", 12), {Name: "Category", Gap: 2, Width: 15}, {Name: "Call site", Leads: true}}}
	var same, rest report.DiffSize
	equal, others := 0, 0
	for i := range d.Sites {
		switch x := &d.Sites[i]; {
		case x.Change() == 0:
			equal++
			same.After += x.AfterBytes
		case len(t.Rows) == diffSites:
			others++
			rest.Before, rest.After = rest.Before+x.BeforeBytes, rest.After+x.AfterBytes
		default:
			detail := siteDetail(x)
			t.add(units.Signed(x.Change()), units.Bytes(x.BeforeBytes), units.Bytes(x.AfterBytes), kind(text(x.Category)),
				cell(Code(x.Name()), when(detail != "", "  ("+detail+")"))).Category = text(x.Category)
		}
	}
	if others > 0 {
		t.add(units.Signed(rest.Change()), units.Bytes(rest.Before), units.Bytes(rest.After), "", "in "+
			units.Plural(others, "other call site"))
	}
	s.add(Part{Level: 4, Table: t, Heading: fmt.Sprintf("By call site: %s hold%s the same (%s)", units.Plural(equal, "site"),
		when(equal == 1, "s"), units.Bytes(same.After))})
}

// siteDetail is what a site's name leaves out.
func siteDetail(s *report.DiffSite) string {
	var parts []string
	if s.Op != "" && s.Function != "" {
		parts = append(parts, s.Op)
	}
	if f := s.CalledFrom; f != nil {
		line := cmp.Or(f.AfterLine, f.BeforeLine)
		parts = append(parts, "from "+strings.TrimSpace(f.Function+" "+report.ShortPlace(f.File, line)))
	}
	switch {
	case s.In == report.InAfter:
		parts = append(parts, "new")
	case s.In == report.InBefore:
		parts = append(parts, "gone")
	case s.OlderIn != "":
		if s.Sites > 1 {
			parts = append(parts, "and "+units.Plural(s.Sites-1, "smaller site"))
		}
		parts = append(parts, "made before the "+map[report.DiffOccurrence]string{report.InBefore: "first",
			report.InAfter: "second"}[s.OlderIn]+" recording")
	case s.BeforeLine != nil && s.AfterLine != nil && *s.BeforeLine != *s.AfterLine:
		parts = append(parts, fmt.Sprintf("line %d before", *s.BeforeLine))
	}
	return strings.Join(parts, ", ")
}

// changedSteps are the steps' peaks: all of a few, else the first and the last.
func (s *sheet) changedSteps(d *report.Diff) {
	t := differences("Step", 18)
	t.Columns, t.Columns[0].Number, t.Columns[0].Leads = t.Columns[:4], true, true
	for i := range d.Steps {
		x := &d.Steps[i]
		if i == diffSteps/2 && len(d.Steps) > diffSteps {
			t.add("…")
		}
		if diffSteps/2 <= i && i < len(d.Steps)-diffSteps/2 {
			continue
		}
		label := units.Count(x.Step)
		if x.BeforeStep != nil && x.AfterStep != nil && *x.BeforeStep != *x.AfterStep {
			label = units.Count(*x.BeforeStep) + " before, " + units.Count(*x.AfterStep) + " after"
		}
		change := ""
		if x.Before != nil && x.After != nil {
			change = units.Signed(*x.After - *x.Before)
		}
		t.add(label, Known(x.Before), Known(x.After), change)
	}
	s.table("By step: peak of allocated memory", 4, t, "")
}
