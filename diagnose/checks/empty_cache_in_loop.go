package checks

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

var emptyCacheInLoop = Check{
	ID:       "empty_cache_in_loop",
	Group:    mistakes,
	Severity: "warning",
	Doc: "Memory goes back to the driver by `torch.cuda.empty_cache()` in at least three steps and half of all, " +
		"and most of it is asked for again. The call may be the program's own, or that of every capture of a CUDA " +
		"graph.",
	Saves: "no memory: each call costs time.",
	Run:   findEmptyCacheInLoop,
}

// findEmptyCacheInLoop finds programs that give the cache back in every step and
// ask the driver for the same memory again.
func findEmptyCacheInLoop(p *facts.Pass) []Draft {
	if !givesBack(p.Dev) || len(p.Classes.Steps) < 3 {
		return nil
	}
	calls := replay.EmptiedCaches(p.T)
	steps := map[int32]bool{}
	var back, again int64
	sure := true
	events := &p.T.Device.Events
	where := map[frames.Line]int{}
	inLoop, captures := calls[:0], 0
	for _, c := range calls {
		step := p.StepNear(c.First)
		if step < 0 {
			continue
		}
		steps[step] = true
		sure = sure && c.Certain
		inLoop = append(inLoop, c)
		back += c.Freed
		if isCapture(p, events.StackOf(c.First)) {
			captures++
		}
		if lines := p.View.User(events.StackOf(c.First)); len(lines) > 0 {
			where[lines[0]]++
		}
	}
	if len(steps) < 3 || 2*len(steps) < len(p.Classes.Steps) {
		return nil
	}
	segments := 0
	for i := inLoop[0].Last; i < events.Len(); i++ {
		if a := events.Action[i]; a == snapshot.SegmentAlloc || a == snapshot.SegmentMap {
			again += events.Size[i]
			segments++
		}
	}
	if again < back/2 {
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: report.Warning, Confidence: 0.95}}
	if !sure {
		d.Confidence = 0.6
	}
	d.Title = fmt.Sprintf("empty_cache in the loop: %s given back to the driver in %s, and asked for again", units.Bytes(back),
		units.Plural(len(steps), "step"))
	d.Evidence = []string{fmt.Sprintf("%s, %s each on average", units.Plural(len(inLoop), "call"),
		units.Bytes(back/int64(len(inLoop)))),
		fmt.Sprintf("%s in %s asked of the driver again after the first call: each waits for the GPU", units.Bytes(again),
			units.Plural(segments, "piece"))}
	at := ""
	for _, line := range mostOften(where, 1) {
		at = " at " + facts.LineText(line)
	}
	d.Fix = ptr("Take torch.cuda.empty_cache() out of the loop" + at +
		": it makes no room that PyTorch wouldn't find itself, and costs time in every step")
	switch {
	case captures*2 > len(inLoop):
		d.Title = fmt.Sprintf("CUDA graphs captured in the loop: each capture empties the cache, %s given back in %s and "+
			"asked for again", units.Bytes(back), units.Plural(len(steps), "step"))
		d.Fix = ptr("Capture once" + at + " and run the same graphs again: batches, lengths and caches of one size, or of a " +
			"few, padded; or compile without CUDA graphs")
	case captures == 0 && p.Dev.Stacks == "none" && len(p.Dev.Pools) > 0:
		d.Confidence = min(d.Confidence, 0.5)
		d.Evidence = append(d.Evidence, "there are private pools: capturing a CUDA graph empties the cache, too")
		*d.Fix += "; where it is CUDA graphs that are captured in every step, capture them once"
	}
	return []Draft{d}
}

// isCapture tells whether a stack is that of a CUDA graph's capture, which empties
// the cache before it begins.
func isCapture(p *facts.Pass, stack snapshot.StackID) bool {
	s := p.T.Snapshot
	return slices.ContainsFunc(s.Stack(stack), func(f snapshot.FrameID) bool {
		return strings.HasSuffix(s.String(s.Frames[f].File), "torch/cuda/graphs.py")
	})
}
