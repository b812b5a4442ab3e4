package checks

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/report"
)

var allocatorSetting = Check{
	ID:       "allocator_setting",
	Group:    allocator,
	Severity: "info; a warning where the setting makes it worse, or memory runs short",
	Doc: "The recorded allocator setting is worse than the default or makes no difference, or another would reserve 3 " +
		"% less. The evidence gives peak reserved memory under each, by replay. For recordings that are too long to " +
		"replay the finding gives the command that tells.",
	Saves: "peak reserved memory, by replay.",
	Needs: []facts.Need{facts.Replay, facts.OtherSettings}, Run: findAllocatorSetting,
}

// anew is the scenario in which the recorded settings begin with the first
// blocks laid out one after the other, as others have to.
const anew = "recorded settings, replayed"

// Where it counts how reserved memory could be less, in percent of it.
const (
	wasteWorth = 5 // trying other settings
	gainWorth  = 3 // a word
)

func findAllocatorSetting(p *facts.Pass) []Draft {
	if len(p.Dev.OOMs) > 0 || p.Dev.History == "none" {
		return nil // what was tried is said where the failure is
	}
	peak := p.Dev.Peaks.Reserved.Bytes
	waste := peak - p.Dev.Peaks.Allocated.Bytes
	program := facts.Replay.Of(p)
	if program == nil {
		return wasteUnreplayed(p, waste)
	}
	set := program.Settings.String()
	if set == "" && (facts.Share(waste, peak) < wasteWorth || waste < 64<<20) {
		return nil
	}
	doc := facts.OtherSettings.Of(p)
	if doc == nil {
		return nil
	}
	x := compareSettings(doc, peak)
	d := Draft{Finding: report.Finding{Severity: report.Info, Confidence: 0.95, Evidence: x.evidence(p, doc, waste)}}
	switch {
	case x.worth(x.best) || set != "" && x.worth(x.standard):
		x.otherwise(p, &d, set)
	case set != "" && x.standard != nil:
		d.Title = fmt.Sprintf("%s makes no difference to speak of here", set)
		if more := -x.standard.SavesBytes; facts.Share(more, x.begun) >= gainWorth {
			d.Title = fmt.Sprintf("%s helps: without it, %s more would be reserved; none that was replayed is better", set,
				units.Bytes(more))
		}
	case facts.Share(x.begun-p.Dev.Peaks.Allocated.Bytes, x.begun) < 2*wasteWorth:
		return nil // most of it was cached before the recording began
	default:
		which := "No other allocator setting that was replayed reserves less"
		if x.best != nil && x.gain(x.best) > 0 {
			which = "No other setting that was replayed gains much"
		}
		d.Title = fmt.Sprintf("%s; %s of %s reserved are never in use at once%s", which, units.Bytes(waste), units.Bytes(peak),
			within(p.Dev))
	}
	return []Draft{d}
}

// otherwise advises another setting, or none.
func (x *compared) otherwise(p *facts.Pass, d *Draft, set string) {
	best, standard := x.best, x.standard
	if set == "" || !x.worth(standard) {
		d.Severity = p.Severity()
		d.Title = fmt.Sprintf("%s would reserve %s less", best.Settings, units.Bytes(x.gain(best)))
		d.Fix, d.SavesBytes = advice.Text("setting", "setting", best.Settings), new(x.gain(best))
		return
	}
	d.Severity = report.Warning
	d.Title = fmt.Sprintf("%s makes it worse: without it, %s less are reserved", set, units.Bytes(x.gain(standard)))
	d.Fix, d.SavesBytes = advice.Text("setting.without", "setting", set), new(x.gain(standard))
	if x.worth(best) && x.gain(best) > x.gain(standard)+32<<20 {
		d.Fix, d.SavesBytes = advice.Text("setting.in_place", "setting", best.Settings), new(x.gain(best))
	}
}

// compared are settings beside the recorded ones.
type compared struct {
	peak           int64 // reserved, as recorded
	begun          int64 // reserved with the recorded settings by a replay that begins as those with others do
	best, standard *replay.Outcome
}

