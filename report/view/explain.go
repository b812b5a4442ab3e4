package view

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/explain"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// explained is an answer's sheet while it is made.
type explained struct {
	sheet
	doc *explain.Document
}

// Explain is what is known of one thing as a sheet.
func Explain(d *explain.Document, e Edition) *Sheet {
	s := &explained{sheet: sheet{Edition: e}, doc: d}
	if d.Device != nil {
		s.facts("", s.trust())
	}
	switch {
	case d.Allocation != nil:
		s.allocation(d.Allocation)
	case d.Event != nil:
		s.event(d.Event)
	case d.Address != nil:
		s.address(d.Address)
	case d.Site != nil:
		s.group("", &d.Site.Group, true)
	case d.Finding != nil:
		s.finding(d.Finding)
	case d.Leak != nil:
		s.leak(d.Leak)
	case d.OOM != nil:
		s.oom(d.OOM)
	case d.Category != nil:
		s.group("", &d.Category.Group, true)
	case d.Rule != nil:
		s.rule(d.Rule)
	case d.Step != nil:
		s.step(d.Step)
	}
	s.asks()
	return &Sheet{Heading: "Explained: " + d.Question.Kind + " " + d.Question.Value, Verdict: report.Verdict{Text: d.Answer},
		Parts: s.parts, Tool: d.Tool}
}

// trust is the state of the recording, which stands before any number.
func (s *explained) trust() []Fact {
	r := &s.doc.Recording
	facts := []Fact{{"recording", list(given("rank %d", s.doc.Rank), given("device %d", s.doc.Device), Histories[r.History],
		Stacks[r.Stacks], units.Plural(r.Events, "event"))}}
	for _, c := range r.Caveats {
		facts = append(facts, Fact{"note", c})
	}
	return facts
}

// facts adds sentences with names in front of them.
func (s *explained) facts(heading string, facts []Fact) {
	if slices.ContainsFunc(facts, func(f Fact) bool { return f.Text != "" }) {
		s.add(Part{Heading: heading, Bare: heading == "", Level: 4, Facts: facts})
	}
}

func (s *explained) allocation(x *explain.Allocation) {
	category := fmt.Sprintf("%s, %.0f %% sure, by %s", report.CategoryWords(x.Category), 100*x.Confidence, Plain(x.Signal))
	if x.Detail != nil {
		category += ": " + Plain(*x.Detail)
	}
	s.facts("", []Fact{
		{"size", fmt.Sprintf("%s asked for, a block of %s at 0x%x", units.Bytes(x.Requested), units.Bytes(x.Allocated),
			x.Address)},
		{"category", category},
		{"rule", because(x.Rule, x.Reason)},
		{"name", text(x.Name)},
		{"alive", aliveText(x)},
		{"called from", text(x.CalledFrom)},
		{"user metadata", text(x.UserMetadata)},
		{"compiled", text(x.CompileContext)},
		{"held by", strings.Join(x.Holders, ", ")},
		{"leak", given("%d", x.Leak)},
	})
	s.stack("Stack, innermost first", x.Stack, x.StackRest)
	s.stack("Stack of the forward operation", x.ForwardStack, 0)
	s.stack("Stack of its free", x.FreedBy, 0)
	s.segment(x.Segment)
	if x.SameSite.Allocations > 1 {
		same := "Allocations with the same stack"
		if !x.HasStack {
			same = "Allocations of the same size, no stack either"
		}
		s.group(same, &x.SameSite, false)
	}
}

func because(rule, reason *string) string {
	if rule == nil {
		return "no rule spoke"
	}
	return *rule + ": " + text(reason)
}

func aliveText(x *explain.Allocation) string {
	at := []string{when(x.AtPeak, "at the allocated peak")}
	for _, i := range x.AtFailures {
		at = append(at, fmt.Sprintf("when request %d failed", i))
	}
	at = append(at, when(x.AtEnd, "at the end"))
	return cmp.Or(list(at...), "neither at the peak nor at the end")
}

// stack lists frames.
func (s *explained) stack(heading string, frames []explain.Frame, rest int) {
	t := Table{NoHead: true, Columns: []Column{{Width: 9}, {Gap: 1}}}
	for _, f := range frames {
		row := t.add(f.Owner, Code(place(f.Function, f.File, f.Line)))
		if f.FX == nil {
			continue
		}
		if node := list(f.FX.Op, f.FX.Name, f.FX.Target); node != "" {
			row.Notes = append(row.Notes, Fact{"          ", "torch.fx node: " + node})
		}
		for _, line := range strings.Split(strings.TrimSpace(f.FX.Trace), "\n") {
			if line = strings.TrimSpace(line); strings.Trim(line, "^~ ") != "" {
				row.Notes = append(row.Notes, Fact{"          | ", line})
			}
		}
	}
	s.table(heading, 4, t, more(rest, "frame"))
}

