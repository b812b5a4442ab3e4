package leaks

import (
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/timeline"
)

// keptGradients finds gradients that are zeroed in place instead of freed: they
// live through the next forward and its optimizer step, and no later step makes
// new ones. Gradients that are accumulated over many backwards live long, too,
// but only until the optimizer has used them.
func (l *loop) keptGradients() []Leak {
	optimized, trained := l.endsOf(meaning.Optimizer), l.endsOf(meaning.Backward)
	if len(optimized) == 0 {
		return nil
	}
	var held []survivor
	var bytes, outlived int64 // outlived the optimizer at least once
	var freed int64           // by zero_grad
	for id := range l.t.Len() {
		a := timeline.AllocationID(id)
		born, died := l.t.Born[id], l.died(a)
		if l.c.Category[id] != meaning.Gradients || l.c.Detail[id] == meaning.GradientBucket || died == timeline.Before {
			continue
		}
		if died != timeline.Never && l.clears(died) {
			freed += l.bytes(a)
		}
		if born == timeline.Never {
			born = 0
		}
		used := within(optimized, born, died)
		if len(used) == 0 {
			continue
		}
		outlived += l.bytes(a)
		stays := died == timeline.Never || died > l.last[l.n-1]
		again := len(used) >= 2 && l.stepAt(used[0]) < l.stepAt(used[len(used)-1]) || len(within(trained, used[0], died)) >= 3
		if stays && again && (l.t.Born[id] == timeline.Never || l.c.Phase[id] == meaning.Backward) {
			held = append(held, survivor{a, int32(l.stepAt(born)), int32(l.n)})
			bytes += l.bytes(a)
		}
	}
	if bytes < smallTotal || 10*bytes < 9*outlived || 2*freed > bytes {
		return nil
	}
	shown := 0 // backwards that added to what was there
	for k := max(0, int(held[0].born)); k < l.n; k++ {
		if l.backward[k] != timeline.Never {
			shown++
		}
	}
	leak := Leak{Kind: GradientsKept, Steps: shown, BytesPerStep: bytes, TotalBytes: bytes}
	l.describe(&leak, held)
	leak.Confidence = confidence(shown, 1, true)
	leak.Near = l.optimizerLine()
	return []Leak{leak}
}

// clears reports whether an event is one of zero_grad's.
func (l *loop) clears(event uint32) bool {
	k := l.stepAt(event)
	return k >= 0 && k < l.n && l.spanAt(k, event).Phase == meaning.ZeroGrad
}

// spanAt is a step's phase that an event is in; one of OtherPhase where it is in none.
func (l *loop) spanAt(step int, event uint32) meaning.PhaseSpan {
	phases := l.steps[step].Phases
	k := sort.Search(len(phases), func(k int) bool { return uint32(phases[k].LastEvent) >= event })
	if k == len(phases) || uint32(phases[k].FirstEvent) > event {
		return meaning.PhaseSpan{Phase: meaning.OtherPhase}
	}
	return phases[k]
}

// endsOf are the last events of a phase's spans, in order.
func (l *loop) endsOf(phase meaning.Phase) (ends []uint32) {
	for _, s := range l.steps {
		for _, p := range s.Phases {
			if p.Phase == phase {
				ends = append(ends, uint32(p.LastEvent))
			}
		}
	}
	return ends
}

// within are the events of an ascending list after one and before another.
func within(events []uint32, after, before uint32) []uint32 {
	from := sort.Search(len(events), func(i int) bool { return events[i] > after })
	to := sort.Search(len(events), func(i int) bool { return events[i] >= before })
	return events[from:max(from, to)]
}

// optimizerLine is the user's line that runs the optimizer, as far as its
// allocations show it.
func (l *loop) optimizerLine() Site {
	for id := range l.all() {
		if l.c.Phase[id] != meaning.Optimizer {
			continue
		}
		if lines := l.userLines(l.t.Stack(id)); len(lines) > 0 {
			return siteOf(lines[0], 0)
		}
	}
	return Site{}
}

// stateGone counts the bytes of an optimizer's state that was there before a step
// and that its optimizer drops.
func (l *loop) stateGone(step int) (bytes int64) {
	for i, category := range l.c.Category {
		id := timeline.AllocationID(i)
		f := l.t.FreeRequested[id]
		if category != meaning.OptimizerState || f == timeline.Never || f == timeline.Before {
			continue
		}
		if p := l.spanAt(step, f); p.Phase == meaning.Optimizer && l.t.AliveAt(id, p.FirstEvent) {
			bytes += l.bytes(id)
		}
	}
	return bytes
}

// firstStepState finds the state that the optimizer makes in its first step
// and keeps: the jump that is mistaken for a leak.
func (l *loop) firstStepState() []Leak {
	byStep := make([]int64, l.n)
	var total int64
	var state []survivor
	over := l.lastRequest()
	for id, step := range l.all() {
		if l.c.Category[id] == meaning.OptimizerState && l.t.FreeRequested[id] > over {
			byStep[step] += l.bytes(id)
			total += l.bytes(id)
			state = append(state, survivor{id, int32(step), int32(l.n)})
		}
	}
	step := 0
	for k, bytes := range byStep {
		if bytes > byStep[step] {
			step = k
		}
	}
	if total < 1<<20 || byStep[step]*2 < total || total*100 < l.peakAllocated() {
		return nil
	}
	if l.stateGone(step)*2 >= byStep[step] {
		return nil // every step makes it anew
	}
	kept := slices.DeleteFunc(state, func(s survivor) bool { return int(s.born) != step })
	var sure, weighed float64
	for _, s := range kept {
		sure += float64(l.c.Confidence[s.id]) / 100 * float64(l.bytes(s.id))
		weighed += float64(l.bytes(s.id))
	}
	leak := Leak{Kind: FirstStepState, Steps: 1, BytesPerStep: byStep[step], TotalBytes: byStep[step], Confidence: sure / weighed}
	l.describe(&leak, kept)
	leak.Optimizer = l.optimizerFile(kept)
	return []Leak{leak}
}

// optimizerFile is the file of torch/optim that made some state, without its ending.
func (l *loop) optimizerFile(state []survivor) string {
	s := l.t.Snapshot
	for _, f := range s.Stack(l.t.Stack(state[0].id)) {
		file := strings.ReplaceAll(s.String(s.Frames[f].File), `\`, "/")
		if name, ok := strings.CutSuffix(path.Base(file), ".py"); ok && strings.HasSuffix(path.Dir(file), "torch/optim") &&
			name != "optimizer" {
			return name
		}
	}
	return ""
}