func compareSettings(doc *replay.Document, peak int64) compared {
	x := compared{peak: peak, begun: doc.Scenarios[0].PeakReservedBytes}
	for i := range doc.Scenarios[1:] {
		o := &doc.Scenarios[i+1]
		if len(o.Changes) > 0 || o.OOM {
			continue
		}
		if o.Name == anew {
			x.begun = o.PeakReservedBytes
			continue
		}
		if o.Settings == "" {
			x.standard = o
		}
		if x.best == nil || x.gain(o) > x.gain(x.best) {
			x.best = o
		}
	}
	return x
}

// gain is what a setting saves. What lay in the cache before a late recording begins
// anew in a replay: a gain that what was really reserved doesn't bear out is none.
func (x *compared) gain(o *replay.Outcome) int64 {
	if o.SavesBytes <= 0 {
		return o.SavesBytes
	}
	return min(o.SavesBytes, max(0, x.peak-o.PeakReservedBytes))
}

// worth reports whether a setting saves enough for a word.
func (x *compared) worth(o *replay.Outcome) bool {
	return o != nil && facts.Share(x.gain(o), x.begun) >= gainWorth && x.gain(o) >= 32<<20
}

// evidence is what was reserved under each of the settings.
func (x *compared) evidence(p *facts.Pass, doc *replay.Document, waste int64) []string {
	out := []string{fmt.Sprintf("peak reserved %s, peak allocated %s: %s (%s) were never in use at once%s", units.Bytes(x.peak),
		units.Bytes(p.Dev.Peaks.Allocated.Bytes), units.Bytes(waste), units.Percent(waste, x.peak), within(p.Dev))}
	if x.begun != doc.Scenarios[0].PeakReservedBytes {
		out = append(out, fmt.Sprintf("the replay packs the blocks that were there first: under the recorded settings it "+
			"reserves %s", units.Bytes(x.begun)))
	}
	for i := range doc.Scenarios[1:] {
		if o := &doc.Scenarios[i+1]; !o.OOM && o.Name != anew {
			out = append(out, fmt.Sprintf("replayed with %s: peak reserved %s (%s)", orDefault(o.Settings),
				units.Bytes(o.PeakReservedBytes), difference(o.PeakReservedBytes-x.begun)))
		}
	}
	if slices.ContainsFunc(p.Dev.Leaks, func(l report.Leak) bool {
		return l.Kind == classify.VaryingShapes || l.Kind == classify.FragmentationCreep
	}) {
		out = append(out, "the same gain as that of the finding about sizes or pieces, not a second one")
	}
	return out
}

// wasteUnreplayed speaks of recordings that are too long, or too incomplete, to
// replay here.
func wasteUnreplayed(p *facts.Pass, waste int64) []Draft {
	if facts.Share(waste, p.Dev.Peaks.Reserved.Bytes) < facts.WasteLong || waste < 1<<30 || p.Dev.Events <= facts.MaxReplayed {
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: report.Info, Confidence: 0.5}}
	d.Title = fmt.Sprintf("%s of %s reserved were never in use at once%s", units.Bytes(waste),
		units.Bytes(p.Dev.Peaks.Reserved.Bytes), within(p.Dev))
	d.Evidence = []string{fmt.Sprintf("%s are too many to replay here", units.Plural(p.Dev.Events, "event"))}
	d.advise("setting.try", "setting", advice.Expandable)
	return []Draft{d}
}

// within limits a statement to the recording where more may have been in use
// before it.
func within(d *report.Device) string {
	if d.Before() {
		return " in what was recorded"
	}
	return ""
}

func orDefault(settings string) string {
	if settings == "" {
		return "the default settings"
	}
	return settings
}

// difference says what became of a size.
func difference(n int64) string {
	switch {
	case n > 0:
		return units.Bytes(n) + " more"
	case n < 0:
		return units.Bytes(-n) + " less"
	}
	return "no less"
}
