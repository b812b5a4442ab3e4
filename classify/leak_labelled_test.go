package classify

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify/leaks"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/testing/corpus"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// mustFind are the kinds of planted defects that a leak must be reported for.
var mustFind = []string{GrowingList, RetainedGraph, GradientsKept}

// alsoFair is what else may honestly be claimed where a kind is planted.
var alsoFair = map[string][]string{
	"fragmentation":   {GrowingList},
	"missing_no_grad": {RetainedGraph, GrowingList},
}

// plan is what a run's author knows of its leaks.
type plan struct {
	Defects []struct {
		Kind    string
		Culprit struct {
			File string
			Line int
		}
	}
	Steps []struct {
		Step        int
		Phase       string
		First, Last int
	}
}

// fileLine names a line by its file's base name: scripts were recorded elsewhere.
type fileLine struct {
	file string
	line int
}

// planOf is what a run's author knows of its leaks, and the run's own lines on their stacks.
func planOf(t *testing.T, r *labelledRun) (*plan, map[fileLine]bool) {
	t.Helper()
	p := &plan{}
	var kept struct{ Retained []int }
	if err := readJSON(filepath.Join(r.Dir, "run.json"), p); err != nil {
		t.Fatal(err)
	}
	if err := readJSON(filepath.Join(r.Dir, "truth.json.gz"), &kept); err != nil {
		t.Fatal(err)
	}
	return p, plantedSites(t, r, kept.Retained)
}

// plantedSites are the run's own lines on the stacks of what its bug keeps.
func plantedSites(t *testing.T, r *labelledRun, retained []int) map[fileLine]bool {
	scripts := map[string]bool{}
	paths, _ := filepath.Glob(filepath.Join(r.Dir, "script_*"))
	for _, p := range paths {
		scripts[filepath.Base(p)[len("script_"):]] = true
	}
	variant := "all"
	if _, ok := r.Variants[variant]; !ok {
		for _, variant = range slices.Sorted(maps.Keys(r.Variants)) { // the same program; not all are shipped
			if variant != "none" {
				break
			}
		}
	}
	tl := r.timeline(t, variant)
	sites := map[fileLine]bool{}
	for id := timeline.AllocationID(tl.Older()); int(id) < tl.Len(); id++ {
		o := r.Variants[variant].FirstOrdinal + int(id) - tl.Older()
		if o >= len(retained) || retained[o] == 0 {
			continue
		}
		for _, f := range tl.Snapshot.Stack(tl.Stack(id)) {
			frame := tl.Snapshot.Frames[f]
			if base := filepath.Base(tl.Snapshot.String(frame.File)); scripts[base] {
				sites[fileLine{base, int(frame.Line)}] = true
			}
		}
	}
	return sites
}

// judgeLeaks counts planted defects, those found, and false claims. A line
// counts when it is the culprit's (within 3) or the program's own on a stack of
// what is kept.
func judgeLeaks(leaks []Leak, p *plan, sites map[fileLine]bool, haveStacks bool) (planted, found, wrong int) {
	fair := map[string]bool{}
	for _, d := range p.Defects {
		fair[d.Kind] = true
		for _, k := range alsoFair[d.Kind] {
			fair[k] = true
		}
		if !slices.Contains(mustFind, d.Kind) {
			continue
		}
		planted++
		right := func(l Leak) bool {
			if !l.Defect || l.Kind != d.Kind {
				return false
			}
			named := false
			for _, s := range append([]Site{l.Site}, l.Sites...) {
				if s.File == "" {
					continue
				}
				named = true
				base := filepath.Base(s.File)
				if sites[fileLine{base, s.Line}] || base == filepath.Base(d.Culprit.File) && max(s.Line-d.Culprit.Line, d.Culprit.Line-s.Line) <= 3 {
					return true
				}
			}
			return !named && !(haveStacks && len(sites) > 0)
		}
		if slices.ContainsFunc(leaks, right) {
			found++
		}
	}
	for _, l := range leaks {
		if l.Defect && !fair[l.Kind] {
			wrong++
		}
	}
	return planted, found, wrong
}

