package classify

import (
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// markChunks marks the scores of a loss that works out its own gradient in
// forward, for a part of the tokens at a time: at the end of a pass that is
// trained on, outside of all layers, requests of one size and its family that
// are larger than all before, and of which nothing is left for backward.
func markChunks(a *analysis, p pass) {
	const (
		parts = 4 // the scores and one copy, twice
		large = 1 << 20
	)
	if p.backward == nil {
		return
	}
	each := func(from int, f func(event int, id timeline.AllocationID, n int64)) {
		for i := from; i < p.end; i++ {
			n := a.events.Size[i]
			if a.events.Action[i] != snapshot.Alloc || n <= scalar || a.sharing != nil && a.sharing[i] {
				continue
			}
			if id := a.t.Of[i]; a.birth(id).Marks&frames.Workspace == 0 && !a.IsWorkspaceBySize(id) {
				f(i, id, n)
			}
		}
	}
	var top int64
	count := 0
	each(p.first, func(_ int, _ timeline.AllocationID, n int64) { top, count = max(top, n), count+1 })
	first, seen, before := p.end, 0, 0
	fits := top >= large
	var rest int64
	each(p.first, func(i int, id timeline.AllocationID, n int64) {
		switch {
		case family(n, top):
			first, seen = min(first, i), seen+1
			fits = fits && a.freed(id) < p.end && a.birth(id).depth <= 1
		case first == p.end:
			before++
			rest = max(rest, n)
		case a.weightSize[n] == 0 && !sameRows(n, top): // the gradient of the weight apart, and of what is left over
			rest = max(rest, n)
		}
	})
	if !fits || seen < parts || top < 2*rest || before < 2*(count-before) {
		return
	}
	each(first, func(_ int, id timeline.AllocationID, n int64) {
		if family(n, top) || a.freed(id) < p.end && a.weightSize[n] == 0 && n*64 >= top && sameRows(n, top) {
			a.chunks[id], a.widest[id] = true, true
		}
	})
}

var logitsInParts = &Rule{
	ID: "logits-in-parts",
	Doc: `At the end of a forward pass that is trained on, outside of all layers, one of several requests of one
size that are larger than all before and of which nothing is left: logits of a loss that is worked out in parts.`,
	Signal: BySize,
	Born:   anyTime,
	Needs:  []Need{Training, Sizes, Lives},
	Begin: func(a *analysis) func(timeline.AllocationID) claim {
		if len(a.chunks) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) claim {
			switch {
			case !a.chunks[id]:
				return claim{}
			case a.birth(id).Marks&(frames.MatMul|frames.Copying) == frames.MatMul:
				return as(Logits, likely)
			}
			return kindOf(Logits, LogitsCopy, plausible+5)
		}
	},
}
