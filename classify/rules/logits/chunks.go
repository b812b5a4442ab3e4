package logits

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// markChunks marks the logits of a loss that works out its own gradient in
// forward, for a part of the tokens at a time: at the end of a pass that is
// trained on, outside of all layers, requests of one size and its family that
// are larger than all before, and of which nothing is left for backward.
func markChunks(a *look, p rules.Pass) {
	const (
		parts = 4 // the logits and one copy, twice
		large = 1 << 20
	)
	if p.Backward == nil {
		return
	}
	each := func(from int, f func(event int, id timeline.AllocationID, n int64)) {
		for i, id := range a.Allocs(from, p.End) {
			shared := a.Sharing != nil && a.Sharing[i]
			if n := a.Events.Size[i]; n > phases.Scalar && !shared && !isWorkspace(a, id) {
				f(i, id, n)
			}
		}
	}
	var top int64
	count := 0
	each(p.First, func(_ int, _ timeline.AllocationID, n int64) { top, count = max(top, n), count+1 })
	first, seen, before := p.End, 0, 0
	fits := top >= large
	var rest int64
	each(p.First, func(i int, id timeline.AllocationID, n int64) {
		switch {
		case family(n, top):
			first, seen = min(first, i), seen+1
			fits = fits && a.Freed(id) < p.End && a.Birth(id).Depth <= 1
		case first == p.End:
			before++
			rest = max(rest, n)
		case a.WeightSize[n] == 0 && !sameRows(n, top): // the gradient of the weight apart, and of what is left over
			rest = max(rest, n)
		}
	})
	if !fits || seen < parts || top < 2*rest || before < 2*(count-before) {
		return
	}
	each(first, func(_ int, id timeline.AllocationID, n int64) {
		if family(n, top) || a.Freed(id) < p.End && a.WeightSize[n] == 0 && n*64 >= top && sameRows(n, top) {
			a.Chunks[id], a.Widest[id] = true, true
		}
	})
}

func isWorkspace(a *look, id timeline.AllocationID) bool {
	return a.Birth(id).Marks&frames.Workspace != 0 || a.IsWorkspaceBySize(id)
}

// sameRows reports whether two sizes can be logits of different numbers of tokens,
// for as many words.
func sameRows(n, size int64) bool {
	const manyTokens, far = 1 << 16, 16
	r := rules.Row(n, size)
	return n <= far*size && size <= far*n && r >= 2*fewWords && n/r <= manyTokens && size/r <= manyTokens
}

var LogitsInParts = &rules.Rule{
	ID: "logits-in-parts",
	Doc: `At the end of a forward pass that is trained on, outside of all layers, one of several requests of one
size that are larger than all before and of which nothing is left: logits of a loss that is worked out in parts.`,
	Signal: meaning.BySize,
	Born:   rules.AnyTime,
	Needs:  []rules.Need{rules.Training, Marked},
	Begin: func(a *rules.Facts) rules.Says {
		chunks := Marked.Of(a).Chunks
		if len(chunks) == 0 {
			return nil
		}
		return func(id timeline.AllocationID) rules.Claim {
			switch {
			case !chunks[id]:
				return rules.Claim{}
			case a.Birth(id).Marks&(frames.MatMul|frames.Copying) == frames.MatMul:
				return rules.As(meaning.Logits, rules.Likely)
			}
			return rules.KindOf(meaning.Logits, meaning.LogitsCopy, rules.Plausible+5)
		}
	},
}