func (s *explained) segment(n *explain.Neighbors) {
	if n == nil {
		return
	}
	when := map[string]string{"peak": "at the allocated peak", "birth": "when it was made", "end": "at the end"}[n.Moment]
	s.add(Part{Heading: "Its segment " + when, Level: 4, Text: []string{fmt.Sprintf(
		"%s at 0x%x: %s in use, %s free, the largest free block %s", units.Bytes(n.Bytes), n.Address, units.Bytes(n.Used),
		units.Bytes(n.Free), units.Bytes(n.Largest))}})
	s.briefs("", n.Others, n.Rest)
}

// briefs lists allocations.
func (s *explained) briefs(heading string, list []explain.Brief, rest int) {
	if len(list) == 0 {
		return
	}
	t := Table{Wrap: true, Columns: []Column{figureColumn("bytes", 12), {Name: "", Number: true, Width: 5},
		{Name: "category", Gap: 1, Width: 15}, {Name: "made at: numbers of the allocations", Gap: 1, Leads: true}}}
	for i := range list {
		x := &list[i]
		alike := func(y explain.Brief) bool {
			return y.Allocated == x.Allocated && y.Category == x.Category && y.At == x.At
		}
		if slices.ContainsFunc(list[:i], alike) {
			continue // told with the first one
		}
		var numbers []string
		for k := range list {
			if alike(list[k]) {
				numbers = append(numbers, strconv.Itoa(list[k].Allocation))
			}
		}
		t.add(units.Bytes(x.Allocated), times(len(numbers)), report.CategoryWords(x.Category),
			cell(Code(x.At), ": "+strings.Join(numbers, ", ")))
	}
	s.add(Part{Heading: heading, Level: 4, Table: t, Rest: more(rest, "allocation")})
}

// group is some allocations together, with the largest of them or without.
func (s *explained) group(heading string, g *explain.Group, largest bool) {
	if heading != "" {
		s.add(Part{Heading: heading, Level: 4, Text: []string{fmt.Sprintf("%s; %s in %s at the peak, %s in %s at the end",
			units.Plural(g.Allocations, "allocation"), units.Bytes(g.PeakBytes), units.Plural(g.PeakBlocks, "block"),
			units.Bytes(g.EndBytes), units.Plural(g.EndBlocks, "block"))}})
	}
	if len(g.Categories) > 1 {
		s.held("Categories at the peak", g.Categories)
	}
	s.holders("Made at", g.Sites, g.SitesRest, g.PeakBytes)
	t := Table{NoHead: true, Columns: []Column{{Number: true, Width: 12}, {Number: true, Width: 10}, {Gap: 1, Width: 15},
		{Gap: 1}}}
	for _, d := range g.Rules {
		t.add(units.Bytes(d.PeakBytes), times(d.Allocations), report.CategoryWords(d.Category),
			evidence.Or(d.Rule, "no rule spoke"))
	}
	s.table("Decided by", 4, t, "")
	if largest {
		s.briefs("Largest", g.Largest, g.LargestRest)
	}
}

func times(n int) string { return units.Count(n) + "x" }

// held is what categories hold.
func (s *explained) held(heading string, categories map[string]int64) {
	t := Table{NoHead: true, Columns: []Column{{Number: true, Width: 12}, {Number: true, Width: 7}, {Gap: 1}}}
	var all int64
	for _, bytes := range categories {
		all += bytes
	}
	for _, c := range LargestCategories(categories) {
		if categories[c] > 0 {
			t.add(units.Bytes(categories[c]), units.Percent(categories[c], all), report.CategoryWords(c)).Category = c
		}
	}
	s.table(heading, 4, t, "")
}

// holders are call sites with what they hold.
func (s *explained) holders(heading string, sites []report.Site, rest int, whole int64) {
	s.table(heading, 4, siteTable(sites, whole), more(rest, "call site"))
}

