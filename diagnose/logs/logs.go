// Package logs tells what logs, nvidia-smi and traces say about a run: all there is
// when nothing was recorded, and what no recording can hold where there is one.
//
//	logs.Add(doc, capacity, ranks)
//	verdict, ok := logs.Verdict(doc)
package logs

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/record"
	"github.com/vramscope/vramscope/report"
)

// witness tells what logs, nvidia-smi and traces say about a run: all there is
// when nothing was recorded, and what no recording can hold where there is one.
type witness struct {
	doc      *report.Document
	capacity int64       // the user's word, in bytes, 0: none
	ranks    map[int]int // by log that is one rank's
}

// Add adds the findings that belong to no recorded device, worst first.
func Add(doc *report.Document, capacity int64, ranks map[int]int) {
	if doc.Evidence == nil {
		return
	}
	w := &witness{doc: doc, capacity: capacity, ranks: ranks}
	w.markRanks()
	doc.Evidence.DropMeans()
	for i := range doc.Devices {
		doc.Clocks = append(doc.Clocks, doc.Devices[i].Clocks...)
		if doc.Devices[i].CapacityDisproved != nil {
			w.capacity = 0
		}
	}
	w.outOfMemory()
	w.counted()
	spilt := w.spills()
	for _, source := range doc.Evidence.Sources() {
		if log := doc.Evidence.Log(source); log != nil {
			w.hostFailed(source, log)
			w.logged(source, log.Steps, spilt)
			w.pressed(source, log)
			w.accounted(log)
			w.slept(source, log)
			w.uneven(source, log.Workers)
		}
		w.watched(doc.Evidence.GPUsOf(source))
		if t := doc.Evidence.Trace(source); t != nil {
			w.traced(source, t)
		}
	}
	slices.SortStableFunc(doc.Findings, func(a, b report.Finding) int { return a.Severity.Place() - b.Severity.Place() })
}

// how is the code of a recipe.
func how(name string) string {
	r, _ := record.Find(name)
	return r.Code
}

func (w *witness) add(f report.Finding) { w.doc.Findings = append(w.doc.Findings, f) }

// at names a line of an input.
func (w *witness) at(source, line int) string {
	return fmt.Sprintf("%s:%d", report.ShortFile(w.doc.Inputs[source].Path), line)
}

func (w *witness) name(source int) string { return report.ShortFile(w.doc.Inputs[source].Path) }

// capacityOf is the size of the GPUs as anything but the recording tells it, 0
// when nothing does or they aren't of one size.
func (w *witness) capacityOf() int64 {
	any := oom.Sizes{Given: w.capacity, Device: -1, GPU: -1}
	size, _ := any.Capacity(w.doc.Evidence)
	return size
}

// isFailure tells findings of a request that failed, or of a process that was killed.
func isFailure(f *report.Finding) bool {
	return strings.HasPrefix(f.ID, "oom_") || f.ID == "host_out_of_memory" || f.ID == report.WorkspaceFull
}

// mostFacts are those that a sentence holds.
const mostFacts = 8

func firstFacts(facts []string) string {
	if n := len(facts) - mostFacts; n > 1 {
		facts = append(slices.Clone(facts[:mostFacts]), "and "+units.Count(n)+" more")
	}
	return strings.Join(facts, "; ")
}

// ofProgram reports whether more than monitors was given: an idle GPU has nothing to change.
func (w *witness) ofProgram() bool {
	e := w.doc.Evidence
	return len(e.Traces)+len(e.Timelines)+len(e.OOMMessages)+len(e.MemorySummaries) > 0 ||
		slices.ContainsFunc(e.Logs, func(l evidence.Log) bool {
			return l.Steps.Count > 0 || l.Engine.Name != "" || len(l.Phases) > 0
		})
}

// wantsRecording reports whether a snapshot would tell more: not of what somebody stopped, or ended in something else.
func (w *witness) wantsRecording(end *report.Ended) bool {
	return w.ofProgram() && (end == nil || end.How != string(evidence.Failed) && end.How != string(evidence.Stopped))
}

// Verdict is the report in one sentence where no recording gives one.
func Verdict(doc *report.Document) (report.Verdict, bool) {
	if len(doc.Findings) > 0 && doc.Findings[0].Severity != report.Info {
		f := doc.Findings[0]
		v := report.Verdict{Severity: f.Severity, Text: f.Title, Fix: f.Fix, SavesBytes: f.SavesBytes, Causes: f.Causes}
		if end := Ended(doc); end != nil && end.How == string(evidence.Failed) && !isFailure(&f) {
			v.Text += ". It ended in " + end.Text + ", which is no failure of memory"
		}
		return v, true
	}
	w := &witness{doc: doc}
	facts, end := w.facts(), Ended(doc)
	if len(facts) == 0 && (end == nil || end.How == string(evidence.UnknownEnd) || end.How == string(evidence.EndedWell)) {
		return report.Verdict{}, false
	}
	v := report.Verdict{Severity: report.Info}
	if v.Text, v.Fix = withoutFailure(end, facts); v.Fix == nil && w.wantsRecording(end) {
		v.Fix = advice.Text("log.record")
	}
	damaged := 0
	for _, in := range doc.Inputs {
		if len(in.Damage) > 0 {
			damaged++
		}
	}
	if damaged > 0 {
		v.Severity = report.Warning
		v.Text += fmt.Sprintf("; %s cut off or damaged, what else stood there is not known", units.Plural(damaged, "file"))
	}
	return v, true
}
