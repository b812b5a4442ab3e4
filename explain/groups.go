package explain

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/cut"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

func (a *asking) category(text string) error {
	if !slices.Contains(report.Categories, text) {
		return fmt.Errorf("categories are %s", strings.Join(report.Categories, ", "))
	}
	x := &Category{Category: text, Group: a.group(a.all(func(id timeline.AllocationID) bool {
		return a.Classes.Category[id].String() == text
	})), Total: a.dev.AtPeak.AllocatedBytes}
	a.doc.Category = x
	a.doc.Answer = report.CategoryTitle(text) + ": " + a.groupText(&x.Group) + "."
	a.afterGroup(&x.Group)
	return nil
}

// groupText says how much some allocations are.
func (a *asking) groupText(g *Group) string {
	if g.Allocations == 0 {
		return "no allocation"
	}
	share := ""
	if whole := a.dev.AtPeak.AllocatedBytes; whole > 0 && g.PeakBytes > 0 {
		share = fmt.Sprintf(" (%s of what is allocated)", units.Percent(g.PeakBytes, whole))
	}
	return fmt.Sprintf("%s, %s at the peak in %s%s, %s at the end", units.Plural(g.Allocations, "allocation"),
		units.Bytes(g.PeakBytes), units.Plural(g.PeakBlocks, "block"), share, units.Bytes(g.EndBytes))
}

// afterGroup asks for the largest parts of a group.
func (a *asking) afterGroup(g *Group) {
	for i := range g.Sites[:min(2, len(g.Sites))] {
		a.nextSite(&g.Sites[i], "the line that holds most of it")
	}
	if len(g.Largest) > 0 {
		a.next("allocation", g.Largest[0].Allocation, "its largest allocation")
	}
	for _, d := range g.Rules[:min(2, len(g.Rules))] {
		if d.Rule != nil {
			a.next("rule", *d.Rule, "a rule that decided it")
		}
	}
	if c := largest(g.Categories); c != "" {
		a.next("category", c, "all "+report.CategoryWords(c))
	}
}

func (a *asking) rule(text string) error {
	n := slices.IndexFunc(classify.Rules(), func(r *rules.Rule) bool { return r.ID == text })
	if n < 0 {
		return fmt.Errorf("no such rule; `vramscope help rules` lists all")
	}
	r := classify.Rules()[n]
	x := &Rule{Rule: r.ID, About: flat(r.Doc), Signal: r.Signal.String(), Needs: []string{},
		Group: a.group(a.all(func(id timeline.AllocationID) bool { return int(a.Classes.Rule[id]) == n+1 }))}
	for _, need := range r.Needs {
		x.Needs = append(x.Needs, need.String())
	}
	a.doc.Rule = x
	a.doc.Answer = "Rule " + r.ID + " decided " + a.groupText(&x.Group) + ". " + r.Reason()
	a.afterGroup(&x.Group)
	return nil
}

// flat is a text without its line breaks.
func flat(text string) string { return strings.Join(strings.Fields(text), " ") }

func (a *asking) site(text string) error {
	i := strings.LastIndexByte(text, ':')
	if i <= 0 {
		return fmt.Errorf("give FILE:LINE, such as train.py:42")
	}
	line, err := strconv.Atoi(text[i+1:])
	if err != nil || line <= 0 {
		return fmt.Errorf("give FILE:LINE, such as train.py:42")
	}
	x := &Site{File: text[:i], Line: line, Functions: []string{}, Files: []string{}}
	on := a.framesAt(x)
	if on == nil {
		return a.noSuchLine(x)
	}
	holds := a.through(on)
	ids := a.all(func(id timeline.AllocationID) bool { return holds(a.T.Stack(id)) })
	for _, id := range ids {
		if a.innermost(a.T.Stack(id), on) {
			x.Innermost++
		}
	}
	x.Through = len(ids) - x.Innermost
	x.Group = a.group(ids)
	a.doc.Site = x
	a.doc.Answer = fmt.Sprintf("%s:%d (%s): %s.", report.ShortFile(x.Files[0]), line, strings.Join(x.Functions, ", "),
		a.groupText(&x.Group))
	if x.Through > 0 {
		a.doc.Answer += fmt.Sprintf(" %s were made by what the line called.", units.Count(x.Through))
	}
	for i := range a.dev.Leaks {
		if l := &a.dev.Leaks[i]; l.Line != nil && *l.Line == line && l.File != nil && *l.File == x.Files[0] {
			a.next("leak", i, "the leak that names this line")
		}
	}
	a.afterGroup(&x.Group)
	return nil
}

