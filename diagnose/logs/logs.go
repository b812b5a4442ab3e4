// Package logs tells what logs, nvidia-smi and traces say about a run: all there is
// when nothing was recorded, and what no recording can hold where there is one.
//
//	logs.Add(doc, capacity, ranks)
//	verdict, ok := logs.Verdict(doc)
package logs

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

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
		}
		w.watched(doc.Evidence.GPUsOf(source))
		if t := doc.Evidence.Trace(source); t != nil {
			w.traced(source, t)
		}
	}
	order := map[report.Severity]int{report.Critical: 0, report.Warning: 1, report.Info: 2}
	slices.SortStableFunc(doc.Findings, func(a, b report.Finding) int {
		return cmp.Compare(order[a.Severity], order[b.Severity])
	})
}

func ptr[T any](v T) *T { return &v }

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

// Verdict is the report in one sentence where no recording gives one.
func Verdict(doc *report.Document) (report.Verdict, bool) {
	if len(doc.Findings) > 0 && doc.Findings[0].Severity != report.Info {
		f := doc.Findings[0]
		return report.Verdict{Severity: f.Severity, Text: f.Title, Fix: f.Fix, SavesBytes: f.SavesBytes}, true
	}
	w := &witness{doc: doc}
	facts := w.facts()
	if len(facts) == 0 {
		return report.Verdict{}, false
	}
	v := report.Verdict{Severity: report.Info, Text: "No failure in what was given: " + strings.Join(facts, "; "),
		Fix: ptr("Record a snapshot to see what the memory is for: `vramscope record` prints how")}
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

// failures are the out-of-memory messages that tell the same.
type failures struct {
	oom.Failure
	source  int   // of the failure
	sources []int // of all: ranks may have a log each, and trackers keep copies
	count   int
	ranks   []int // whose messages they are, as far as that is told
	gpus    []int // that they are about
	all     []*evidence.OOMMessage
	first   int   // the one of the ranks that failed before all others, -1: not known
	wentOn  bool  // after each of them
	least   int64 // bytes asked for, over all messages; 0: not known
	most    int64
}

// firstFailed is the rank that the launcher saw fail first, -1 where it told of none.
func firstFailed(log *evidence.Log) int {
	rank := -1
	for _, f := range log.Failures {
		if f.First {
			rank = f.Rank
		}
	}
	return rank
}

// outOfMemory turns messages into findings, those of the same cause and line
// into one, the last first. What a recorded device reports itself is left out.
func (w *witness) outOfMemory() {
	failed := oom.RequestsOf(w.doc.Devices...)
	var groups []*failures
	byKey := map[string]*failures{}
	for k := range w.doc.Evidence.Logs {
		log := &w.doc.Evidence.Logs[k]
		messages, first := w.doc.Evidence.MessagesOf(log.Source), firstFailed(log)
		placed := map[string]bool{} // messages that come with a traceback
		whole := map[string]bool{}  // messages that aren't cut off behind what was free
		for i := range messages {
			m := &messages[i]
			if m.UserFile != nil && (m.RequestedBytes != nil || m.By != "") {
				placed[sameFigures(m)] = true
			}
			if m.AllocatedBytes != nil {
				whole[firstFigures(m)] = true
			}
		}
		for i := range messages {
			m := &messages[i]
			f := oom.Judge(m)
			tell(&f)
			if failed.Recorded(m) || m.UserFile == nil && placed[sameFigures(m)] || m.AllocatedBytes == nil &&
				m.DeviceFreeBytes != nil && whole[firstFigures(m)] {
				continue // told elsewhere, and better
			}
			key := fmt.Sprint(f.Cause, m.By, f.PhaseName, f.FileName, evidence.Or(m.UserLine, 0), m.OwnFile, m.OwnLine,
				f.Absurd())
			g := byKey[key]
			if g == nil {
				g = &failures{Failure: f, source: log.Source, first: -1}
				byKey[key] = g
				groups = append(groups, g)
			}
			g.count++
			g.sources = including(g.sources, log.Source)
			g.all = append(g.all, m)
			if r := f.Requested; r > 0 {
				if g.least == 0 || r < g.least {
					g.least = r
				}
				g.most = max(g.most, r)
			}
			g.wentOn = (g.count == 1 || g.wentOn) && m.WentOn
			isFirst := first >= 0 && evidence.Or(m.Rank, -1) == first
			later := log.Source == g.source || g.Requested < 0 // of several logs the first is as good as any
			switch {
			case f.Requested < 0: // a repeat without figures adds nothing
			case isFirst && g.first < 0, later && (isFirst || g.first < 0):
				g.Failure, g.source = f, log.Source
			}
			if isFirst {
				g.first = first
			}
			g.ranks, g.gpus = including(g.ranks, evidence.Or(m.Rank, -1)), including(g.gpus, evidence.Or(m.GPU, -1))
		}
	}
	if slices.ContainsFunc(groups, func(g *failures) bool { return g.Cause != report.UnknownVerdict }) {
		groups = slices.DeleteFunc(groups, func(g *failures) bool { return g.Cause == report.UnknownVerdict })
	}
	slices.SortStableFunc(groups, func(a, b *failures) int {
		return cmp.Or(cmp.Compare(a.sources[0], b.sources[0]), cmp.Compare(min(b.first, 0), min(a.first, 0)),
			cmp.Compare(b.Line, a.Line))
	})
	for i, g := range groups {
		f := w.failureFinding(g)
		if i == 0 {
			f.Evidence = append(f.Evidence, w.otherRanks(groups)...)
		}
		for _, m := range g.all {
			m.Fix = f.Fix
		}
		if i == maxFailures-1 && len(groups) > maxFailures {
			f.Evidence = append(f.Evidence, fmt.Sprintf("and failures at %s, earlier in the logs",
				units.Plural(len(groups)-maxFailures, "other line")))
		}
		w.add(f)
		if i == maxFailures-1 {
			break
		}
	}
}

// sureVerdict is the least confidence with which a verdict is one.
const sureVerdict = 0.8

// tell notes on the message what its figures add up to.
func tell(f *oom.Failure) {
	verdict := report.UnknownVerdict
	if f.Confidence >= sureVerdict {
		verdict = f.Cause
	}
	f.Verdict, f.Fix = &verdict, ptr(f.Change())
}

// counted tells of failures that nothing but PyTorch's own counter shows, as
// memory_summary() prints it.
func (w *witness) counted() {
	told := func(d report.Device) bool { return len(d.OOMs) > 0 }
	if len(w.doc.Evidence.OOMMessages) > 0 || slices.ContainsFunc(w.doc.Devices, told) {
		return
	}
	var last *evidence.MemorySummary
	for i := range w.doc.Evidence.MemorySummaries {
		if s := &w.doc.Evidence.MemorySummaries[i]; s.OOMs != nil && *s.OOMs > 0 {
			last = s
		}
	}
	if last == nil {
		return
	}
	onGPU, printed := "", "memory_stats()"
	if last.Device != nil {
		onGPU, printed = fmt.Sprintf(" on GPU %d", *last.Device), "memory_summary()"
	}
	f := report.Finding{ID: "oom_true_shortage", Severity: report.Critical, Confidence: 0.3,
		Title: fmt.Sprintf("Out of memory%s: PyTorch counted %s before %s was printed; the messages aren't in what was given, "+
			"so the cause isn't known",
			onGPU, units.Plural(int(*last.OOMs), "failed request"), printed),
		Evidence: []string{w.at(last.Source, last.Line) + ": CUDA OOMs: " + units.Count(int(*last.OOMs))},
		Fix:      ptr("Give the log with the message, too, or record a snapshot at the failure"), Code: how("oom")}
	if last.PeakAllocatedBytes != nil && last.PeakReservedBytes != nil {
		f.Evidence = append(f.Evidence, fmt.Sprintf("peaks of %s allocated and %s reserved",
			units.Bytes(*last.PeakAllocatedBytes), units.Bytes(*last.PeakReservedBytes)))
	}
	w.add(f)
}

// sameFigures tells the messages of one failure, which notebooks, pytest and
// loggers print several times, from those of others.
func sameFigures(m *evidence.OOMMessage) string {
	f := oom.Of(m)
	return fmt.Sprint(m.By, evidence.Or(m.GPU, -1), evidence.Or(m.Rank, -1), f.Requested, f.Capacity, f.Free, f.Allocated,
		f.Cached)
}

// firstFigures are those that a message which a title or a logger cuts off still has.
func firstFigures(m *evidence.OOMMessage) string {
	f := oom.Of(m)
	return fmt.Sprint(m.By, evidence.Or(m.GPU, -1), f.Requested, f.Capacity, f.Free)
}

// including is a list of numbers with one more, if it is known and wasn't there.
func including(list []int, n int) []int {
	if n < 0 || slices.Contains(list, n) {
		return list
	}
	return append(list, n)
}

// maxNumbers is how many ranks or GPUs are listed.
const maxNumbers = 16

// numbered lists some of a kind, "" for less than two.
func numbered(kind string, list []int) string {
	n := len(list)
	if n < 2 {
		return ""
	}
	slices.Sort(list)
	text := kind + " " + strings.Trim(strings.ReplaceAll(fmt.Sprint(list[:min(n, maxNumbers)]), " ", ", "), "[]")
	if n > maxNumbers {
		text += fmt.Sprintf(" and %s more", units.Count(n-maxNumbers))
	}
	return text
}

// maxFailures is how many failures of different lines are told.
const maxFailures = 5

func (w *witness) failureFinding(g *failures) report.Finding {
	f := report.Finding{ID: "oom_" + g.Cause, Severity: report.Critical, Confidence: g.Confidence, Fix: ptr(g.Change())}
	if g.Cause == report.UnknownVerdict {
		f.ID = "oom_true_shortage"
	}
	if g.Saves > 0 {
		f.SavesBytes = &g.Saves
	}
	title := "Out of memory"
	if g.Unsure {
		title, f.Severity = "Perhaps out of memory", report.Warning
	}
	if g.PhaseName != "" {
		title += " in " + report.PhaseText[g.PhaseName]
	}
	switch {
	case len(g.ranks) > 1:
		title += fmt.Sprintf(" on %s", units.Plural(len(g.ranks), "rank"))
		if g.first >= 0 {
			title += fmt.Sprintf(", rank %d first", g.first)
		}
	case len(g.ranks) == 1 && g.GPU != nil:
		title += fmt.Sprintf(" on rank %d, GPU %d", g.ranks[0], *g.GPU)
	case len(g.ranks) == 1:
		title += fmt.Sprintf(" on rank %d", g.ranks[0])
	case len(g.gpus) > 1:
		title += fmt.Sprintf(" on %s", units.Plural(len(g.gpus), "GPU"))
	case g.GPU != nil:
		title += fmt.Sprintf(" on GPU %d", *g.GPU)
	}
	if g.AfterStep >= 0 {
		title += fmt.Sprintf(", after step %d", g.AfterStep)
	}
	if g.wentOn {
		f.Severity = report.Warning
		title += "; the run went on"
	}
	if g.Requested >= 0 {
		title += fmt.Sprintf(": %s asked for", units.Bytes(g.Requested))
	}
	if g.FileName != "" {
		file, line := g.FileName, evidence.Or(g.UserLine, 0)
		if g.OwnFile != "" {
			file, line = g.OwnFile, g.OwnLine
		}
		title += " at " + report.ShortFile(file)
		if line > 0 {
			title += fmt.Sprintf(":%d", line)
		}
	}
	title += "; "
	if g.Confidence < 0.7 && g.Cause != report.UnknownVerdict {
		title += "probably " + causeText[g.Cause] + ": "
	} else if g.Cause == report.Fragmentation || g.Cause == report.MemoryFraction {
		title += causeText[g.Cause] + ": "
	}
	why := g.Why
	if grew := w.grewBefore(g); grew != "" {
		why, f.Fix = grew, ptr("Find what is kept from step to step; a smaller batch only puts the failure off. "+growthFix)
	}
	f.Title = title + why
	f.Evidence = []string{w.at(g.source, g.Line) + ": " + cmp.Or(g.Text(), "no figures")}
	if g.Absurd() {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%.0f times the GPU: no setting helps, the shapes are wrong",
			float64(g.Requested)/float64(g.Capacity)))
	}
	if o, ok := g.Outside(); ok && o.Context > 0 && o.Others >= 0 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("outside PyTorch's allocator: %s CUDA context and libraries, %s others",
			units.Bytes(o.Context), units.Bytes(o.Others)))
	}
	if took := w.ofServer(g); took != "" {
		f.Evidence = append(f.Evidence, took)
	}
	if list := g.Strangers(); len(list) > 0 {
		f.Evidence = append(f.Evidence, "others on the same GPU: "+oom.Processes(list))
	}
	if gpu := w.printed(g); gpu != nil {
		f.Evidence = append(f.Evidence, fmt.Sprintf("nvidia-smi, printed %s into the same log, saw %s in use on GPU %d",
			units.Times(gpu.Samples), sawOf(gpu), *g.GPU))
	}
	w.maybeOwn(g, &f)
	if g.Pools > 0 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("%s lie in private pools (CUDA graphs), which no other code can use",
			units.Bytes(g.Pools)))
	}
	if g.count > 1 {
		text := fmt.Sprintf("told %s times in this log", units.Count(g.count))
		if n := len(g.sources); n > 1 {
			text = fmt.Sprintf("told %s times in %s", units.Count(g.count), units.Plural(n, "log"))
		}
		if g.least < g.most {
			text += fmt.Sprintf(", with %s to %s asked for", units.Bytes(g.least), units.Bytes(g.most))
		}
		f.Evidence = append(f.Evidence, text)
	}
	if g.wentOn && g.UpToStep >= 0 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("steps follow it in the log, up to step %d", g.UpToStep))
	}
	if g.first >= 0 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("by the launcher's list of failures, rank %d failed before all others",
			g.first))
	}
	if list := cmp.Or(numbered("ranks", g.ranks), numbered("GPUs", g.gpus)); list != "" {
		f.Evidence = append(f.Evidence, list)
	}
	return f
}

var causeText = map[string]string{report.TrueShortage: "a true shortage", report.Fragmentation: report.Fragmentation,
	report.OtherProcess:   "someone else on the GPU",
	report.MemoryFraction: "a limit below the GPU's size"}
