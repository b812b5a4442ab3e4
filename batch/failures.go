package batch

import (
	"cmp"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
)

// maxExamples is how many reports of a failure are named.
const maxExamples = 3

// failure collects the runs of one failure.
type failure struct {
	report.OOMGroup
	fixes map[string]map[string]int  // by the word for the change: how often in which words
	saves map[string][]report.Advice // by that word
	lines map[string]bool            // that asked
	whys  map[string]bool            // the causes that are told
}

// addFailures takes in the requests that failed in a run and gives the
// fingerprints of the failures, each once.
func (b *indexBuilder) addFailures(r *Report, time *int64) []string {
	var seen []string
	note := func(g report.OOMGroup, requested int64, a report.Advice) {
		f := b.failures[g.Fingerprint]
		if f == nil {
			g.MinBytes = requested
			f = &failure{OOMGroup: g, fixes: map[string]map[string]int{}, saves: map[string][]report.Advice{},
				lines: map[string]bool{}, whys: map[string]bool{}}
			b.failures[g.Fingerprint] = f
		}
		f.Requests++
		f.lines[g.At] = true
		if g.Cause != "" {
			f.whys[g.Cause] = true
		}
		f.MinBytes, f.MaxBytes = min(f.MinBytes, requested), max(f.MaxBytes, requested)
		f.First, f.Last = earlier(f.First, time), later(f.Last, time)
		if slices.Contains(seen, g.Fingerprint) {
			return
		}
		seen = append(seen, g.Fingerprint)
		if f.Runs++; len(f.Examples) < maxExamples {
			f.Examples = append(f.Examples, report.IndexLink{Path: r.Path, Name: r.Name})
		}
		if a.Fix != nil && *a.Fix != "" {
			f.advise(a)
		}
	}
	for i := range r.Document.Devices {
		d := &r.Document.Devices[i]
		for k := range d.OOMs {
			o := &d.OOMs[k]
			g := report.OOMGroup{Verdict: o.Verdict, Cause: o.Cause()}
			if o.Fingerprint != nil {
				g.Fingerprint = *o.Fingerprint
			}
			if o.Phase != nil {
				g.Phase = *o.Phase
			}
			if o.Site != nil {
				site := *o.Site
				g.At = site.Short()
				site.Line = nil // may differ from run to run
				g.Where = site.Short()
			}
			note(g, o.RequestedBytes, r.Document.Advice(d, o))
			b.failures[g.Fingerprint].Requests += o.Repeats
		}
	}
	told := r.Document.OnlyLogged()
	for i := range told {
		var requested int64
		if n := told[i].RequestedBytes; n != nil {
			requested = *n
		}
		note(groupOf(&told[i]), requested, r.Document.MessageAdvice(&told[i]))
	}
	return seen
}

// advise counts what a run's report says to change.
func (f *failure) advise(a report.Advice) {
	id := *a.Fix
	if a.ID != nil {
		id = *a.ID
	}
	if f.fixes[id] == nil {
		f.fixes[id] = map[string]int{}
	}
	f.fixes[id][*a.Fix]++
	if a.SavesBytes != nil {
		f.saves[id] = append(f.saves[id], a)
	}
}

// settle takes the change that most runs are told, in the words that most use.
func (f *failure) settle() {
	f.At, f.Cause = only(f.lines), only(f.whys) // what holds for all of them
	counts := map[string]int{}
	for id, words := range f.fixes {
		for _, n := range words {
			counts[id] += n
		}
	}
	f.FixID, f.FixRuns = most(counts)
	f.Fix, _ = most(f.fixes[f.FixID])
	if saves := f.saves[f.FixID]; len(saves) > 0 {
		slices.SortStableFunc(saves, func(a, b report.Advice) int { return cmp.Compare(*a.SavesBytes, *b.SavesBytes) })
		middle := saves[(len(saves)-1)/2]
		f.SavesBytes, f.Effect = middle.SavesBytes, middle.Effect
	}
}

// only is the one text of a set, "" where there are several.
func only(texts map[string]bool) string {
	if len(texts) != 1 {
		return ""
	}
	return slices.Collect(maps.Keys(texts))[0]
}

// groupOf is the failure that a message in a log tells of, when no recording does.
func groupOf(m *evidence.OOMMessage) report.OOMGroup {
	g := report.OOMGroup{Verdict: report.LoggedVerdict(m.Verdict), Fingerprint: report.MessageFingerprint(m)}
	if m.Phase != nil {
		g.Phase = *m.Phase
	}
	if m.UserFile != nil {
		g.Where, g.At = report.ShortFile(*m.UserFile), report.ShortPlace(*m.UserFile, m.UserLine)
		if m.UserFunction != nil && *m.UserFunction != "<module>" {
			g.Where, g.At = *m.UserFunction+" "+g.Where, *m.UserFunction+" "+g.At
		}
	}
	return g
}

// groups are the failures, those of most runs first, and last those of which nothing tells why.
func (b *indexBuilder) groups() []report.OOMGroup {
	var out []report.OOMGroup
	for _, key := range slices.Sorted(maps.Keys(b.failures)) {
		f := b.failures[key]
		f.settle()
		out = append(out, f.OOMGroup)
	}
	slices.SortStableFunc(out, func(a, b report.OOMGroup) int {
		return cmp.Or(last(a.Known(), b.Known()), cmp.Compare(b.Runs, a.Runs), cmp.Compare(b.Requests, a.Requests))
	})
	return out
}
