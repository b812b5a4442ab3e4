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
	fixes map[string]int
	saves map[string][]int64 // by fix
}

// addFailures takes in the requests that failed in a run and gives the
// fingerprints of the failures, each once.
func (b *indexBuilder) addFailures(r *Report, time *int64) []string {
	var seen []string
	note := func(g report.OOMGroup, requested int64, fix *string, saves *int64) {
		f := b.failures[g.Fingerprint]
		if f == nil {
			g.MinBytes = requested
			f = &failure{OOMGroup: g, fixes: map[string]int{}, saves: map[string][]int64{}}
			b.failures[g.Fingerprint] = f
		}
		f.Requests++
		f.MinBytes, f.MaxBytes = min(f.MinBytes, requested), max(f.MaxBytes, requested)
		f.First, f.Last = earlier(f.First, time), later(f.Last, time)
		if slices.Contains(seen, g.Fingerprint) {
			return
		}
		seen = append(seen, g.Fingerprint)
		if f.Runs++; len(f.Examples) < maxExamples {
			f.Examples = append(f.Examples, report.IndexLink{Path: r.Path, Name: r.Name})
		}
		if fix != nil && *fix != "" {
			f.fixes[*fix]++
			if saves != nil {
				f.saves[*fix] = append(f.saves[*fix], *saves)
			}
		}
	}
	for i := range r.Document.Devices {
		d := &r.Document.Devices[i]
		for k := range d.OOMs {
			o := &d.OOMs[k]
			g := report.OOMGroup{Verdict: o.Verdict}
			if o.Fingerprint != nil {
				g.Fingerprint = *o.Fingerprint
			}
			if o.Phase != nil {
				g.Phase = *o.Phase
			}
			if o.Site != nil {
				site := *o.Site
				site.Line = nil // may differ from run to run
				g.Where = site.Short()
			}
			fix, saves := r.Document.Advice(d, o)
			note(g, o.RequestedBytes, fix, saves)
			b.failures[g.Fingerprint].Requests += o.Repeats
		}
	}
	told := r.Document.OnlyLogged()
	for i := range told {
		var requested int64
		if n := told[i].RequestedBytes; n != nil {
			requested = *n
		}
		fix, saves := r.Document.MessageAdvice(&told[i])
		note(groupOf(&told[i]), requested, fix, saves)
	}
	return seen
}

// groupOf is the failure that a message in a log tells of, when no recording does.
func groupOf(m *evidence.OOMMessage) report.OOMGroup {
	g := report.OOMGroup{Verdict: "told by a log", Fingerprint: report.MessageFingerprint(m)}
	if m.Verdict != nil && *m.Verdict != "unknown" {
		g.Verdict = *m.Verdict
	}
	if m.Phase != nil {
		g.Phase = *m.Phase
	}
	if m.UserFile != nil {
		g.Where = report.ShortFile(*m.UserFile)
		if m.UserFunction != nil && *m.UserFunction != "<module>" {
			g.Where = *m.UserFunction + "  " + g.Where
		}
	}
	return g
}

// groups are the failures, those of most runs first.
func (b *indexBuilder) groups() []report.OOMGroup {
	var out []report.OOMGroup
	for _, key := range slices.Sorted(maps.Keys(b.failures)) {
		f := b.failures[key]
		f.Fix, f.FixRuns = most(f.fixes)
		if saves := f.saves[f.Fix]; len(saves) > 0 {
			m := median(saves)
			f.SavesBytes = &m
		}
		out = append(out, f.OOMGroup)
	}
	slices.SortStableFunc(out, func(a, b report.OOMGroup) int {
		return cmp.Or(cmp.Compare(b.Runs, a.Runs), cmp.Compare(b.Requests, a.Requests))
	})
	return out
}
