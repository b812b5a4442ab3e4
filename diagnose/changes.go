package diagnose

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/report"
)

// From which percentages of the peak on changes are worth a word.
const (
	atAll      = 1  // any
	forNothing = 20 // one that costs nothing, in a run that fits
)

// changesOf are what is worth changing about a device, the best first: what makes a run go
// through that failed, then what stops a growth, then what saves most. A run that fits and
// has no mistake gets one at most, if it costs nothing.
func changesOf(d *report.Device, scarce bool) []report.Change {
	out := []report.Change{}
	seen := map[string]bool{}
	add := func(c report.Change) {
		if c.FixID != nil && *c.FixID == "leak=fixed" {
			ofLeak(d, &c)
		}
		if c.FixID != nil && !seen[*c.FixID] {
			seen[*c.FixID] = true
			goesThrough(d, &c)
			out = append(out, c)
		}
	}
	healthy := !scarce
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Fix == nil || slight(d, f) && len(d.OOMs) == 0 {
			continue
		}
		healthy = healthy && !isDefect(f)
		c := report.Change{Outcome: f.Outcome, Text: *f.Fix, Code: f.Code, At: f.At, Finding: i}
		if worthwhile(d, f, &c, scarce) {
			add(c)
		}
		for _, o := range f.Others {
			o.Finding = i
			add(o)
		}
	}
	first := ""
	if findingOf(d, "oom_") >= 0 && len(out) > 0 {
		first = out[0].Text // what was weighed where the failure is
	}
	out = enough(d, out)
	slices.SortStableFunc(out, func(a, b report.Change) int {
		return cmp.Or(cmp.Compare(standing(d, &a, a.Text == first), standing(d, &b, b.Text == first)), cmp.Compare(b.Saves(),
			a.Saves()))
	})
	if healthy && len(out) > 1 {
		out = out[:1]
	}
	return out
}

// enough are the changes with which a run goes through, if there are any, and those of which
// nobody knows.
func enough(d *report.Device, all []report.Change) []report.Change {
	fits := func(c report.Change, does bool) bool { return c.Fits != nil && *c.Fits == does }
	if !slices.ContainsFunc(all, func(c report.Change) bool { return fits(c, true) }) {
		return all
	}
	return slices.DeleteFunc(all, func(c report.Change) bool { return fits(c, false) && !caused(d, &c) })
}

// worthwhile reports whether a finding's change is worth a word.
func worthwhile(d *report.Device, f *report.Finding, c *report.Change, scarce bool) bool {
	share := facts.Share(c.Saves(), d.Peaks.Allocated.Bytes)
	switch failed := findingOf(d, "oom_") >= 0; {
	case strings.HasPrefix(f.ID, "oom_"), isDefect(f):
		return true
	case failed && c.Reserved: // what was tried of the allocator's settings is said of the failure
		return false
	case scarce:
		return share >= atAll
	}
	return f.Confidence >= 0.7 && share >= forNothing && f.FixID != nil && !advice.Costs(*f.FixID)
}

// findingOf is the first finding whose id begins so, -1 for none.
func findingOf(d *report.Device, prefix string) int {
	return slices.IndexFunc(d.Findings, func(f report.Finding) bool { return strings.HasPrefix(f.ID, prefix) })
}

// goesThrough tells of a change that leaves ample room that a run which failed goes
// through with it.
func goesThrough(d *report.Device, c *report.Change) {
	const ample = 80 // percent of what there is
	if len(d.OOMs) == 0 || c.PeakAfter == nil || c.Reserved {
		return
	}
	o := &d.OOMs[len(d.OOMs)-1]
	room := usable(d, o)
	if o.Verdict == report.MemoryFraction {
		room = o.ReservedBytes
	}
	x, share := d.Projection, facts.Share(*c.PeakAfter, room)
	c.Meets = room > 0 && share <= 100
	if c.Fits == nil && (share > 100 || share <= ample && (x == nil || x.NeedsBytes <= room)) {
		c.Fits = &c.Meets
	}
}

// ofLeak makes a change that fixes a leak that of the finding about it.
func ofLeak(d *report.Device, c *report.Change) {
	for i := range d.Findings {
		f := &d.Findings[i]
		if !grows(f) {
			continue
		}
		if own := d.Findings[c.Finding].Fix; own == nil || c.Text != *own || c.Text == advice.Find(*c.FixID).Text {
			c.Text = *f.Fix
		}
		fits := c.Fits
		c.Outcome, c.Code, c.At, c.Finding = f.Outcome, f.Code, f.At, i
		if c.Fits == nil {
			c.Fits = fits
		}
		return
	}
}

// caused reports whether a change mends what a request failed for.
func caused(d *report.Device, c *report.Change) bool {
	return len(d.OOMs) > 0 && len(d.Causes) > 0 && d.Causes[0].FixID != nil && *d.Causes[0].FixID == *c.FixID
}

// standing ranks changes that aren't told apart by what they save.
func standing(d *report.Device, c *report.Change, first bool) int {
	f := &d.Findings[c.Finding]
	if len(d.OOMs) > 0 {
		return standingOfFailed(d, f, c, first)
	}
	switch {
	case first:
		return 0
	case grows(f):
		return 1
	case isDefect(f):
		return 2
	}
	return 3
}

// standingOfFailed is the same of a run that failed: what it goes through with comes first, of that the end of a growth
// that holds most of the memory, and what asks for more hardware last.
func standingOfFailed(d *report.Device, f *report.Finding, c *report.Change, first bool) int {
	const rest = 4
	switch {
	case caused(d, c): // what else helps only puts the failure off
		return 0
	case c.Fits == nil || !*c.Fits:
		return rest + standingOfRest(f, c, first)
	case *c.FixID == "sharding":
		return 3
	case first:
		return 1
	}
	return 2
}

// standingOfRest ranks changes with which a run may fail again: what costs nothing first.
func standingOfRest(f *report.Finding, c *report.Change, first bool) int {
	switch {
	case c.Meets && !advice.Costs(*c.FixID):
		return 0
	case first, grows(f):
		return 1
	case isDefect(f):
		return 2
	case c.Fits == nil && *c.FixID != "sharding":
		return 3
	}
	return 4
}

// isDefect reports whether a finding is of a mistake in the program that is sure enough.
func isDefect(f *report.Finding) bool {
	leaks := f.Leak != nil && f.Leak.Defect && !f.Leak.Suspected
	return f.Fix != nil && (leaks || f.ID == "missing_no_grad" || f.Kind == report.MadeAgain)
}

// slight reports whether a leak is too small for a headline, or a first change.
func slight(d *report.Device, f *report.Finding) bool {
	return f.Leak != nil && f.Leak.Defect && f.Leak.TotalBytes*50 < d.Peaks.Allocated.Bytes
}

// grows reports whether a finding is of memory that comes on top in every step.
func grows(f *report.Finding) bool {
	return isDefect(f) && f.Leak != nil && (f.Leak.Kind == classify.GrowingList || f.Leak.Kind == classify.RetainedGraph)
}
