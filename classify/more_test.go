package classify

import (
	"maps"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/timeline"
)

// evidence is what a look at a run has: a variant of its recording, and what lies beside it.
type evidence struct {
	variant         string
	labels, holders bool
}

func (e evidence) String() string {
	switch {
	case e.holders:
		return e.variant + " with labels and variables"
	case e.labels:
		return e.variant + " with labels"
	}
	return e.variant
}

// verdict is what a classification says of a run, as far as more evidence must not change it for the worse.
type verdict struct {
	Peak         float64 // right at the peak, in percent of bytes
	Found, Wrong int     // leaks
}

// TestMoreEvidenceIsNoWorse looks at each run with more and more evidence: no stacks, Python's, those of C++, with names, ranges,
// then some allocations' labels and the variables that hold others. No look is worse than one with less, nor turns a true verdict.
func TestMoreEvidenceIsNoWorse(t *testing.T) {
	if testing.Short() {
		t.Skip("reads every labelled recording")
	}
	const slack = 0.2 // points: what a frame tells of single blocks may be wrong
	worse := map[string]bool{
		"contrastive__dino_multicrop all":     true, // as many activations are cast as there are weights of twice their size
		"inference__sliding_window_3d python": true, // the program's own zeros look like a batch
		"meta__maml_second_order python":      true, // weights that the program's own line makes
		"pruning__masks_mixer all":            true, // what autocast casts are weights under a mask
		"embedder__gradcache all":             true, // weights cast for passes whose graph is dropped
		"pipeline__1f1b_rank1of4 python":      true, // what the program's own line receives looks like a batch
		"pipeline__1f1b_rank1of4 all":         true,
	}
	turned := map[string]bool{
		"leak_oom__notebook_cells":     true, // sizes alone show models of cells, their lines say that each is another
		"retained_graph__create_graph": true, // lines tell the parts of one list apart
		"decode__graphs_shared_pool":   true, // outputs of captured graphs, of one line
	}
	looks := 0
	for _, r := range append(labelledRuns(t), unseenRuns(t)...) {
		told := r.verdicts(t)
		for k, with := range told {
			for _, less := range told[:k] {
				if looks++; worse[r.Name+" "+with.variant] {
					continue
				}
				if with.Peak < less.Peak-slack {
					t.Errorf("%s, %v: right at the peak for %.2f %%, with less evidence (%v) for %.2f %%", r.Name, with.evidence, with.Peak,
						less.evidence, less.Peak)
				}
				if !turned[r.Name] && (with.Found < less.Found || with.Wrong > less.Wrong) {
					t.Errorf("%s, %v: %d leaks right and %d wrong, with less evidence (%v) %d and %d", r.Name, with.evidence, with.Found,
						with.Wrong, less.evidence, less.Found, less.Wrong)
				}
			}
		}
	}
	if looks < 100 {
		t.Errorf("only %d pairs of looks", looks)
	}
}

// looked is what a look tells.
type looked struct {
	evidence
	verdict
}

// verdicts are those of all looks at a run, from the one with the least evidence on.
func (r *labelledRun) verdicts(t *testing.T) (all []looked) {
	t.Helper()
	p, sites := planOf(t, r)
	look := func(e evidence, tl *timeline.Timeline, v variant, o Options) {
		c := New(tl, o)
		_, found, wrong := judgeLeaks(c.Leaks(), p, sites, e.variant != "none")
		all = append(all, looked{e, verdict{r.score(tl, c, v).Peak, found, wrong}})
	}
	if _, ok := r.Variants["none"]; !ok { // what any other would have been
		for _, name := range slices.Sorted(maps.Keys(r.Variants)) {
			if v := r.Variants[name]; slices.Contains([]string{"python", "all", "named"}, name) && (v.OK == nil || *v.OK) {
				s, d := r.device(t, name)
				clear(d.Events.Stack)
				for i := range d.Segments {
					for k := range d.Segments[i].Blocks {
						d.Segments[i].Blocks[k].Stack = 0
					}
				}
				look(evidence{variant: "none"}, timeline.New(s, d), v, Options{})
				break
			}
		}
	}
	last := ""
	for _, name := range []string{"none", "python", "all", "named", "annotated"} {
		if v, ok := r.Variants[name]; ok && (v.OK == nil || *v.OK) {
			look(evidence{variant: name}, r.timeline(t, name), v, Options{})
			last = name
		}
	}
	if last != "" {
		v, tl := r.Variants[last], r.timeline(t, last)
		labels, holders := r.beside(tl, v)
		look(evidence{last, true, false}, tl, v, Options{Labels: labels})
		tl = r.timeline(t, last)
		look(evidence{last, true, true}, tl, v, Options{Labels: labels, Holders: holders})
	}
	return all
}

// beside are true labels of every fourth allocation that a variant recorded and of all weights, as the recorder names them, and a
// variable that holds what no module and no optimizer has at the end.
func (r *labelledRun) beside(tl *timeline.Timeline, v variant) (labels []Label, holders []Holder) {
	n, firstEvent, _ := r.window(v)
	h := Holder{Path: "main().kept"}
	for o, id := range r.match(tl, v, n, firstEvent) {
		c, ok := meaning.CategoryNamed(r.truth.Categories[r.truth.Category[o]])
		switch {
		case !ok || id == timeline.NoAllocation:
		case c == Weights && tl.Outlives(id):
			labels = append(labels, Label{Address: tl.Address(id), Event: -1, Category: c, Name: "layer.weight"})
		case o%4 == 0 && int(id) >= tl.Older():
			labels = append(labels, Label{Address: tl.Address(id), Event: tl.BornAt(id), Category: c})
		case tl.Outlives(id) && c != Gradients && c != OptimizerState:
			h.Tensors = append(h.Tensors, id)
		}
	}
	if len(h.Tensors) > 0 {
		holders = append(holders, h)
	}
	return labels, holders
}
