package leaks

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
)

// oneGrowth joins what is kept together. With a graph goes what no line made in the same steps:
// of a backward pass that keeps a graph itself. With the largest list, or the graph, goes what
// other lines made in the same steps and what is little beside it: of the same batch.
func (l *growth) oneGrowth(graph []placed, sources [][]placed) ([]placed, [][]placed) {
	const little = 5 // one part in so many
	beside := func(x, of []placed) bool { return l.bytesOf(x)*little <= l.bytesOf(of) }
	if len(graph) > 0 {
		graph, sources = l.absorb(graph, sources, func(x []placed) bool {
			return beside(x, graph) || x[0].stack == 0 && l.ofBackward(slices.Concat(groupsOf(x)...))
		})
	}
	if len(sources) < 2 {
		return graph, sources
	}
	most := slices.MaxFunc(sources, func(a, b []placed) int { return cmp.Compare(l.bytesOf(a), l.bytesOf(b)) })
	rest := slices.DeleteFunc(sources, func(x []placed) bool { return &x[0] == &most[0] })
	most, rest = l.absorb(most, rest, func(x []placed) bool { return x[0].stack != 0 && beside(x, most) })
	return graph, append([][]placed{most}, rest...)
}

// absorb adds to some groups those of others that grow in the same steps and belong with them.
func (l *growth) absorb(into []placed, others [][]placed, with func([]placed) bool) (all []placed, rest [][]placed) {
	all = slices.Clone(into)
	for _, x := range others {
		if l.sameSteps(into, x) && with(x) {
			for _, g := range x {
				g.beside = true
				all = append(all, g)
			}
		} else {
			rest = append(rest, x)
		}
	}
	return all, rest
}

func groupsOf(groups []placed) (kept [][]survivor) {
	for _, g := range groups {
		kept = append(kept, g.kept)
	}
	return kept
}

// bytesOf is what groups keep.
func (l *growth) bytesOf(groups []placed) (bytes int64) {
	for _, g := range groups {
		for _, s := range g.kept {
			bytes += l.bytes(s.id)
		}
	}
	return bytes
}

// sameSteps reports whether two sets of groups begin together and were left by the same steps, but
// for the first, which may make more, and the last two, which may not be over.
func (l *growth) sameSteps(a, b []placed) bool {
	const few = 4
	of := func(groups []placed) (steps []bool) {
		steps = make([]bool, l.n)
		for _, g := range groups {
			for _, s := range g.kept {
				steps[s.born] = true
			}
		}
		if l.n > few {
			return steps[1 : l.n-2]
		}
		return steps[:max(1, l.n-2)]
	}
	x, y := of(a), of(b)
	return slices.Equal(x, y) && slices.Contains(x, true)
}

// ofBackward reports whether a good part of what is kept was made by backward passes.
func (l *growth) ofBackward(kept []survivor) bool {
	const good = 4 // one part in so many
	var made, all int64
	for _, s := range kept {
		all += l.bytes(s.id)
		if s.born >= 0 && l.c.Phase[s.id] == meaning.Backward {
			made += l.bytes(s.id)
		}
	}
	return made*good >= all
}
