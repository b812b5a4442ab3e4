package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
)

// How much of a comparison is shown; the JSON form has all of it.
const (
	diffSites = 15
	diffSteps = 12
)

// Signed is a difference with its sign.
func Signed(n int64) string {
	if n > 0 {
		return "+" + units.Bytes(n)
	}
	return units.Bytes(n)
}

// CategoryWords is a category within a sentence.
func CategoryWords(category string) string { return strings.ReplaceAll(category, "_", " ") }

// Name is a call site in a few words, with its later line.
func (s *DiffSite) Name() string {
	site := Site{Function: s.Function, File: s.File, Line: s.AfterLine, Op: s.Op, Known: s.Known, Older: s.Older}
	if s.AfterLine == nil {
		site.Line = s.BeforeLine
	}
	return site.Short()
}

// moved is where a line was, when it isn't there any more; "" else.
func moved(before, after *int) string {
	if before == nil || after == nil || *before == *after {
		return ""
	}
	return fmt.Sprintf("line %d before", *before)
}

// detail is what a site's name leaves out.
func (s *DiffSite) detail() string {
	var parts []string
	if s.Op != "" && s.Function != "" {
		parts = append(parts, s.Op)
	}
	if f := s.CalledFrom; f != nil {
		line := f.AfterLine
		if line == nil {
			line = f.BeforeLine
		}
		parts = append(parts, "from "+strings.TrimSpace(f.Function+" "+shortPlace(f.File, line)))
	}
	switch {
	case s.In == InAfter:
		parts = append(parts, "new")
	case s.In == InBefore:
		parts = append(parts, "gone")
	case s.OlderIn != "":
		if s.Sites > 1 {
			parts = append(parts, "and "+units.Plural(s.Sites-1, "smaller site"))
		}
		parts = append(parts, "made before the "+map[DiffOccurrence]string{InBefore: "first", InAfter: "second"}[s.OlderIn]+
			" recording")
	default:
		if m := moved(s.BeforeLine, s.AfterLine); m != "" {
			parts = append(parts, m)
		}
	}
	return strings.Join(parts, ", ")
}

// relative is a change as a share of what was before, "" when nothing was.
func (s DiffSize) relative() string {
	if s.Before <= 0 {
		return ""
	}
	return fmt.Sprintf("%+.1f %%", 100*float64(s.Change())/float64(s.Before))
}

// peakRows are the four peaks in the order of every table.
func (d *Diff) peakRows() []diffRow {
	var rows []diffRow
	for _, name := range []string{"allocated", "requested", "active", "reserved"} {
		rows = append(rows, diffRow{"peak " + name, d.Peaks[name]})
	}
	return rows
}

// diffRow is one line of a table.
type diffRow struct {
	Name string
	DiffSize
}

// Relative is the change as a share, for templates.
func (r diffRow) Relative() string { return r.relative() }

// categoryRows are the categories that hold anything, largest change first.
func (d *Diff) categoryRows() []diffRow {
	var rows []diffRow
	for _, c := range d.Categories {
		if c.Before != 0 || c.After != 0 {
			rows = append(rows, diffRow{CategoryTitle(c.Category), c.DiffSize})
		}
	}
	slices.SortStableFunc(rows, func(a, b diffRow) int {
		return cmp.Compare(max(b.Change(), -b.Change()), max(a.Change(), -a.Change()))
	})
	return rows
}

// changedSites are the sites to show, and how many changed besides them.
func (d *Diff) changedSites() (shown []DiffSite, others int, rest DiffSize) {
	for i, s := range d.Sites {
		switch {
		case s.Change() == 0:
			continue
		case len(shown) < diffSites:
			shown = append(shown, d.Sites[i])
		default:
			others++
			rest.Before, rest.After = rest.Before+s.BeforeBytes, rest.After+s.AfterBytes
		}
	}
	return shown, others, rest
}

// sameSites is how many call sites hold the same in both, and how much.
func (d *Diff) sameSites() (n int, bytes int64) {
	for i := range d.Sites {
		if s := &d.Sites[i]; s.Change() == 0 {
			n++
			bytes += s.AfterBytes
		}
	}
	return n, bytes
}

// sameText says what the sites that didn't change hold.
func (d *Diff) sameText() string {
	n, bytes := d.sameSites()
	verb := "hold"
	if n == 1 {
		verb = "holds"
	}
	return fmt.Sprintf("%s %s the same (%s)", units.Plural(n, "site"), verb, units.Bytes(bytes))
}

// label is the number of a step, or both where the two are numbered apart.
func (s *DiffStep) label() string {
	if s.BeforeStep == nil || s.AfterStep == nil || *s.BeforeStep == *s.AfterStep {
		return units.Count(s.Step)
	}
	return units.Count(*s.BeforeStep) + " / " + units.Count(*s.AfterStep)
}

// stepRows are the steps to show: all of a few, else the first and the last.
func (d *Diff) stepRows() (head, tail []DiffStep) {
	if len(d.Steps) <= diffSteps {
		return d.Steps, nil
	}
	return d.Steps[:diffSteps/2], d.Steps[len(d.Steps)-diffSteps/2:]
}

// what is one side in words.
func (s *DiffSide) what() string {
	out := fmt.Sprintf("device %d, %s", s.Device, map[string]string{"complete": "history complete",
		"late": "recording began late", "overflowed": "oldest events lost", "none": "no history"}[s.History])
	if s.Era != nil {
		out += ", PyTorch " + *s.Era + " style"
	}
	return out
}

// heading says which instants the tables compare.
func (d *Diff) heading() string {
	at := func(s *DiffSide) string {
		if s.Event == nil || s.Moment != "peak" {
			return "the " + s.Moment
		}
		return "its peak (event " + units.Count(*s.Event) + ")"
	}
	return fmt.Sprintf("%s at %s before, %s at %s after", units.Bytes(d.Before.Allocated), at(&d.Before),
		units.Bytes(d.After.Allocated), at(&d.After))
}