// TestLabelledLeaks finds every planted defect and claims no other, both with
// the steps, phases and categories that the runs' own truth gives and with
// those found by this package.
func TestLabelledLeaks(t *testing.T) {
	if testing.Short() {
		t.Skip("reads every labelled recording")
	}
	type count struct{ planted, found, wrong int }
	sums := map[string]*count{}
	for _, r := range labelledRuns(t) {
		p, sites := planOf(t, r)
		for _, name := range slices.Sorted(maps.Keys(r.Variants)) {
			v := r.Variants[name]
			if v.OK != nil && !*v.OK {
				continue
			}
			tl := r.timeline(t, name)
			for _, source := range []string{"truth", "own"} {
				var kept []Leak
				if source == "truth" {
					c := fromTruth(r, p, tl, v)
					kept = leaks.Find(c.Result, frames.New(tl.Snapshot))
				} else {
					kept = New(tl, Options{}).Leaks()
				}
				planted, found, wrong := judgeLeaks(kept, p, sites, name != "none")
				s := sums[source+" "+name]
				if s == nil {
					s = &count{}
					sums[source+" "+name] = s
				}
				s.planted, s.found, s.wrong = s.planted+planted, s.found+found, s.wrong+wrong
				if found < planted || wrong > 0 {
					t.Errorf("%s %s, steps from %s: %d planted, %d found, %d false", r.Name, name, source, planted, found, wrong)
				}
				for _, l := range kept {
					t.Logf("%s %s %s: %s suspected=%v %s:%d %s %v %.1f MiB/step, %d steps, %.1f MiB, %.2f", r.Name, name, source, l.Kind, l.Suspected,
						filepath.Base(l.File), l.Line, l.Function, l.Category, float64(l.BytesPerStep)/(1<<20), l.Steps, float64(l.TotalBytes)/(1<<20), l.Confidence)
				}
			}
		}
	}
	for _, k := range slices.Sorted(maps.Keys(sums)) {
		t.Logf("%-18s planted %d found %d false %d", k, sums[k].planted, sums[k].found, sums[k].wrong)
	}
}

// fromTruth is the classification that a labelled run's truth gives.
func fromTruth(r *labelledRun, p *plan, tl *timeline.Timeline, v variant) *Classification {
	tr, n := r.truth, len(r.truth.Addr)
	firstEvent := v.FirstEvent
	if v.Addresses == "own" {
		firstEvent = 0
	}
	c := blank(tl)
	phases := map[string]Phase{}
	for q := range Phase(NumPhases) {
		phases[q.String()] = q
	}
	for o, id := range r.match(tl, v, n, firstEvent) {
		if id == timeline.NoAllocation {
			continue
		}
		c.Category[id], _ = meaning.CategoryNamed(tr.Categories[tr.Category[o]])
		c.Signal[id], c.Confidence[id] = meaning.ByLife, 100
		c.Phase[id], c.Step[id] = phases[tr.Phases[tr.Phase[o]]], int32(tr.Step[o])
	}
	for _, s := range p.Steps {
		first, last := tl.Older()+s.First-v.FirstOrdinal, tl.Older()+s.Last-v.FirstOrdinal
		if s.Step < 0 || last < tl.Older() || first >= tl.Len() {
			continue
		}
		from, to := tl.Born[max(first, tl.Older())], uint32(tl.Device.Events.Len()-1)
		if last+1 < tl.Len() {
			to = tl.Born[last+1] - 1
		}
		if k := len(c.Steps); k == 0 || c.Steps[k-1].Number != s.Step {
			c.Steps = append(c.Steps, Step{Number: s.Step, FirstEvent: int(from)})
		}
		step := &c.Steps[len(c.Steps)-1]
		step.LastEvent = int(to)
		step.Phases = append(step.Phases, PhaseSpan{Phase: phases[s.Phase], FirstEvent: int(from), LastEvent: int(to)})
	}
	k := 0
	tl.Walk(func(event int, now timeline.Levels) {
		for k < len(c.Steps) && event > c.Steps[k].LastEvent {
			k++
		}
		if k < len(c.Steps) && event >= c.Steps[k].FirstEvent {
			c.Steps[k].PeakAllocated = max(c.Steps[k].PeakAllocated, now.Allocated)
		}
	})
	return c
}

// blank is a classification that says nothing yet.
func blank(tl *timeline.Timeline) *Classification {
	n := tl.Len()
	return &Classification{Result: &meaning.Result{Timeline: tl, Category: make([]Category, n), Detail: make([]Detail, n), Confidence: make([]uint8, n),
		Signal: make([]Signal, n), Rule: make([]uint8, n), Phase: make([]Phase, n), Step: make([]int32, n)}}
}

// TestFoundRecordingsShowNoDefect runs over other people's recordings: none is
// known to leak.
func TestFoundRecordingsShowNoDefect(t *testing.T) {
	corpus.Path(t, "snapshots")
	for _, path := range corpus.Glob(t, "snapshots/*") {
		s, err := snapshot.Open(path, snapshot.Options{})
		if err != nil {
			t.Logf("%s: %v", filepath.Base(path), err)
			continue
		}
		for i := range s.Devices {
			for _, l := range New(timeline.New(s, &s.Devices[i]), Options{}).Leaks() {
				say := t.Logf
				if l.Defect {
					say = t.Errorf
				}
				say("%s device %d: %s %s:%d %s %v %.1f MiB/step, %d steps, %.1f MiB, %.2f", filepath.Base(path), i, l.Kind,
					filepath.Base(l.File), l.Line, l.Function, l.Category, float64(l.BytesPerStep)/(1<<20), l.Steps, float64(l.TotalBytes)/(1<<20), l.Confidence)
			}
		}
	}
}
