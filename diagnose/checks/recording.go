package checks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/record"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// What a recording can't answer, and how to record so that it can.
var recordingEmpty = Check{
	ID: "recording_empty", Group: recording, Severity: "warning",
	Doc: "The recording holds no history, only what was there at the dump. The code to paste records one.",
	Run: func(p *facts.Pass) []Draft {
		if p.Dev.History != "none" || p.Dev.Stacks != "none" || p.Dev.Events > 0 {
			return nil
		}
		return []Draft{noHistory(p)}
	},
}

var recordingStopped = Check{
	ID: "recording_stopped", Group: recording, Severity: "warning; info where the recording ends in a forward pass",
	Doc: "Recording was switched off before the dump. It appears also where the recording ends in a forward pass whose " +
		"activations (40 % of what is allocated, 256 MiB) no recorded backward pass comes to.",
	Needs: []facts.Need{facts.Phases, facts.Dropped},
	Run: func(p *facts.Pass) (out []Draft) {
		if p.Dev.History == "none" && (p.Dev.Stacks != "none" || p.Dev.Events > 0) {
			out = append(out, noHistory(p))
		}
		if kept := keptAtEnd(p); kept > 0 {
			out = append(out, recordAgain(p, report.Info, fmt.Sprintf("The recording ends in a forward pass: %s of activations "+
				"are kept for a backward pass that wasn't recorded", units.Bytes(kept)),
				"recording.forward",
				fmt.Sprintf("no backward pass in the whole recording, and %s of what is allocated at its end are activations",
					units.Percent(kept, p.T.End.Allocated))))
		}
		return out
	},
}

var recordingLate = Check{
	ID: "recording_late", Group: recording, Severity: "info",
	Doc: "The recording began after the program: some blocks are older than their recording, and nothing is known of where " +
		"they come from.",
	Run: func(p *facts.Pass) []Draft {
		if p.Dev.History != "late" || p.T.Snapshot.Cut >= 0 {
			return nil
		}
		return []Draft{recordAgain(p, report.Info, fmt.Sprintf("Recording began late: %s (%s) are older than it",
			units.Plural(p.Dev.Older, "block"), units.Bytes(p.T.Start.Allocated)),
			"recording.late", p.Dev.HistoryReason)}
	},
}

var recordingOverflowed = Check{
	ID: "recording_overflowed", Group: recording, Severity: "warning",
	Doc: "The ring buffer of the recorder was too small: the oldest events are lost.",
	Run: func(p *facts.Pass) []Draft {
		if p.Dev.History != "overflowed" {
			return nil
		}
		return []Draft{recordAgain(p, report.Warning, "The recorder's ring buffer was too small: the oldest events are lost",
			"recording.overflowed", p.Dev.HistoryReason, fmt.Sprintf("%s are left", units.Plural(p.Dev.Events, "event")))}
	},
}

var recordingWithoutStacks = Check{
	ID: "recording_without_stacks", Group: recording, Severity: "info",
	Doc: "No stacks were recorded, so no line of code can be named, or only Python stacks, so that allocations of the " +
		"backward pass have none.",
	Run: func(p *facts.Pass) []Draft {
		switch {
		case p.Dev.Stacks == "none" && p.Dev.Allocations > 0:
			return []Draft{recordAgain(p, report.Info, "No stacks were recorded: no line of code can be named",
				"recording.stacks", units.Plural(p.Dev.Allocations, "allocation")+" without a stack")}
		case p.Dev.Stacks == "python" && p.Dev.History != "none":
			return []Draft{recordAgain(p, report.Info,
				"Only Python stacks were recorded: allocations of the backward pass have none",
				"recording.cpp")}
		}
		return nil
	},
}

// recordAgain is about a recording that should be made another way: as today's recorder takes it, or that of PyTorch 2.0.
func recordAgain(p *facts.Pass, severity report.Severity, title, id string, evidence ...string) Draft {
	name, then := "loop", ""
	if p.T.Snapshot.OldRecorder() {
		name, then = "torch2.0", ".then"
	}
	recipe, _ := record.Find(name)
	return Draft{Finding: report.Finding{Severity: severity, Title: title, Evidence: evidence, Confidence: 1, Code: recipe.Code,
		Fix: new(cmp.Or(advice.Find(id+then).Text, advice.Find(id).Text))}}
}

// noHistory is about a recording of which only its end is known.
func noHistory(p *facts.Pass) Draft {
	s := p.T.Snapshot
	id := "recording.history"
	title := "The recording holds no history: only what was there at the dump can be said"
	switch {
	case s.Cut >= 0:
		title = "The file was cut off before its events: only what is left of its segments can be said"
		id = "recording.cut"
	case p.T.Device.Unpaired > 0:
		id = "recording.unpaired"
	case s.OldRecorder() && !s.HasTraces:
		id = "recording.untraced"
	}
	return recordAgain(p, report.Warning, title, id, p.Dev.HistoryReason)
}

// keptAtEnd is what a forward pass that the recording ends in has kept, in
// bytes; 0 where it isn't much, or where that pass isn't all that was recorded:
// what it keeps is then told by backward passes or by dropped graphs.
func keptAtEnd(p *facts.Pass) (kept int64) {
	work := facts.Phases.Of(p)
	n := len(work.Spans)
	if n == 0 || work.Trains || facts.Dropped.Of(p).Count > 0 || work.Spans[n-1].Phase != classify.Forward {
		return 0
	}
	if slices.ContainsFunc(p.T.Snapshot.Devices, func(d snapshot.Device) bool { return len(d.OOMs) > 0 }) {
		return 0 // a request that failed, on this GPU or another, has ended it
	}
	for id := range p.Each(classify.Activations) {
		if p.T.FreeRequested[id] == timeline.Never && p.T.Born[id] != timeline.Never {
			kept += p.T.Allocated[id]
		}
	}
	if facts.Share(kept, p.T.End.Allocated) < activationShare || kept < activationLeast {
		return 0
	}
	return kept
}
