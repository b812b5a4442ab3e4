package phases

import (
	"maps"
	"slices"
	"sort"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
)

// LoadedBatches tells data by the lines that load it.
var LoadedBatches = &Signal{
	ID: "loaded-batches",
	Doc: `The program's own lines that made the first batch load others wherever they allocate again outside of a pass. The
first batch is what the loop begins with, up to the first work of another phase; where no module runs forward, what of that is
still there after the backward pass. In a recording that begins within the loop a line of which nothing ever goes loads nothing,
beside others. One line may load, run the model and compute the loss: then it counts as loading only
between passes.`,
	Needs: []Need{Stacks},
	Find: func(f *facts) found {
		end, modules := firstBatch(f)
		x := found{loads: map[snapshot.StackID]bool{}}
		for i := range f.allocs(f.Loop, end) {
			if id := f.Events.StackOf(i); f.Stacks[id].Marks&frames.UserInner != 0 {
				x.loads[id] = true
			}
		}
		rest, keeps := maps.Clone(x.loads), f.keeps()
		maps.DeleteFunc(rest, func(id snapshot.StackID, _ bool) bool { return keeps[id] })
		if len(rest) > 0 {
			x.loads = rest
		}
		if len(x.loads) == 0 {
			return x
		}
		trains := slices.ContainsFunc(f.hints, func(s said) bool { return s.hint() == meaning.HintOf(meaning.Backward) })
		last, back := meaning.NoHint, false
		for i := f.Loop; i < f.Last; i++ {
			h := f.hint(i)
			back = back || h == meaning.HintOf(meaning.Backward)
			computing := trains && last.Is(meaning.Forward, meaning.Generate) && (modules || !back)
			if h == 0 && f.Events.Action[i] == snapshot.Alloc && !computing {
				switch {
				case x.loads[f.Events.StackOf(i)]:
					h, back = meaning.HintOf(meaning.Data), false
					x.spans.add(i, i+1, meaning.Data)
				case !modules:
					last = meaning.HintOf(meaning.Forward)
				}
			}
			if h != 0 {
				last = h
			}
		}
		return x
	},
}

// keeps tells, where a recording begins within the loop, the lines of which nothing ever goes: what they make is kept by the
// program, and no batch. A queue's line may be such one, while as large ones from before go.
func (f *facts) keeps() map[snapshot.StackID]bool {
	const several, part = 3, 3                    // blocks; one in so many bytes
	type line struct{ blocks, bytes, gone int64 } // gone: as large, from before
	type like struct{ stack, bytes int64 }
	keeps, lines, gone, seen := map[snapshot.StackID]bool{}, map[snapshot.StackID]line{}, map[int64]int{}, map[like]int{}
	if f.Timeline.Older() == 0 || f.All&frames.UserInner == 0 {
		return keeps
	}
	for i, id := range f.frees(0, f.Last) {
		if f.Born(id) < 0 && !f.hint(i).Is(meaning.Backward) {
			gone[f.Timeline.Requested(id)]++
		}
	}
	for i := range f.allocs(f.Loop, f.Last) {
		id, n := f.Events.StackOf(i), f.Events.Size[i]
		if f.Stacks[id].Marks&frames.UserInner == 0 {
			continue
		}
		x, k := lines[id], like{int64(id), n}
		x.blocks, x.bytes = x.blocks+1, x.bytes+n
		if seen[k]++; seen[k] <= gone[n] {
			x.gone += n
		}
		if f.Freed(f.Timeline.Of[i]) < f.Last {
			x.blocks = -int64(f.Last)
		}
		lines[id] = x
	}
	for id, x := range lines {
		keeps[id] = x.blocks >= several && x.gone*part < x.bytes
	}
	return keeps
}

// firstBatch is the event after the first batch, and whether modules run forward.
func firstBatch(f *facts) (end int, modules bool) {
	upTo := func(ps ...meaning.Phase) int {
		i := f.Loop
		for i < f.Last && (f.hint(i) == 0 || f.hint(i).Is(ps...)) {
			i++
		}
		return i
	}
	end = upTo(meaning.Data)
	if back := upTo(meaning.Data, meaning.Forward, meaning.ZeroGrad); f.All&frames.InModule == 0 && back < f.Last {
		end = back // torch's functions that a program calls itself are not where its forward begins
	}
	if end == f.Last || f.hint(end) != meaning.HintOf(meaning.Backward) {
		return end, true
	}
	back := end // what backward frees is no batch
	for i := end; i < f.Last && (f.hint(i) == 0 || f.hint(i) == meaning.HintOf(meaning.Backward)); i++ {
		if f.hint(i) != 0 || !f.Recorded.Frees && back == i-1 && f.Events.Action[i] != snapshot.Alloc {
			back = i
		}
	}
	return f.batchEnd(f.Loop, end, back), false
}

// batchEnd is where the batch has been loaded: what an iteration begins with and what outlives its backward, with a few
// short-lived helpers in between. A pass that was cut off leaves what its forward saved, too, and a graph that goes
// later, at once or in another pass, is none.
func (f *facts) batchEnd(from, to, end int) int {
	most := 3 // helpers
	if end >= f.Last-1 || f.FailedBetween(to, end) {
		most = 0
	}
	const graph = 8 // blocks
	batch, helpers := from, 0
	nodes, first := 0, from // of a graph
	for i := from; i < to && helpers <= most; i++ {
		if f.Events.Action[i] != snapshot.Alloc {
			continue
		}
		switch gone := f.Freed(f.Timeline.Of[i]); {
		case gone > end:
			if nodes++; !f.FromItsEnd(gone) && !f.inRoot(gone) {
				nodes, first = 0, i+1
			}
			if batch = i + 1; nodes >= graph {
				return first
			}
		case gone-i <= 16:
			helpers++
		default:
			helpers = 4
		}
	}
	for batch > from && batch < to && f.Events.Action[batch] != snapshot.Alloc {
		batch++
	}
	return batch
}

// inRoot is true of an event of a backward pass that no stack shows.
func (f *facts) inRoot(event int) bool {
	i := sort.Search(len(f.roots), func(i int) bool { return f.roots[i].first >= event })
	return i > 0 && event < f.roots[i-1].end
}
