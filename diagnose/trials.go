package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
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
	dev.Changes = changesOf(dev, true)
}

// speak puts what replay found into a finding about a failed request. A setting
// is only advised against fragmentation: against a shortage it helps one
// request, and not the rest.
func (e *examination) speak(f *report.Finding, d *replay.Document, dev *report.Device) {
	if f.ID == "oom_true_shortage" && f.SavesBytes != nil {
		return // what helps is said already
	}
	f.Evidence = append(f.Evidence, "by replay: "+d.Verdict)
	if f.ID != "oom_fragmentation" {
		return
	}
	first := slices.IndexFunc(dev.OOMs, func(o report.OOM) bool { return o.Verdict == report.Fragmentation })
	leak := checks.LeakFirst(&dev.OOMs[first])
	first = dev.OOMs[first].Index
	setting, fits := e.carries(d, &e.T.OOMs[first], dev)
	if leak != "" { // a setting would only put it off
		f.Others = slices.DeleteFunc(f.Others, func(c report.Change) bool { return *c.FixID == "leak=fixed" })
		if setting != nil {
			f.Others = append(f.Others, settingChange(setting, fits, e.leaves(setting, &e.T.OOMs[first], dev)))
		}
		return
	}
	switch {
	case setting != nil:
		c := settingChange(setting, fits, e.leaves(setting, &e.T.OOMs[first], dev))
		f.Fix, f.Outcome, f.Confidence = &c.Text, c.Outcome, 0.95
	case len(f.Others) > 0:
		f.Fix, f.Code, f.Outcome, f.Others = &f.Others[0].Text, f.Others[0].Code, f.Others[0].Outcome, f.Others[1:]
	default:
		f.Fix, f.FixID = new("Free or move the blocks that pin the segments: no allocator setting that was replayed meets "+
			"the request"), new("pinned_segments")
	}
}

// carries is the first setting by itself that meets a request and what is known to come
// after it, nil where there is none; fits is nil where nothing is known of that.
func (e *examination) carries(d *replay.Document, o *timeline.OOM, dev *report.Device) (*replay.Outcome, *bool) {
	for i := range d.Scenarios[1:] {
		x := &d.Scenarios[i+1]
		if !x.Survived || x.OOM || len(x.Changes) > 0 {
			continue
		}
		switch left, rest, known := x.Spare(); {
		case known && (left < 0 || e.firstState(o) > left):
			continue // the step would have failed later
		case facts.StepsAfter(dev, o.Event) > 0 || known && rest:
			return x, new(true)
		}
		return x, nil
	}
	return nil, nil
}

// settingChange is an allocator setting as a change.
func settingChange(o *replay.Outcome, fits *bool, leaves string) report.Change {
	return report.Change{Outcome: report.Outcome{FixID: &o.Settings, Fits: fits, Basis: new("replay")},
		Text: fmt.Sprintf("PYTORCH_CUDA_ALLOC_CONF=%s: replayed, the failed request is met%s", o.Settings, leaves)}
}

// leaves says what a setting leaves that meets a request, and what is known to
// come. "" where the program went on without.
func (e *examination) leaves(setting *replay.Outcome, o *timeline.OOM, dev *report.Device) string {
	left, rest, known := setting.Spare()
	if !known || left < 0 || facts.StepsAfter(dev, o.Event) > 0 {
		return ""
	}
	if rest {
		return fmt.Sprintf(", with %s to spare in this step's passes", units.Size(left))
	}
	return fmt.Sprintf(", with %s left for what follows", units.Size(left))
}

// firstState is what Adam's moments of the gradients at an event take, 0 once an
// optimizer has made state.
func (e *examination) firstState(o *timeline.OOM) int64 {
	var gradients int64
	for i, c := range e.Classes.Category {
		switch id := timeline.AllocationID(i); {
		case c == classify.OptimizerState && e.T.Allocated[i] > 512:
			return 0
		case c == classify.Gradients && e.T.AliveAt(id, o.Event):
			gradients += e.T.Allocated[i]
		}
	}
	return 2 * gradients
}

func trialOf(o *replay.Outcome) report.Trial {
	t := report.Trial{Name: o.Name, PeakReserved: o.PeakReservedBytes, PeakAllocated: o.PeakAllocatedBytes, AtLeast: !o.Complete,
		Retries: o.Retries, Segments: o.Segments}
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
