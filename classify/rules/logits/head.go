package logits

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// FindHeads finds what makes the logits: the last linear map of a pass, when the
// model itself calls it and the other maps lie in modules below; or, wherever it
// lies, when its result is larger than those of all others and has a score
// for each word and token.
//
// complexity: a state machine over allocations, with a case for each kind.
func FindHeads(a *rules.Facts) {
	a.Heads = make([]bool, len(a.Stacks))
	deeper := 0 // maps below the model since the last candidate
	candidate := timeline.NoAllocation
	var wide, whole wideHead // until the model's own code makes something, or the program
	for i := a.Loop; i < a.Last && a.All&frames.MatMul != 0; i++ {
		if a.Events.Action[i] != snapshot.Alloc {
			continue
		}
		id := a.Timeline.Of[i]
		e := a.Birth(id)
		if e.Marks&(frames.Workspace|frames.Cast|frames.Engine) != 0 || phases.CublasSize(a.Events.Size[i]) &&
			(!a.Recorded.Native ||
				a.Freed(id)-i <= 2) {
			continue
		}
		isMap := e.Marks&frames.MatMul != 0
		switch {
		case isMap:
			wide.add(id, a.Timeline.Requested(id))
			whole.add(id, a.Timeline.Requested(id))
		case e.Depth <= 1:
			markHead(a, wide.end(a.Timeline.Requested(id)))
			if e.Depth == 0 {
				markHead(a, whole.end(a.Timeline.Requested(id)))
			}
		}
		switch {
		case isMap && e.Depth == 2:
			if deeper >= 3 {
				candidate = id
			}
			deeper = 0
		case isMap && e.Depth > 2:
			deeper++
			candidate = timeline.NoAllocation
		case e.Depth <= 1 && candidate != timeline.NoAllocation:
			a.Heads[a.Timeline.Stack(candidate)] = true
			candidate = timeline.NoAllocation
		}
	}
}

func markHead(a *rules.Facts, head timeline.AllocationID) {
	if head != timeline.NoAllocation {
		a.Heads[a.Timeline.Stack(head)] = true
	}
}

// wideHead follows the linear maps of a pass. What is as wide as the batch that the
// first one was given is that made anew, as autoencoders do, and no logits.
type wideHead struct {
	maps         int
	last         timeline.AllocationID
	bytes, other int64     // of the last map's result, of the largest of the others
	ids          [16]int64 // bytes of the last tensors outside of the model: token ids among them
	n            int
	seen, given  bool // a wide result; one as large as what was there before the first
}

func (w *wideHead) add(id timeline.AllocationID, bytes int64) {
	w.maps++
	w.other = max(w.other, w.bytes)
	w.last, w.bytes = id, bytes
}

// end is told of tensors outside of the model, of which the first ends a pass; it
// gives what has made logits then.
func (w *wideHead) end(bytes int64) timeline.AllocationID {
	head := timeline.NoAllocation
	if w.maps > 3 && w.bytes > w.other+w.other/2 {
		if !w.seen {
			w.seen, w.given = true, slices.ContainsFunc(w.ids[:], func(n int64) bool { return family(n, w.bytes) })
		}
		if !w.given && w.overWords() {
			head = w.last
		}
	}
	w.maps, w.bytes, w.other = 0, 0, 0
	w.ids[w.n%len(w.ids)] = bytes
	w.n++
	return head
}

// overWords reports whether the result has a number of 2 or 4 bytes for each of the
// tokens, whose ids have 8, and of at least so many words.
func (w *wideHead) overWords() bool {
	const manyWords = 1 << 20
	for _, bytes := range w.ids {
		for _, score := range [...]int64{2, 4} {
			row := bytes / 8 * score
			if bytes >= 8 && bytes%8 == 0 && w.bytes%row == 0 && w.bytes/row >= fewWords && w.bytes/row <= manyWords {
				return true
			}
		}
	}
	return false
}

// MarkLogits marks the logits of passes without a loss, and the copies that the
// program makes of them.
func MarkLogits(a *rules.Facts) {
	if !slices.Contains(a.Heads, true) {
		return
	}
	if !a.Trains {
		markLogitsIn(a, a.Loop, a.Last)
	}
	for _, steps := range a.Untrained {
		markLogitsIn(a, steps[0].FirstEvent, steps[len(steps)-1].LastEvent+1)
	}
}

func markLogitsIn(a *rules.Facts, from, to int) {
	var size int64
	for i := from; i < to; i++ {
		if a.Events.Action[i] != snapshot.Alloc {
			continue
		}
		id, n := a.Timeline.Of[i], a.Events.Size[i]
		e := a.Birth(id)
		switch {
		case e.Marks&frames.Workspace != 0 || !a.Recorded.Native && phases.CublasSize(n):
		case a.Heads[a.Timeline.Stack(id)]:
			if a.Logits[id] == meaning.NoDetail {
				a.Logits[id] = plain
			}
			size = n
		case e.Depth > 1:
			size = 0
		case size > 0 && e.Marks&frames.MatMul == 0 && family(n, size):
			a.Logits[id] = meaning.LogitsCopy
		}
	}
}
