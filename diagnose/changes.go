package diagnose

import (
	"cmp"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/report"
)

// From which percentages of a peak on changes are worth a word.
const (
	atAll      = 1  // any, where memory is short
	forNothing = 10 // one that costs nothing, in a run that fits
	atAPrice   = 20 // one that costs something there
)

// changesOf are what is worth changing about a device, the best first: what makes a run go
// through that failed, then what stops a growth, then what saves most of the peak that it changes most.
func changesOf(d *report.Device) []report.Change {
	out := []report.Change{}
	seen := map[string]bool{}
	add := func(c report.Change) {
		if c.FixID != nil && *c.FixID == "leak=fixed" && !ofLeak(d, &c) {
			return
		}
		if c.FixID != nil && !seen[*c.FixID] {
			seen[*c.FixID] = true
			goesThrough(d, &c)
			out = append(out, priced(d, c))
		}
	}
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Fix == nil || slight(d, f) && len(d.OOMs) == 0 {
			continue
		}
		c := report.Change{Outcome: f.Outcome, Text: *f.Fix, Code: f.Code, At: lineToChange(f), Finding: i}
		if worthwhile(d, f, &c) {
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
		return cmp.Or(cmp.Compare(standing(d, &a, a.Text == first), standing(d, &b, b.Text == first)), cmp.Compare(taken(d, &b),
			taken(d, &a)))
	})
	if i := slices.IndexFunc(out, func(c report.Change) bool { return outweighs(d, out, &c) }); i > 0 {
		c := out[i]
		out = slices.Insert(slices.Delete(out, i, i+1), 0, c)
	}
	return out
}

// lineToChange is the statement that keeps a leak, where it's known, else the line that the finding is about.
func lineToChange(f *report.Finding) *report.Place {
	if f.Leak == nil || f.Leak.Stored() == nil || f.At == nil {
		return f.At
	}
	return f.Leak.Stored()
}

// priced is a change with what it costs, and what becomes of each peak.
func priced(d *report.Device, c report.Change) report.Change {
	a := advice.Find(*c.FixID)
	if c.Cost = advice.Cost(*c.FixID); isDefect(&d.Findings[c.Finding]) {
		c.Cost = report.Free // to mend a mistake costs nothing
	}
	c.Price = a.Price
	if c.Reserved {
		c.ReservedBefore, c.ReservedAfter = c.PeakBefore, c.PeakAfter
		return c
	}
	c.AllocatedBefore, c.AllocatedAfter = c.PeakBefore, c.PeakAfter
	if r := c.ReservedPeak; r.Before > 0 {
		c.ReservedBefore, c.ReservedAfter = &r.Before, &r.After
	}
	return c
}

// taken is what a change takes off the peak that it changes most: allocated, or reserved memory, which fills the GPU. Where
// no figure is known, logits that dominate count as a whole.
func taken(d *report.Device, c *report.Change) int64 {
	most := max(c.Saves(), c.ReservedPeak.Before-c.ReservedPeak.After)
	if most == 0 && d.Findings[c.Finding].ID == "logits_dominate" {
		return d.AtPeak.Categories[classify.Logits.String()]
	}
	return most
}

// share is the same in percent of that peak.
func share(d *report.Device, c *report.Change) int64 {
	peak := d.Peaks.Allocated.Bytes
	if c.Reserved || c.Saves() < c.ReservedPeak.Before-c.ReservedPeak.After {
		peak = d.Peaks.Reserved.Bytes
	}
	return facts.Share(taken(d, c), peak)
}

// outweighs reports whether a free change saves so much that a small growth, which comes first else, can wait.
func outweighs(d *report.Device, all []report.Change, c *report.Change) bool {
	const times, least = 5, 20 // percent
	f := &d.Findings[all[0].Finding]
	return len(d.OOMs) == 0 && grows(f) && c.Cost == report.Free && share(d, c) >= least && taken(d, c) >= times*f.Leak.TotalBytes
}

// firstChange is the change that a verdict names; nil where a run fits that only what costs something would lower.
func firstChange(d *report.Device) *report.Change {
	if len(d.Changes) == 0 || d.Changes[0].Cost != report.Free && !facts.Scarce(d) {
		return nil
	}
	return &d.Changes[0]
}

// enough are the changes with which a run goes through, if there are any, those of which
// nobody knows, and those that cost nothing and meet the request with much to spare.
func enough(d *report.Device, all []report.Change) []report.Change {
	fits := func(c report.Change, does bool) bool { return c.Fits != nil && *c.Fits == does }
	if !slices.ContainsFunc(all, func(c report.Change) bool { return fits(c, true) }) {
		return all
	}
	return slices.DeleteFunc(all, func(c report.Change) bool {
		return fits(c, false) && !meets(d, &c) && !slices.ContainsFunc(d.Causes, func(x report.Cause) bool {
			return x.FixID != nil && *x.FixID == *c.FixID
		})
	})
}

