// Package diff compares two runs, or two ranks of one: what grew, by category,
// by call site and by step.
//
//	d, err := diff.Compute(before, after)
//	fmt.Println(d.Verdict.Text)
package diff

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// Compute compares the fullest device of each document. The error is about a
// document that holds no device.
func Compute(before, after *report.Document) (*report.Diff, error) {
	a, b := before.Fullest(), after.Fullest()
	if a == nil || b == nil {
		which, doc := "the first input", before
		if a != nil {
			which, doc = "the second input", after
		}
		if len(doc.Inputs) > 0 {
			which = doc.Inputs[0].Path
		}
		return nil, errors.New(which + ": nothing to compare: no snapshot with a device")
	}
	d := &report.Diff{Schema: report.DiffSchema, Title: after.Title, Notes: after.Notes, Tool: after.Tool,
		Before: side(before, a), After: side(after, b),
		Steps: steps(a, b), Sites: sites(a, b)}
	d.Peaks = map[string]report.DiffSize{
		"requested": {Before: a.Peaks.Requested.Bytes, After: b.Peaks.Requested.Bytes},
		"allocated": {Before: a.Peaks.Allocated.Bytes, After: b.Peaks.Allocated.Bytes},
		"active":    {Before: a.Peaks.Active.Bytes, After: b.Peaks.Active.Bytes},
		"reserved":  {Before: a.Peaks.Reserved.Bytes, After: b.Peaks.Reserved.Bytes},
	}
	inA, inB := moment(a), moment(b)
	for _, name := range report.Categories {
		d.Categories = append(d.Categories, report.DiffCategory{Category: name,
			DiffSize: report.DiffSize{Before: inA.Categories[name], After: inB.Categories[name]}})
	}
	d.Caveats = caveats(before, after, a, b, d.Sites)
	d.Verdict = verdict(d)
	return d, nil
}

// moment is the instant that is compared: the allocated peak, or the dump of a
// recording without history.
func moment(d *report.Device) *report.Moment {
	if d.History == "none" {
		return &d.AtEnd
	}
	return &d.AtPeak
}

func sitesOf(d *report.Device) []report.Site {
	if d.History == "none" {
		return d.SitesAtEnd
	}
	return d.Sites
}

func side(doc *report.Document, d *report.Device) report.DiffSide {
	m := moment(d)
	s := report.DiffSide{Input: doc.Inputs[d.Input], Device: d.Device, History: d.History, Stacks: d.Stacks, Moment: "peak",
		Event: m.Event, Allocated: m.AllocatedBytes, OOMs: d.Failed()}
	if d.History == "none" {
		s.Moment = "dump"
	}
	for _, l := range d.Leaks {
		if l.Defect {
			s.Defects++
		}
	}
	return s
}

// steps puts the peaks of steps side by side: those of one number, or from the end
// backwards where only one of the recordings began with its program, as the other
// one's first step is some later one.
func steps(a, b *report.Device) []report.DiffStep {
	out := []report.DiffStep{}
	at := map[int]int{}
	row := func(number int) *report.DiffStep {
		i, ok := at[number]
		if !ok {
			i = len(out)
			at[number] = i
			out = append(out, report.DiffStep{Step: number})
		}
		return &out[i]
	}
	shiftA, shiftB := 0, 0
	if numberedApart(a, b) {
		shiftA = max(0, lastStep(b)-lastStep(a))
		shiftB = max(0, lastStep(a)-lastStep(b))
	}
	for i := range a.Steps {
		s := &a.Steps[i]
		r := row(s.Step + shiftA)
		r.BeforeStep, r.Before = &s.Step, &s.PeakAllocatedBytes
	}
	for i := range b.Steps {
		s := &b.Steps[i]
		r := row(s.Step + shiftB)
		r.AfterStep, r.After = &s.Step, &s.PeakAllocatedBytes
	}
	slices.SortFunc(out, func(x, y report.DiffStep) int { return cmp.Compare(x.Step, y.Step) })
	return out
}

// numberedApart reports whether one of two recordings with steps began later in its
// program's loop than the other.
func numberedApart(a, b *report.Device) bool {
	return len(a.Steps) > 0 && len(b.Steps) > 0 && sawFirstStep(a) != sawFirstStep(b)
}

// sawFirstStep: in the first step an optimizer makes its state.
func sawFirstStep(d *report.Device) bool {
	return d.History == "complete" ||
		slices.ContainsFunc(d.Leaks, func(l report.Leak) bool { return l.Kind == classify.FirstStepState })
}

func lastStep(d *report.Device) int { return d.Steps[len(d.Steps)-1].Step }

// caveats say what makes the two less than comparable.
func caveats(before, after *report.Document, a, b *report.Device, sites []report.DiffSite) []string {
	out := []string{}
	add := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	for i, d := range []*report.Device{a, b} {
		which := [...]string{"The first", "The second"}[i]
		switch d.History {
		case "none":
			add("%s recording has no history: what it held at the dump stands for its peak", which)
		case "overflowed":
			add("%s recording lost its oldest events: its peak may have been earlier", which)
		case "late":
			add("%s recording began late: blocks older than it have no call site", which)
		}
		in := [...]report.DiffOccurrence{report.InBefore, report.InAfter}[i]
		if slices.ContainsFunc(sites, func(s report.DiffSite) bool { return s.OlderIn == in }) {
			add("What %s recording doesn't show the making of is put beside sites of the other that have no counterpart and "+
				"hold no more", strings.ToLower(which))
		}
		if n := d.Failed(); n > 0 {
			add("%s run has %s: its peak is what it had got to", which, units.Plural(n, "failed request"))
		}
	}
	if numberedApart(a, b) && lastStep(a) != lastStep(b) {
		add("Each recording counts steps from its own beginning: their last ones are put side by side")
	}
	if a.Stacks != b.Stacks {
		add("The stacks differ (%s, %s): call sites are matched without the operator", stacksText[a.Stacks], stacksText[b.Stacks])
	}
	for i, doc := range []*report.Document{before, after} {
		if n := len(doc.Devices); n > 1 {
			add("Device %d is compared, the fullest of the %s input's %d", []*report.Device{a, b}[i].Device,
				[...]string{"first", "second"}[i], n)
		}
		if text := doc.OmittedLists(); text != "" {
			add("Of the %s input: left out, as these lists are too long to be read: %s", [...]string{"first", "second"}[i], text)
		}
	}
	return out
}

var stacksText = map[string]string{"all": "C++ and Python", "python": "Python only", "none": "none"}
