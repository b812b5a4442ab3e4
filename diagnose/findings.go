package diagnose

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/record"
	"github.com/vramscope/vramscope/report"
)

// rules find what is worth knowing about a recording; each is of one kind. The
// first three leave behind what later ones needn't say again.
var rules = []func(*examination, *report.Device, *facts) []draft{
	(*examination).oomFindings,
	(*examination).missingNoGrad,
	(*examination).madeAgain,
	(*examination).leakFindings,
	(*examination).graphsLeft,
	(*examination).gradientsUnused,
	(*examination).resultsCollected,
	(*examination).logitsDominate,
	(*examination).checkpointing,
	(*examination).attentionMatrices,
	(*examination).optimizerLists,
	(*examination).ownTemporaries,
	(*examination).weightsTwice,
	(*examination).autocastCopies,
	(*examination).cacheInTraining,
	(*examination).inputsKept,
	(*examination).dataParallel,
	(*examination).emptyCacheInLoop,
	(*examination).cacheFlushed,
	(*examination).allocatorSetting,
	(*examination).privatePools,
	(*examination).pinnedHost,
}

// findings are the things worth knowing about a device, worst first and, among
// equals, what saves most.
func (e *examination) findings(dev *report.Device) []report.Finding {
	var drafts []draft
	f := e.facts(dev)
	for _, rule := range rules {
		drafts = append(drafts, rule(e, dev, f)...)
	}
	out := append(e.settle(drafts), e.recordingFindings(dev, f)...)
	for _, rule := range []func(*report.Device) []report.Finding{e.damageFindings, e.outsideFindings, e.spillFindings} {
		out = append(out, rule(dev)...)
	}
	rank(out)
	return out
}

// severities in the order of a report.
var severities = map[report.Severity]int{report.Critical: 0, report.Warning: 1, report.Info: 2}

// rank orders findings: the worst first; of equals what a defect of the program
// is before what is by design, then what saves most.
func rank(list []report.Finding) {
	slices.SortStableFunc(list, func(a, b report.Finding) int {
		return cmp.Or(cmp.Compare(severities[a.Severity], severities[b.Severity]), cmp.Compare(saved(&b), saved(&a)))
	})
}

// saved is what a finding's fix saves, -1 where that isn't known.
func saved(f *report.Finding) int64 {
	if f.SavesBytes == nil {
		return -1
	}
	return *f.SavesBytes
}

// how is the code of a recipe.
func how(name string) string {
	r, _ := record.Find(name)
	return r.Code
}

