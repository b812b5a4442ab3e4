package phases

import (
	"cmp"
	"slices"
	"sort"
	"strings"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot"
)

// window is an annotated range of events, from first up to but without end.
type window struct {
	phase      meaning.Phase
	first, end int
	closure    bool // an optimizer's step that runs forward and backward itself
	fused      bool // within a backward pass
	ends       bool // the last step of a backward pass that has some
}

// NamedRanges are the ranges that torch and its users name.
var NamedRanges = &Signal{
	ID: "named-ranges",
	Doc: `A range that torch or the program names covers the event: Optimizer.step, Optimizer.zero_grad, a data loader's
enumeration, or forward, backward, rollout and the like, by record_function. PyTorch 2.5 and newer record them,
even without stacks. A range that was never left lasts to the end of the recording; the step of an optimizer that runs forward
or backward itself, within which other ranges lie or stacks show a backward pass, says nothing by itself.`,
	Needs: []Need{Times},
	Find: func(f *facts) found {
		x := found{windows: annotated(f.Program)}
		done := 0 // windows may overlap: each event once
		var backward []int
		if slices.ContainsFunc(x.windows, func(w window) bool { return w.phase == meaning.Optimizer }) {
			for k := range f.allocs(0, f.Last) {
				if f.hint(k).Is(meaning.Backward) {
					backward = append(backward, k)
				}
			}
		}
		for i := range x.windows {
			w := &x.windows[i]
			if w.phase == meaning.Optimizer {
				k, _ := slices.BinarySearch(backward, w.first)
				w.closure = w.closure || k < len(backward) && backward[k] < w.end
			}
			if w.closure {
				continue
			}
			if w.phase == meaning.Generate { // by modules, as stacks say
				x.spans = append(x.spans, span{first: int32(max(w.first, done)), end: int32(max(w.end, done)), phase: w.phase,
					instead: meaning.HintOf(meaning.Forward)})
			}
			x.spans.add(max(w.first, done), w.end, w.phase)
			if w.phase == meaning.Optimizer || w.phase == meaning.ZeroGrad {
				x.covered.add(max(w.first, done), w.end, w.phase)
			}
			done = max(done, w.end)
		}
		return x
	},
}

// annotated turns named ranges into events by their time.
func annotated(a *Program) []window {
	type key struct {
		name   snapshot.StringID
		device int
	}
	open := map[key][]int64{}
	var out []window
	add := func(p meaning.Phase, first, end int) {
		if first < a.Last && end > 0 {
			out = append(out, window{phase: p, first: first, end: end})
		}
	}
	for _, n := range a.Timeline.Snapshot.Annotations {
		phase, ok := phaseNamed(a.Timeline.Snapshot.String(n.Name))
		if !ok || n.Device != a.Timeline.Device.Ordinal && n.Device >= 0 {
			continue
		}
		k := key{n.Name, n.Device}
		if n.Start {
			open[k] = append(open[k], n.TimeUS)
			continue
		}
		if starts := open[k]; len(starts) > 0 {
			add(phase, a.eventAt(starts[len(starts)-1]), a.eventAt(n.TimeUS+1))
			open[k] = starts[:len(starts)-1]
		}
	}
	for k, starts := range open { // a range that was never left: the recording ends in it
		for _, s := range starts {
			if phase, _ := phaseNamed(a.Timeline.Snapshot.String(k.name)); phase != meaning.Data {
				add(phase, a.eventAt(s), a.Last)
			}
		}
	}
	slices.SortFunc(out, func(a, b window) int {
		return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.end, b.end), cmp.Compare(a.phase, b.phase))
	})
	for i := range out {
		if w := &out[i]; w.phase == meaning.Optimizer {
			w.closure = slices.ContainsFunc(inside(out, i), func(x window) bool { return x.phase != w.phase && x.end < w.end })
		}
	}
	return out
}

// inside are the windows that begin within one, itself among them: sorted by their first events, and at the same event the
// shorter one first.
func inside(windows []window, k int) []window {
	if windows[k].first >= windows[k].end {
		return nil
	}
	from, to := k, k
	for from > 0 && windows[from-1].first == windows[k].first {
		from--
	}
	for to < len(windows) && windows[to].first < windows[k].end {
		to++
	}
	return windows[from:to]
}

// eventAt is the first event at or after a time.
func (a *Program) eventAt(us int64) int {
	return sort.Search(a.Last, func(i int) bool { return a.Events.TimeUS[i] >= us })
}

// Communicates marks the events within the ranges that FSDP names.
func (a *Program) Communicates() []bool {
	if a.Events.TimeUS == nil {
		return nil
	}
	var depth []int32 // by event: ranges entered less ranges left
	open := map[snapshot.StringID]int64{}
	for _, n := range a.Timeline.Snapshot.Annotations {
		name, _, _ := strings.Cut(a.Timeline.Snapshot.String(n.Name), " ") // the module follows in brackets
		switch name {
		case "FSDP::all_gather", "FSDP::all_gather_copy_out", "FSDP::post_backward_reduce":
		default:
			continue
		}
		if start, ok := open[n.Name]; n.Start {
			open[n.Name] = n.TimeUS
		} else if ok {
			if depth == nil {
				depth = make([]int32, a.Last+1)
			}
			depth[a.eventAt(start)]++
			depth[a.eventAt(n.TimeUS+1)]--
			delete(open, n.Name)
		}
	}
	if depth == nil {
		return nil
	}
	out := pages.Make[bool](a.Last)
	inside := int32(0)
	for i := range out {
		inside += depth[i]
		out[i] = inside > 0
	}
	return out
}

// phaseNamed is the phase that an annotation's name stands for.
func phaseNamed(name string) (meaning.Phase, bool) {
	before, _, ours := strings.Cut(name, "#")
	if p, ok := rangesOfTorch[before]; ok && ours {
		return p, true
	}
	if len(name) > 64 {
		return 0, false // none of those of programs
	}
	p, ok := rangesOfPrograms[strings.Trim(strings.ToLower(name), "# ")]
	return p, ok
}

// The names of ranges: torch's go on with # and more.
var (
	rangesOfTorch = map[string]meaning.Phase{"Optimizer.step": meaning.Optimizer, "Optimizer.zero_grad": meaning.ZeroGrad,
		"enumerate(DataLoader)": meaning.Data}
	rangesOfPrograms = map[string]meaning.Phase{"forward": meaning.Forward, "backward": meaning.Backward,
		"optimizer": meaning.Optimizer, "optimizer_step": meaning.Optimizer, "zero_grad": meaning.ZeroGrad, "data": meaning.Data,
		"data_loading": meaning.Data, "generate": meaning.Generate, "generation": meaning.Generate, "rollout": meaning.Generate}
	rangesOfSteps = map[string]bool{"profilerstep": true, "step": true, "iteration": true, "iter": true, "train_step": true,
		"training_step": true}
)
