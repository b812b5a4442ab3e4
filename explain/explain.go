package explain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/cut"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

// Subject is a report, and the recording of the device that is asked about.
type Subject struct {
	Report *report.Document
	Device int         // index into the report's devices, -1: only the report can be asked
	Pass   *facts.Pass // of that device
	// Holders are the variables that hold the device's allocations, where recorded.
	Holders []classify.Holder
}

// How much an answer lists.
const (
	maxBriefs  = 10
	maxSites   = 8
	maxRules   = 8
	maxFrames  = 32
	maxAround  = 4   // entries on each side of an event
	maxText    = 160 // runes of a name
	maxCaveats = 6
	maxFound   = 5
)

// Kinds are what can be asked, with what each takes.
var Kinds = []struct{ Name, Takes, Usage string }{
	{"allocation", "N", "the allocation with this number, as `export --table allocations` and these answers count them"},
	{"event", "N", "the trace's entry with this index"},
	{"address", "HEX", "what lay at an address, such as 0x7f2a40000000"},
	{"site", "FILE:LINE", "what was allocated under a line of code; the end of the file's path is enough"},
	{"finding", "ID", "a finding of the report, such as logits_dominate, and what it looks for"},
	{"leak", "N", "the report's leak with this index, and what it keeps"},
	{"oom", "N", "the failed request with this index, and what there was"},
	{"category", "NAME", "what a category holds, such as activations"},
	{"rule", "ID", "a rule of the classification and what it decided"},
	{"step", "N", "a step, what it made and what survives it"},
}

// asking answers one question.
type asking struct {
	Subject
	*facts.Pass
	doc *Document
	dev *report.Device
}

var answers = map[string]func(*asking, string) error{
	"allocation": (*asking).allocation, "event": (*asking).event, "address": (*asking).address, "site": (*asking).site,
	"finding": (*asking).finding, "leak": (*asking).leak, "oom": (*asking).oom, "category": (*asking).category,
	"rule": (*asking).rule, "step": (*asking).step,
}

// Ask answers a question. The error is about a thing that isn't in the recording.
func Ask(s Subject, q Question) (*Document, error) {
	answer := answers[q.Kind]
	if answer == nil {
		return nil, fmt.Errorf("nothing is known of the kind %q", q.Kind)
	}
	a := &asking{Subject: s, Pass: s.Pass, doc: &Document{Schema: Schema, Tool: s.Report.Tool, Command: []string{}, Question: q,
		Recording: Recording{History: "none", Stacks: "none", Caveats: []string{}}, Next: []Next{}}}
	if s.Device < 0 && q.Kind != "finding" {
		return nil, fmt.Errorf("--%s asks a recording, and there is none among the inputs", q.Kind)
	}
	if s.Device >= 0 {
		a.dev = &s.Report.Devices[s.Device]
		a.recording()
	}
	if err := answer(a, q.Value); err != nil {
		return nil, fmt.Errorf("--%s %s: %w", q.Kind, clip(q.Value), err)
	}
	a.once()
	return a.doc, nil
}

// recording says what can be trusted, before anything else is said.
func (a *asking) recording() {
	d := a.dev
	a.doc.Device, a.doc.Rank = &d.Device, d.Rank
	a.doc.Input = a.Report.Inputs[d.Input].Path
	r := Recording{History: d.History, HistoryReason: d.HistoryReason, Stacks: d.Stacks, Events: d.Events,
		Allocations: d.Allocations, Caveats: []string{}}
	for _, f := range d.Findings {
		if (strings.HasPrefix(f.ID, "recording_") || f.ID == "damage") && len(r.Caveats) < maxCaveats {
			r.Caveats = append(r.Caveats, clip(f.Title))
		}
	}
	a.doc.Recording = r
}

// next adds a question that follows.
func (a *asking) next(kind string, value any, why string) {
	a.doc.Next = append(a.doc.Next, Next{Question{kind, fmt.Sprint(value)}, why})
}

// nextSite asks for the user's line of a call site, else its own.
func (a *asking) nextSite(s *report.Site, why string) {
	file, line := s.File, s.Line
	if s.CalledFrom != nil {
		file, line = s.CalledFrom.File, s.CalledFrom.Line
	}
	a.nextLine(file, line, why)
}

func (a *asking) nextLine(file string, line *int, why string) {
	if file != "" && file != "??" && line != nil {
		a.next("site", report.ShortFile(file)+":"+strconv.Itoa(*line), why)
	}
}

// once leaves out questions that were asked before, and the one that was answered.
func (a *asking) once() {
	seen := map[Question]bool{a.doc.Question: true}
	a.doc.Next = slices.DeleteFunc(a.doc.Next, func(n Next) bool {
		again := seen[n.Question]
		seen[n.Question] = true
		return again
	})
}

// number reads an index below a bound.
func number(text string, bound int, what string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("not a number")
	}
	switch {
	case bound <= 0:
		return 0, fmt.Errorf("the recording has no %s", what)
	case n < 0 || n >= bound:
		return 0, fmt.Errorf("%ss are numbered 0 to %d", what, bound-1)
	}
	return n, nil
}

// clip bounds a name.
func clip(s string) string { return cut.Letters(s, maxText) }

// eventOrNil is an event's index where there is one.
func eventOrNil(event uint32) *int {
	if event >= timeline.Before {
		return nil
	}
	return new(int(event))
}

func textOrNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// siteOf is the call site of an allocation.
func (a *asking) siteOf(id timeline.AllocationID) report.Site {
	key := facts.SiteKey{Category: a.Classes.Category[id]}
	if stack := a.T.Stack(id); stack != 0 {
		key.Site, key.Known = a.View.Site(stack), true
	} else {
		key.Older = a.T.Born[id] == timeline.Never
	}
	return short(facts.SiteOf(key))
}

// short bounds the names of a call site.
func short(s report.Site) report.Site {
	s.Function, s.File, s.Op = clip(s.Function), clip(s.File), clip(s.Op)
	if c := s.CalledFrom; c != nil {
		s.CalledFrom = &report.Place{Function: clip(c.Function), File: clip(c.File), Line: c.Line}
	}
	return s
}

// at is a call site in a few words.
func at(s *report.Site) string {
	text := s.Short()
	if s.Op != "" && s.Op != text {
		text += " [" + s.Op + "]"
	}
	return text + facts.CalledFrom(s.CalledFrom)
}

// brief is an allocation for a list.
func (a *asking) brief(id timeline.AllocationID) Brief {
	return Brief{Allocation: int(id), Address: a.T.Address(id), Requested: a.T.Requested(id), Allocated: a.T.Allocated[id],
		Category: a.Classes.Category[id].String(), Confidence: float64(a.Classes.Confidence[id]) / 100,
		AllocEvent: eventOrNil(a.T.Born[id]), FreeEvent: eventOrNil(a.T.FreeRequested[id]),
		Phase: a.Classes.Phase[id].String(), Step: int(a.Classes.Step[id]), At: at(new(a.siteOf(id)))}
}

// briefs are the largest of some allocations, and how many are left out.
func (a *asking) briefs(ids []timeline.AllocationID) (out []Brief, rest int) {
	ids = slices.Clone(ids)
	slices.SortStableFunc(ids, func(x, y timeline.AllocationID) int {
		return cmp.Or(cmp.Compare(a.T.Allocated[y], a.T.Allocated[x]), cmp.Compare(x, y))
	})
	return a.listed(ids)
}

// listed are the first of some allocations.
func (a *asking) listed(ids []timeline.AllocationID) (out []Brief, rest int) {
	out = []Brief{}
	for _, id := range ids[:min(len(ids), maxBriefs)] {
		out = append(out, a.brief(id))
	}
	return out, len(ids) - len(out)
}

// all are the allocations of which something is true.
func (a *asking) all(is func(timeline.AllocationID) bool) (ids []timeline.AllocationID) {
	for i := range a.T.Born {
		if id := timeline.AllocationID(i); is(id) {
			ids = append(ids, id)
		}
	}
	return ids
}

// group sums up allocations.
func (a *asking) group(ids []timeline.AllocationID) Group {
	g := Group{Allocations: len(ids), Rules: []Deciding{}}
	peak, end := a.T.Peaks.Allocated.Event, a.T.Device.Events.Len()-1
	member := make([]bool, a.T.Len())
	var there []timeline.AllocationID
	rules := map[Deciding]*Deciding{}
	for _, id := range ids {
		bytes := a.T.Allocated[id]
		member[id] = true
		if a.T.AliveAt(id, end) {
			g.EndBlocks++
			g.EndBytes += bytes
		}
		rule := a.Classes.Rule[id]
		key := Deciding{Category: a.Classes.Category[id].String(), Allocations: int(rule)} // which tells rules apart here
		if rules[key] == nil {
			rules[key] = &Deciding{Rule: textOrNil(classify.RuleID(rule)), Category: key.Category}
		}
		if rules[key].Allocations++; a.T.AliveAt(id, peak) {
			there = append(there, id)
			g.PeakBytes += bytes
			rules[key].PeakBytes += bytes
		}
	}
	g.PeakBlocks = len(there)
	g.Categories, g.Sites, g.SitesRest = a.sitesAt(peak, func(id timeline.AllocationID) bool { return member[id] })
	for _, d := range rules {
		g.Rules = append(g.Rules, *d)
	}
	slices.SortFunc(g.Rules, func(x, y Deciding) int {
		return cmp.Or(cmp.Compare(y.PeakBytes, x.PeakBytes), cmp.Compare(y.Allocations, x.Allocations),
			cmp.Compare(evidence.Or(x.Rule, ""), evidence.Or(y.Rule, "")), cmp.Compare(x.Category, y.Category))
	})
	g.Rules, _ = first(g.Rules, maxRules)
	if there == nil {
		there = ids
	}
	g.Largest, g.LargestRest = a.briefs(there)
	return g
}

// first bounds a list, and says by how much.
func first[T any](list []T, most int) ([]T, int) {
	kept := list[:min(len(list), most)]
	return kept, len(list) - len(kept)
}

// all is true of each allocation.
func all(timeline.AllocationID) bool { return true }

// sitesAt is what is allocated right after an event, of what something is true, by category and call site.
func (a *asking) sitesAt(event int, is func(timeline.AllocationID) bool) (categories map[string]int64, sites []report.Site,
	rest int) {
	found, _, categories := a.SitesOf(event, is)
	sites, rest = first(found, maxSites)
	for i := range sites {
		sites[i] = short(sites[i])
	}
	maps.DeleteFunc(categories, func(_ string, bytes int64) bool { return bytes == 0 })
	return categories, sites, rest
}