func (s *explained) event(x *explain.Event) {
	if x.Allocation != nil {
		s.briefs("The allocation that it is about", []explain.Brief{*x.Allocation}, 0)
	}
	s.held("Held right after it", x.Categories)
	s.holders("Held by", x.Sites, x.SitesRest, x.Allocated)
	t := Table{NoHead: true, Wrap: true, Columns: []Column{{Width: 1}, {Number: true, Width: 9}, {Gap: 1, Width: 15},
		{Number: true, Width: 12}, {Gap: 1}}}
	for _, e := range x.Around {
		t.add(when(e.Event == x.Event, ">"), units.Count(e.Event), Plain(e.Action), units.Bytes(e.Bytes),
			given("allocation %d  ", e.Allocation)+e.At)
	}
	s.add(Part{Heading: "Around it", Level: 4, Table: t})
	s.resting("Its phase rests on", x.RestsOn)
	s.facts("", []Fact{{"user metadata", text(x.UserMetadata)}, {"PyTorch's", text(x.InternalMetadata)},
		{"compiled", text(x.CompileContext)}})
	s.stack("Stack, innermost first", x.Stack, x.StackRest)
	s.stack("Stack of the forward operation", x.ForwardStack, 0)
}

func (s *explained) address(x *explain.Address) {
	s.briefs("Allocations that had it, the last first", x.Uses, x.Rest)
	s.segment(x.Segment)
}

func (s *explained) finding(x *explain.Finding) {
	for i := range x.Found {
		p := findingOf(&x.Found[i], all)
		p.Open = true
		s.add(Part{Bare: true, Findings: []Finding{p}})
	}
	s.facts("What it looks for", []Fact{{x.ID, x.About}, {"the saving", text(x.Saves)}})
}

// mostHolders is how many variables a leak's answer names.
const mostHolders = 3

func (s *explained) leak(x *explain.Leak) {
	p := leakOf(&x.Leak)
	for i := range x.Holders[:min(len(x.Holders), mostHolders)] {
		p.Evidence = append(p.Evidence, "held by "+x.Holders[i].Path+"  "+holds(&x.Holders[i]))
	}
	if p.Open = true; x.Defect {
		p.Code = x.FixCode
	} else {
		p.Change = ""
	}
	s.add(Part{Bare: true, Findings: []Finding{p}})
	s.group("What it keeps", &x.Kept, true)
}

func (s *explained) oom(x *explain.OOM) {
	s.facts("", append(failureFacts(&x.OOM, x.Pending), Fact{"fingerprint", text(x.Fingerprint)}))
	s.held("Held when it failed", x.Categories)
	s.holders("Held by", x.Sites, x.SitesRest, x.AllocatedBytes)
	s.stack("Stack of the request, innermost first", x.Stack, x.StackRest)
}

func (s *explained) rule(x *explain.Rule) {
	s.facts("", []Fact{{"what it goes by", x.About}, {"signal", Plain(x.Signal)}, {"needs", strings.Join(x.Needs, ", ")}})
	s.group("", &x.Group, true)
}

func (s *explained) step(x *explain.Step) {
	phases := map[string]int{}
	for _, p := range x.Phases {
		phases[p.Phase] += p.LastEvent - p.FirstEvent + 1
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(phases)) {
		parts = append(parts, fmt.Sprintf("%s %s", Plain(name), units.Count(phases[name])))
	}
	s.facts("", []Fact{
		{"allocated", fmt.Sprintf("%s before it, %s at its peak, %s after it", units.Bytes(x.Start),
			units.Bytes(x.PeakAllocatedBytes), units.Bytes(x.End))},
		{"events by phase", strings.Join(parts, ", ")}})
	s.resting("Its phases rest on", x.RestsOn)
	s.held("Held at its peak", x.Categories)
	s.group("What it made", &x.Made, false)
	if x.Survivors.Allocations > 0 {
		s.group("What of that outlives the next step's end", &x.Survivors, true)
	}
}

// resting lists the signals that told phases, and why.
func (s *explained) resting(heading string, signals []explain.Resting) {
	var facts []Fact
	for _, x := range signals {
		facts = append(facts, Fact{evidence.Or(x.Signal, "rules"), Plain(strings.Join(x.Phases, ", ")) + ": " + x.Reason})
	}
	s.facts(heading, facts)
}

// asks lists the questions that follow.
func (s *explained) asks() {
	t := Table{NoHead: true, Wrap: true, Columns: []Column{{Width: 34}, {Gap: 1}}}
	for _, n := range s.doc.Next {
		t.add(Code("--"+n.Kind+" "+ShellWord(n.Value)), n.Why)
	}
	s.table("Ask next, with vramscope explain", 4, t, "")
}
