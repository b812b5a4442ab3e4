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
	ID: "empty_cache_in_loop", Group: mistakes, Severity: "warning",
	Doc: "Memory goes back to the driver by `torch.cuda.empty_cache()` in at least three steps and half of all, and most of " +
		"it is asked for again. The call may be the program's own, or that of every capture of a CUDA graph.",
	Saves: "no memory: each call costs time.",
	Run:   findEmptyCacheInLoop,
}

func findEmptyCacheInLoop(p *facts.Pass) []Draft {
	if !givesBack(p.Dev) || len(p.Classes.Steps) < 3 {
		return nil
	}
	x := emptiedInLoop(p)
	if x.steps < 3 || 2*x.steps < len(p.Classes.Steps) {
		return nil
	}
	var again int64
	segments, events := 0, &p.T.Device.Events
	for i := x.calls[0].Last; i < events.Len(); i++ {
		if a := events.Action[i]; a == snapshot.SegmentAlloc || a == snapshot.SegmentMap {
			again += events.Size[i]
			segments++
		}
	}
	if again < x.back/2 {
		return nil
	}
	back, calls := units.Bytes(x.back), len(x.calls)
	d := Draft{Finding: report.Finding{Severity: report.Warning, Confidence: 0.95}}
	if !x.sure {
		d.Confidence = 0.6
	}
	d.Evidence = []string{fmt.Sprintf("%s, %s each on average", units.Plural(calls, "call"), units.Bytes(x.back/int64(calls))),
		fmt.Sprintf("%s in %s asked of the driver again after the first call: each waits for the GPU", units.Bytes(again),
			units.Plural(segments, "piece"))}
	at := ""
	for _, line := range mostOften(x.where, 1) {
		at = " at " + facts.LineText(line)
	}
	if x.captures*2 > calls {
		d.Title = fmt.Sprintf("CUDA graphs captured in the loop: each capture empties the cache, %s given back in %s and "+
			"asked for again", back, units.Plural(x.steps, "step"))
		d.advise("empty_cache_in_loop.captures", "at", at)
		return []Draft{d}
	}
	d.Title = fmt.Sprintf("empty_cache in the loop: %s given back to the driver in %s, and asked for again", back,
		units.Plural(x.steps, "step"))
	d.advise("empty_cache_in_loop", "at", at)
	if x.captures == 0 && p.Dev.Stacks == "none" && len(p.Dev.Pools) > 0 {
		d.Confidence = min(d.Confidence, 0.5)
		d.Evidence = append(d.Evidence, "there are private pools: capturing a CUDA graph empties the cache, too")
		d.advise("empty_cache_in_loop.either", "at", at)
	}
	return []Draft{d}
}

// emptied are calls that gave the cache back.
type emptied struct {
	calls           []replay.Flush
	steps, captures int // steps with such calls, and calls for the capture of a CUDA graph
	back            int64
	sure            bool
	where           map[frames.Line]int
}

func emptiedInLoop(p *facts.Pass) emptied {
	x := emptied{sure: true, where: map[frames.Line]int{}}
	steps := map[int32]bool{}
	for _, c := range replay.EmptiedCaches(p.T) {
		step, stack := p.StepNear(c.First), p.T.Device.Events.StackOf(c.First)
		if step < 0 {
			continue
		}
		steps[step] = true
		x.sure = x.sure && c.Certain
		x.calls = append(x.calls, c)
		x.back += c.Freed
		if isCapture(p, stack) {
			x.captures++
		}
		if lines := p.View.User(stack); len(lines) > 0 {
			x.where[lines[0]]++
		}
	}
	x.steps = len(steps)
	return x
}

// isCapture reports whether a stack is that of a CUDA graph's capture, which empties
// the cache before it begins.
func isCapture(p *facts.Pass, stack snapshot.StackID) bool {
	s := p.T.Snapshot
	return slices.ContainsFunc(s.Stack(stack), func(f snapshot.FrameID) bool {
		return strings.HasSuffix(s.String(s.Frames[f].File), "torch/cuda/graphs.py")
	})
}
