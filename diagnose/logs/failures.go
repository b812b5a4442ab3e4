package logs

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

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

// outOfMemory turns messages into findings, the last first. What a recorded device
// reports itself is left out.
func (w *witness) outOfMemory() {
	groups := w.failures()
	for i, g := range groups[:min(len(groups), maxFailures)] {
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
	}
}

// maxFailures is how many failures of different lines are told.
const maxFailures = 5

// failures judges every message, and puts those of the same cause and line into one.
func (w *witness) failures() []*failures {
	recorded := oom.RequestsOf(w.doc.Devices...)
	var groups []*failures
	byKey := map[string]*failures{}
	for k := range w.doc.Evidence.Logs {
		log := &w.doc.Evidence.Logs[k]
		messages, first := w.doc.Evidence.MessagesOf(log.Source), firstFailed(log)
		elsewhere := toldElsewhere(messages)
		for i := range messages {
			m := &messages[i]
			if m.Scene.Server == "" && m.UserFile == nil && m.Phase == nil {
				m.Scene.Server = onlyServer(log)
			}
			f := oom.Judge(m)
			tell(&f)
			if recorded.Recorded(m) || elsewhere(m) {
				continue
			}
			key := fmt.Sprint(f.Cause, m.By, f.PhaseName, f.FileName, evidence.Or(m.UserLine, 0), m.OwnFile, m.OwnLine,
				f.Absurd(), m.Backend, m.Driver, m.Quote, f.Scene)
			if byKey[key] == nil {
				byKey[key] = &failures{Failure: f, source: log.Source, first: -1}
				groups = append(groups, byKey[key])
			}
			byKey[key].note(&f, log.Source, first)
		}
	}
	unclear := func(g *failures) bool { return g.Cause == report.UnclearVerdict }
	beside := func(g *failures) bool { return g.By != "" && g.Confidence <= oom.BesideConfidence }
	for _, lesser := range []func(*failures) bool{beside, unclear} {
		if slices.ContainsFunc(groups, func(g *failures) bool { return !lesser(g) && !unclear(g) }) {
			groups = slices.DeleteFunc(groups, lesser)
		}
	}
	if len(recorded) > 0 {
		groups = slices.DeleteFunc(groups, func(g *failures) bool { return g.OOMMessage.Unclear })
	}
	slices.SortStableFunc(groups, func(a, b *failures) int {
		return cmp.Or(cmp.Compare(a.sources[0], b.sources[0]), cmp.Compare(min(b.first, 0), min(a.first, 0)),
			cmp.Compare(b.Line, a.Line))
	})
	return groups
}

// onlyServer is the server of a log in which nothing trains.
func onlyServer(log *evidence.Log) string {
	switch {
	case log.Steps.Count > 0 && !draws(log):
	case log.Engine.Name != "":
		return log.Engine.Name
	case len(log.Servers) > 0:
		return log.Servers[0].Name
	}
	return ""
}

// draws tells of a log whose steps are the bars of a program that makes pictures.
func draws(log *evidence.Log) bool {
	return len(log.Servers) > 0 && evidence.Draws(log.Servers[0].Name) && len(log.Steps.Curve) > 0 &&
		!slices.ContainsFunc(log.Steps.Curve, func(s evidence.Step) bool { return !math.IsNaN(s.Loss) })
}

// toldElsewhere tells of messages that another one of the same log tells better: with
// a traceback, or not cut off behind what was free.
func toldElsewhere(messages []evidence.OOMMessage) func(*evidence.OOMMessage) bool {
	placed, whole := map[string]bool{}, map[string]bool{}
	for i := range messages {
		m := &messages[i]
		if m.UserFile != nil && (m.RequestedBytes != nil || m.By != "") {
			placed[sameFigures(m)] = true
		}
		if m.AllocatedBytes != nil {
			whole[firstFigures(m)] = true
		}
	}
	return func(m *evidence.OOMMessage) bool {
		return m.UserFile == nil && placed[sameFigures(m)] ||
			m.AllocatedBytes == nil && m.DeviceFreeBytes != nil && whole[firstFigures(m)]
	}
}

// note adds a message of a source; first is the rank that failed before all others
// in its log. The group's figures are those of the first rank, else of the last message.
func (g *failures) note(f *oom.Failure, source, first int) {
	m := f.OOMMessage
	g.count++
	g.sources = including(g.sources, source)
	g.all = append(g.all, m)
	if r := f.Requested; r > 0 {
		if g.least == 0 || r < g.least {
			g.least = r
		}
		g.most = max(g.most, r)
	}
	g.wentOn = (g.count == 1 || g.wentOn) && m.WentOn
	isFirst := first >= 0 && evidence.Or(m.Rank, -1) == first
	later := source == g.source || g.Requested < 0 // of several logs the first is as good as any
	switch {
	case f.Requested < 0: // a repeat without figures adds nothing
	case isFirst && g.first < 0, later && (isFirst || g.first < 0):
		g.Failure, g.source = *f, source
	}
	if isFirst {
		g.first = first
	}
	g.ranks, g.gpus = including(g.ranks, evidence.Or(m.Rank, -1)), including(g.gpus, evidence.Or(m.GPU, -1))
}

// sureVerdict is the least confidence with which a verdict is one.
const sureVerdict = 0.8

// tell notes on the message what its figures add up to.
func tell(f *oom.Failure) {
	verdict := report.UnknownVerdict
	if f.Confidence >= sureVerdict || f.Cause == report.UnclearVerdict {
		verdict = f.Cause
	}
	f.Verdict, f.Fix = &verdict, new(f.Change())
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
		Title: fmt.Sprintf("Out of memory%s: PyTorch counted %s before %s was printed; the messages weren't given, "+
			"so the cause isn't known",
			onGPU, units.Plural(int(*last.OOMs), "failed request"), printed),
		Evidence: []string{w.at(last.Source, last.Line) + ": CUDA OOMs: " + units.Count(int(*last.OOMs))},
		Fix:      advice.Text("log.counted"), Code: how("oom")}
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