// framesAt are the frames of a line; nil where there are none. It notes the files that
// the name fits, and the functions.
func (a *asking) framesAt(x *Site) map[snapshot.FrameID]bool {
	s := a.T.Snapshot
	rooted := func(file string) string { return "/" + strings.TrimPrefix(strings.ReplaceAll(file, `\`, "/"), "/") }
	wanted := rooted(x.File)
	var on map[snapshot.FrameID]bool
	for i := range s.Frames {
		f := &s.Frames[i]
		file := s.String(f.File)
		if !strings.HasSuffix(rooted(file), wanted) {
			continue
		}
		if int(f.Line) != x.Line {
			if !slices.Contains(x.near, int(f.Line)) {
				x.near = append(x.near, int(f.Line))
			}
			continue
		}
		if on == nil {
			on = map[snapshot.FrameID]bool{}
		}
		on[snapshot.FrameID(i)] = true
		addOnce(&x.Files, clip(file))
		addOnce(&x.Functions, clip(s.String(f.Function)))
	}
	slices.SortFunc(x.near, func(p, q int) int {
		return cmp.Or(cmp.Compare(max(p-x.Line, x.Line-p), max(q-x.Line, x.Line-q)), cmp.Compare(p, q))
	})
	x.near, _ = first(x.near, maxBriefs)
	return on
}

// noSuchLine says which lines of a file allocate, where there are any.
func (a *asking) noSuchLine(x *Site) error {
	switch {
	case a.dev.Stacks == "none":
		return fmt.Errorf("the recording has no stacks")
	case len(x.near) == 0:
		return fmt.Errorf("no stack of the recording goes through a file of that name")
	}
	return fmt.Errorf("no stack goes through that line; through lines of the file near it: %s", report.Spans(x.near))
}

// through tells stacks that hold one of some frames, looking at each once.
func (a *asking) through(on map[snapshot.FrameID]bool) func(snapshot.StackID) bool {
	holds := make([]bool, a.T.Snapshot.NumStacks())
	for id := range holds {
		holds[id] = slices.ContainsFunc(a.T.Snapshot.Stack(snapshot.StackID(id)), func(f snapshot.FrameID) bool { return on[f] })
	}
	return func(id snapshot.StackID) bool { return id != 0 && holds[id] }
}

// innermost reports whether a stack's innermost line outside PyTorch is one of some frames.
func (a *asking) innermost(stack snapshot.StackID, on map[snapshot.FrameID]bool) bool {
	for _, f := range a.T.Snapshot.Stack(stack) {
		if owner := a.View.Owner(f); owner == frames.User || on[f] {
			return on[f]
		}
	}
	return false
}

func (a *asking) finding(text string) error {
	all := append(checks.Device(), checks.Elsewhere()...)
	i := slices.IndexFunc(all, func(c checks.Check) bool { return c.ID == text })
	x := &Finding{ID: text, Found: []report.Finding{}}
	if i >= 0 {
		x.About, x.Saves = flat(all[i].Doc), textOrNil(flat(all[i].Saves))
	}
	found := 0
	var others []string
	for _, f := range a.findings() {
		if f.ID != text {
			addOnce(&others, f.ID)
			continue
		}
		if found++; len(x.Found) < maxFound {
			x.Found = append(x.Found, bounded(*f))
		}
		a.afterFinding(f)
	}
	if i < 0 && found == 0 {
		return fmt.Errorf("no such finding; `vramscope help findings` lists all")
	}
	a.doc.Finding = x
	switch {
	case found == 0:
		a.doc.Answer = "The report has no finding " + text + "."
		for _, id := range others {
			a.next("finding", id, "a finding that the report has")
		}
	case found == 1:
		a.doc.Answer = x.Found[0].Title + "."
	default:
		a.doc.Answer = fmt.Sprintf("The report has %d findings %s; the first: %s.", found, text, x.Found[0].Title)
	}
	return nil
}

// bounded is a finding of which names and lines are no longer than need be.
func bounded(f report.Finding) report.Finding {
	const lines, letters = 12, 400
	f.Evidence = slices.Clone(f.Evidence[:min(len(f.Evidence), lines)])
	for i, line := range f.Evidence {
		f.Evidence[i] = cut.Letters(line, letters)
	}
	return f
}

func (a *asking) afterFinding(f *report.Finding) {
	if f.Leak != nil && a.dev != nil {
		for i := range a.dev.Leaks {
			if &a.dev.Leaks[i] == f.Leak {
				a.next("leak", i, "what is kept, and how it grows")
			}
		}
	}
	if strings.HasPrefix(f.ID, "oom_") && a.dev != nil && len(a.dev.OOMs) > 0 {
		a.next("oom", 0, "the failed request")
	}
	if f.At != nil {
		a.nextLine(f.At.File, f.At.Line, "the line that the finding names")
	}
	if a.dev == nil {
		return
	}
	for _, c := range report.Categories {
		if strings.Contains(f.ID, c) {
			a.next("category", c, "all "+report.CategoryWords(c))
		}
	}
	if f.At == nil {
		a.largestSite(a.dev.Sites, "the line that holds most at the peak")
	}
}

// findings are those of the device, then the report's own.
func (a *asking) findings() (all []*report.Finding) {
	if a.dev != nil {
		for i := range a.dev.Findings {
			all = append(all, &a.dev.Findings[i])
		}
	}
	for i := range a.Report.Findings {
		all = append(all, &a.Report.Findings[i])
	}
	return all
}

// addOnce adds a name to a few.
func addOnce(few *[]string, name string) {
	if !slices.Contains(*few, name) && len(*few) < maxFound {
		*few = append(*few, name)
	}
}

func (a *asking) leak(text string) error {
	n, err := number(text, len(a.dev.Leaks), "leak")
	if err != nil {
		return err
	}
	x := &Leak{Index: n, Leak: a.dev.Leaks[n]}
	x.Sites, _ = first(x.Sites, maxSites)
	if leaks := a.Classes.Leaks(); n < len(leaks) {
		x.Kept = a.group(leaks[n].Allocations)
	}
	a.doc.Leak = x
	a.doc.Answer = fmt.Sprintf("Leak %d (%s): %s", n, report.CategoryWords(x.Kind), heldBy(x))
	if x.File != nil {
		a.doc.Answer += ", by " + report.ShortPlace(*x.File, x.Line)
		a.nextLine(*x.File, x.Line, "the line that keeps it")
	}
	a.doc.Answer += "."
	if x.Suspected {
		a.doc.Answer += " That is suspected, not sure: too few steps show it, or they are uneven."
	}
	if !x.Defect {
		a.doc.Answer += " It is a cost or expected, no mistake of the program."
	}
	if x.MadeIn != nil {
		a.nextLine(x.MadeIn.File, x.MadeIn.Line, "the line that makes it")
	}
	for i := range a.dev.Findings {
		if f := &a.dev.Findings[i]; f.ID == x.Kind {
			a.next("finding", f.ID, "the change, and what it saves")
		}
	}
	a.afterGroup(&x.Kept)
	return nil
}

// heldBy says how much a leak holds, and how often.
func heldBy(x *Leak) string {
	steps := units.Plural(x.Steps, "step")
	switch {
	case x.Kind == classify.StaleOutputs: // assigned again and again: none of it is the end's
		return fmt.Sprintf("up to %s of a step are held until the next has made the same, in %s", units.Bytes(x.TotalBytes),
			steps)
	case x.BytesPerStep != nil && *x.BytesPerStep > 0:
		return fmt.Sprintf("%s are held in the end, %s for each of %s", units.Bytes(x.TotalBytes),
			units.Bytes(*x.BytesPerStep), steps)
	}
	return units.Bytes(x.TotalBytes) + " are held in the end"
}

func (a *asking) step(text string) error {
	steps := a.Classes.Steps
	if len(steps) == 0 {
		return fmt.Errorf("no steps were recognised in the recording")
	}
	n, err := strconv.Atoi(text)
	i := slices.IndexFunc(steps, func(s classify.Step) bool { return s.Number == n })
	if err != nil || i < 0 {
		return fmt.Errorf("steps are numbered %d to %d", steps[0].Number, steps[len(steps)-1].Number)
	}
	s := &steps[i]
	x := &Step{Step: report.Step{Step: s.Number, FirstEvent: s.FirstEvent, LastEvent: s.LastEvent,
		PeakAllocatedBytes: s.PeakAllocated, Phases: []report.Phase{}}}
	for _, p := range s.Phases {
		x.Phases = append(x.Phases, report.Phase{Phase: p.Phase.String(), FirstEvent: p.FirstEvent, LastEvent: p.LastEvent})
	}
	x.Phases, _ = first(x.Phases, 4*maxBriefs)
	x.RestsOn = restsOn(s.Phases)
	a.walk(x)
	last := s.LastEvent
	if i+1 < len(steps) {
		last = steps[i+1].LastEvent
	}
	made := a.all(func(id timeline.AllocationID) bool {
		return int(a.Classes.Step[id]) == n && a.T.Born[id] != timeline.Never
	})
	x.Made = a.group(made)
	x.Survivors = a.group(slices.DeleteFunc(made, func(id timeline.AllocationID) bool { return !a.T.AliveAt(id, last) }))
	a.doc.Step = x
	a.doc.Answer = fmt.Sprintf("Step %d: events %s to %s, peak %s at event %s. %s of what it made outlive the next step's end.",
		n, units.Count(s.FirstEvent), units.Count(s.LastEvent), units.Bytes(s.PeakAllocated), units.Count(x.PeakEvent),
		units.Plural(x.Survivors.Allocations, "allocation"))
	a.next("event", x.PeakEvent, "the step's peak")
	a.afterGroup(&x.Survivors)
	if i+1 < len(steps) {
		a.next("step", steps[i+1].Number, "the step after it")
	}
	for k := range a.dev.Leaks {
		if a.dev.Leaks[k].Defect {
			a.next("leak", k, "what grows from step to step")
		}
	}
	return nil
}

// walk finds what is allocated at a step's ends and at its peak.
func (a *asking) walk(x *Step) {
	most := int64(-1)
	x.Start = a.T.Start.Allocated
	a.T.WalkAllocated(func(event int, bytes int64) {
		switch {
		case event < x.FirstEvent:
			x.Start = bytes
		case event <= x.LastEvent:
			if x.End = bytes; bytes > most {
				most, x.PeakEvent = bytes, event
			}
		}
	})
	x.Categories, _, _ = a.sitesAt(x.PeakEvent, all)
}
