package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/report"
)

// tryOthers replays a failed recording under other settings and with changes,
// and lets the outcome speak in the findings: what has been tried isn't guessed.
func (e *examination) tryOthers(doc *report.Document, dev *report.Device) {
	p := facts.Replay.Of(e.Pass)
	if len(e.T.OOMs) == 0 || p == nil {
		return
	}
	d, err := p.WhatIf(e.Classes, replay.Options{GPU: e.options.Capacity, MaxEvents: facts.MaxTried})
	if err != nil || d.Refused != nil || len(d.Scenarios) == 0 {
		return // the whatif command says why
	}
	doc.WhatIf = d
	doc.Trials = &report.Trials{Device: dev.Device, Verdict: d.Verdict}
	for i := range d.Scenarios {
		doc.Trials.Rows = append(doc.Trials.Rows, trialOf(&d.Scenarios[i]))
	}
	for i := range dev.Findings {
		if f := &dev.Findings[i]; strings.HasPrefix(f.ID, "oom_") {
			e.speak(f, d, dev)
		}
	}
	dev.Changes = changesOf(dev)
}

// answered takes over what became of a change in a replay within the memory that there was.
func answered(o *report.Outcome, d *replay.Document) {
	for i := range d.Scenarios {
		x := &d.Scenarios[i]
		if len(x.Changes) == 1 && x.Changes[0] == o.Tried && x.Settings == d.Scenarios[0].Settings && x.Answer != words.NotKnown {
			o.Settle(x.Answer)
		}
	}
}

// speak puts what replay found into a finding about a failed request.
func (e *examination) speak(f *report.Finding, d *replay.Document, dev *report.Device) {
	answered(&f.Outcome, d)
	for i := range f.Others {
		answered(&f.Others[i].Outcome, d)
	}
	told := f.ID == "oom_true_shortage" && f.SavesBytes != nil // what helps
	if !told {
		f.Evidence = append(f.Evidence, "by replay: "+d.Verdict)
	}
	setting := settingOf(d)
	switch o := &dev.OOMs[len(dev.OOMs)-1]; {
	case setting == nil:
	case checks.LeakFirst(o) != "":
		setting.Text += ", until the leak has filled what it gains"
	case o.CacheGrows != nil:
		setting.Text += checks.UntilCacheFills
	}
	if f.ID == "oom_fragmentation" {
		first := slices.IndexFunc(dev.OOMs, func(o report.OOM) bool { return o.Verdict == report.Fragmentation })
		e.ofPieces(f, setting, checks.LeakFirst(&dev.OOMs[first]) != "" || checks.IsAwaited(f.FixID))
	} else if setting != nil && f.ID == "oom_true_shortage" {
		f.Others = append(f.Others, *setting)
	}
}

// ofPieces makes a setting that joins them the change against memory in pieces, unless a leak fills what it joins.
func (e *examination) ofPieces(f *report.Finding, setting *report.Change, leaks bool) {
	switch {
	case leaks:
		f.Others = slices.DeleteFunc(f.Others, func(c report.Change) bool { return *c.FixID == "leak=fixed" })
		if setting != nil {
			f.Others = append(f.Others, *setting)
		}
	case setting != nil:
		f.Fix, f.Outcome, f.Confidence = &setting.Text, setting.Outcome, 0.95
	case len(f.Others) > 0:
		f.Fix, f.Code, f.Outcome, f.Others = &f.Others[0].Text, f.Others[0].Code, f.Others[0].Outcome, f.Others[1:]
	default:
		f.Fix, f.FixID = advice.Text("pinned_segments"), new("pinned_segments")
	}
}

// settingOf is the first setting by itself with which the run goes through, else that meets the request; nil where there
// is none.
func settingOf(d *replay.Document) (best *report.Change) {
	for i := range d.Scenarios[1:] {
		x := &d.Scenarios[i+1]
		through := x.Answer == words.Fits
		if len(x.Changes) > 0 || !x.Survived || !through && (x.Answer != words.Meets || best != nil) {
			continue
		}
		spare := ""
		if left, rest, known := x.Spare(); known && rest {
			spare = fmt.Sprintf(", with %s to spare in this step's passes", units.Size(left))
		} else if known && !through && left > 0 {
			spare = fmt.Sprintf(", with %s left then", units.Size(left))
		}
		best = &report.Change{Outcome: report.Outcome{FixID: &x.Settings, Basis: new("replay")},
			Text: *advice.Text("setting.replayed", "setting", x.Settings, "left", spare)}
		best.Settle(x.Answer)
		if through {
			return best
		}
	}
	return best
}

func trialOf(o *replay.Outcome) report.Trial {
	t := report.Trial{Name: o.Name, Answer: o.Answer, PeakReserved: o.PeakReservedBytes,
		PeakAllocated: o.PeakAllocatedBytes, AtLeast: !o.Complete, Retries: o.Retries, Segments: o.Segments}
	if len(o.Changes) == 0 && o.Name != "recorded" {
		t.Settings = cmp.Or(o.Settings, "PyTorch's default")
	}
	switch {
	case o.OOM:
		t.Outcome = fmt.Sprintf("out of memory at event %s, a segment lacks %s", units.Count(*o.OOMEvent),
			units.Bytes(o.ShortBytes))
	case o.Survived:
		t.Outcome = "the failed request is met"
	default:
		t.Outcome = "runs through"
	}
	return t
}