// worthwhile reports whether a finding's change is worth a word.
func worthwhile(d *report.Device, f *report.Finding, c *report.Change) bool {
	least := int64(forNothing)
	switch failed := findingOf(d, "oom_") >= 0; {
	case strings.HasPrefix(f.ID, "oom_"), isDefect(f):
		return true
	case failed && c.Reserved: // what was tried of the allocator's settings is said of the failure
		return false
	case facts.Scarce(d):
		least = atAll
	case f.Confidence < 0.7 || f.FixID == nil:
		return false
	case advice.Cost(*f.FixID) != report.Free:
		least = atAPrice
	}
	return share(d, c) >= least
}

// findingOf is the first finding whose id begins so, -1 for none.
func findingOf(d *report.Device, prefix string) int {
	return slices.IndexFunc(d.Findings, func(f report.Finding) bool { return strings.HasPrefix(f.ID, prefix) })
}

// goesThrough tells of a change that no replay knows whether a run which failed goes through with what it leaves.
func goesThrough(d *report.Device, c *report.Change) {
	if len(d.OOMs) == 0 || c.PeakAfter == nil || c.Reserved || c.Answer != "" {
		return
	}
	o := &d.OOMs[len(d.OOMs)-1]
	r := replay.Room{Most: usable(d, o), Changed: true, Part: 1}
	if o.Verdict == report.MemoryFraction {
		r.Most = o.ReservedBytes
	}
	r.Left = r.Most - *c.PeakAfter
	r.LeftThen = r.Left
	if x := d.Projection; x != nil && x.Missed(classify.Gradients.String()) > 0 {
		r.After.Likely = x.NeedsBytes - *c.PeakBefore
	} else if x != nil {
		r.After.Layers = x.NeedsBytes - *c.PeakBefore
	}
	c.Settle(r.Answer())
}

// ofLeak makes a change that fixes a leak that of the finding about it; false where that one has a change that isn't replayed.
func ofLeak(d *report.Device, c *report.Change) bool {
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Fix == nil || f.Leak == nil || !f.Leak.Defect || f.Leak.Kind == classify.GradientsKept {
			continue
		}
		if own := d.Findings[c.Finding].Fix; own == nil || c.Text != *own || c.Text == advice.Find(*c.FixID).Text {
			c.Text = *f.Fix
		}
		answer := c.Answer
		c.Outcome, c.Code, c.At, c.Finding = f.Outcome, f.Code, lineToChange(f), i
		if c.Answer == "" {
			c.Settle(answer)
		}
		return true
	}
	return !slices.ContainsFunc(d.Findings, func(f report.Finding) bool { return f.Kind == report.MadeAgain })
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
	case first, grows(f):
		return 0
	case isDefect(f), c.Cost == report.Free:
		return 1
	}
	return 2
}

// standingOfFailed is the same of a run that failed: what it goes through with comes first, of that the end of a growth
// that holds most of the memory, and what asks for more hardware last. What costs nothing and meets the request comes before
// what costs something.
func standingOfFailed(d *report.Device, f *report.Finding, c *report.Change, first bool) int {
	free := c.Cost == report.Free
	switch {
	case caused(d, c): // what else helps only puts the failure off
		return 0
	case c.Fits == nil || !*c.Fits:
		if meets(d, c) && !grows(f) && !isSetting(c) {
			return 3
		}
		return 7 + standingOfRest(d, f, c, first)
	case free && first:
		return 1
	case free && !(isSetting(c) && slices.ContainsFunc(d.Findings, func(f report.Finding) bool { return grows(&f) })):
		return 2
	case *c.FixID == "sharding":
		return 6
	case first:
		return 4
	}
	return 5
}

// isSetting reports whether a change is of the allocator's settings: it helps one request, and not the rest.
func isSetting(c *report.Change) bool { return strings.Contains(*c.FixID, ":") }

// standingOfRest ranks changes with which a run may fail again.
func standingOfRest(d *report.Device, f *report.Finding, c *report.Change, first bool) int {
	switch {
	case c.Answer == words.Meets && c.Cost == report.Free && (!isSetting(c) || stepped(d)):
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

// stepped reports whether steps went through before the failure, so that as much fitted already.
func stepped(d *report.Device) bool {
	return len(d.Steps) > 0 && d.Steps[0].LastEvent < d.OOMs[len(d.OOMs)-1].Event
}

// meets reports whether a change that costs nothing meets the request that failed with much to spare, though the run may
// still fail later.
func meets(d *report.Device, c *report.Change) bool {
	return c.Cost == report.Free && (c.Answer == words.Meets || c.Answer == words.MeetsThenFails) && share(d, c) >= forNothing
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