// recordingFindings say what the recording can't answer, and how to record so
// that it can.
func (e *examination) recordingFindings(dev *report.Device, f *facts) []report.Finding {
	var out []report.Finding
	old := e.t.Snapshot.OldRecorder()
	words := func(now, then string) string {
		if old {
			return then
		}
		return now
	}
	loop := words("loop", "torch2.0")
	add := func(id string, severity report.Severity, title, fix, recipe string, evidence ...string) {
		out = append(out, report.Finding{ID: id, Severity: severity, Title: title, Evidence: append([]string{}, evidence...),
			Fix: &fix, Confidence: 1, Code: how(recipe)})
	}
	switch dev.History {
	case "none":
		id := "recording_empty"
		if dev.Stacks != "none" || dev.Events > 0 {
			id = "recording_stopped"
		}
		fix := "Switch recording on before the model is built, and dump before it is switched off"
		title := "The recording holds no history: only what was there at the dump can be said"
		switch {
		case e.t.Snapshot.Cut >= 0:
			title = "The file was cut off before its events: only what is left of its segments can be said"
			fix = "Dump again, to a disk with room enough, and let the dump end: the file was cut off before its events"
		case e.t.Device.Unpaired > 0:
			fix = "Record without skip_actions, or skip one of free_requested and free_completed only"
		case old && !e.t.Snapshot.HasTraces:
			fix = "Record with PyTorch 2.0 or newer, before the model is built"
		case old:
			fix = "Record before the model is built, with trace_alloc_max_entries: its default keeps one event"
		}
		add(id, report.Warning, title, fix, loop, dev.HistoryReason)
	case "late":
		if e.t.Snapshot.Cut < 0 {
			add("recording_late", report.Info, fmt.Sprintf("Recording began late: %s (%s) are older than it",
				units.Plural(dev.Older, "block"), units.Bytes(e.t.Start.Allocated)),
				"Switch recording on before the model is built", loop, dev.HistoryReason)
		}
	case "overflowed":
		add("recording_overflowed", report.Warning, "The recorder's ring buffer was too small: the oldest events are lost",
			words("Raise max_entries, or record fewer steps", "Raise trace_alloc_max_entries, or record fewer steps"), loop,
			dev.HistoryReason, fmt.Sprintf("%s are left", units.Plural(dev.Events, "event")))
	}
	if kept := e.keptAtEnd(f); kept > 0 {
		add("recording_stopped", report.Info, fmt.Sprintf("The recording ends in a forward pass: %s of activations are kept "+
			"for a backward pass that wasn't recorded", units.Bytes(kept)),
			"Record a whole training step: its peak may come later, in backward or in the optimizer. If nothing is trained "+
				"here, torch.no_grad() keeps none of them", loop,
			fmt.Sprintf("no backward pass in the whole recording, and %s of what is allocated at its end are activations",
				units.Percent(kept, e.t.End.Allocated)))
	}
	if dev.Stacks == "none" && dev.Allocations > 0 {
		add("recording_without_stacks", report.Info, "No stacks were recorded: no line of code can be named",
			words(`Record with context="all" and stacks="all", which are the defaults`,
				"Record with trace_alloc_record_context=True"), loop, fmt.Sprintf("%s without a stack",
				units.Plural(dev.Allocations, "allocation")))
	} else if dev.Stacks == "python" && dev.History != "none" {
		add("recording_without_stacks", report.Info,
			"Only Python stacks were recorded: allocations of the backward pass have none",
			words(`Record with stacks="all", which is the default`,
				"Record with PyTorch 2.1 or newer, whose default records C++ frames, too"), loop)
	}
	return out
}

// cutOff says what is known of a recording that ends at an offset of its file.
func cutOff(offset int64, events int) string {
	if events == 0 {
		return fmt.Sprintf("the file ends at offset %d, before its events: what is left of its segments is shown", offset)
	}
	return fmt.Sprintf("the file ends at offset %d: only events before that are shown, on top of an unknown beginning, so "+
		"levels are lower bounds", offset)
}

// maxDamage is how many contradictions a finding lists.
const maxDamage = 10

func (e *examination) damageFindings(dev *report.Device) []report.Finding {
	var all []string
	cut := e.t.Snapshot.Cut
	if cut >= 0 {
		all = append(all, cutOff(cut, e.t.Device.Events.Len()))
	}
	all = append(append(all, e.t.Snapshot.Damage...), dev.Damage...)
	if len(all) == 0 {
		return nil
	}
	var title string
	if cut >= 0 { // what else is odd about it comes of that, most likely
		title = fmt.Sprintf("The file was cut off at offset %d: what came after is not known", cut)
	} else {
		title, all = "The file contradicts itself: "+all[0], all[1:]
	}
	if len(all) > maxDamage {
		all = append(all[:maxDamage:maxDamage], fmt.Sprintf("and %d more", len(all)-maxDamage))
	}
	return []report.Finding{{ID: "damage", Severity: report.Warning, Title: title, Evidence: append([]string{}, all...),
		Confidence: 1,
		Fix:        ptr("Dump again if you can; take figures that touch the damaged parts with care")}}
}

// firstChange is what usually costs least against a kind of memory, by category; ""
// where none was allocated.
func firstChange(category string) string { return advice.Find("memory." + category).Text }
