package leaks

import (
	"cmp"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// maxSites bounds the lines listed for one leak.
const maxSites = 32

// describe fills in what is kept: allocations, category and sites. It gives the bytes by the stacks that made them.
func (l *loop) describe(leak *Leak, kept []survivor) (byStack map[snapshot.StackID]int64) {
	var byCategory [meaning.NumCategories]int64
	byStack = map[snapshot.StackID]int64{}
	for _, s := range kept {
		leak.Allocations = append(leak.Allocations, s.id)
		byCategory[l.c.Category[s.id]] += l.bytes(s.id)
		byStack[l.t.Stack(s.id)] += l.bytes(s.id)
	}
	for c, bytes := range byCategory {
		if bytes > byCategory[leak.Category] {
			leak.Category = meaning.Category(c)
		}
	}
	leak.Sites = l.sites(byStack)
	if len(leak.Sites) > 0 {
		leak.Site = leak.Sites[0]
	}
	return byStack
}

// sites are the user's lines on stacks, most bytes first. The first of them is the
// innermost of those with nearly all: it says more, and a number made elsewhere,
// such as a GradScaler's, adds nothing to what the outer ones hold.
func (l *loop) sites(byStack map[snapshot.StackID]int64) []Site {
	type total struct {
		bytes int64
		depth int
	}
	totals := map[frames.Line]total{}
	for stack, bytes := range byStack {
		if stack == 0 {
			continue
		}
		seen := map[frames.Line]bool{}
		for depth, line := range l.userLines(stack) {
			if seen[line] { // recursion
				continue
			}
			seen[line] = true
			now, known := totals[line]
			if !known || depth < now.depth {
				now.depth = depth
			}
			now.bytes += bytes
			totals[line] = now
		}
	}
	lines := make([]frames.Line, 0, len(totals))
	for line := range totals {
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(a, b frames.Line) int {
		x, y := totals[a], totals[b]
		return cmp.Or(cmp.Compare(y.bytes, x.bytes), cmp.Compare(x.depth, y.depth),
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Function, b.Function))
	})
	const nearlyAll = 99 // percent
	inner := 0
	for i, line := range lines {
		if totals[line].bytes*100 >= totals[lines[0]].bytes*nearlyAll && totals[line].depth < totals[lines[inner]].depth &&
			!called[line.Function] {
			inner = i
		}
	}
	if inner > 0 {
		first := lines[inner]
		copy(lines[1:], lines[:inner])
		lines[0] = first
	}
	var sites []Site
	for _, line := range lines[:min(len(lines), maxSites)] {
		sites = append(sites, siteOf(line, totals[line].bytes))
	}
	return sites
}

// called are methods that torch calls on the user's behalf: who keeps their
// result stands further out.
var called = map[string]bool{"forward": true, "__call__": true, "<lambda>": true, "wrapper": true}

// keeper guesses the line that keeps: for a graph that is trained on where its
// last tensor is made, else where most of the bytes come from, seen from outside
// the modules.
func (l *loop) keeper(kind string, p pace) (Site, snapshot.StackID) {
	var best timeline.AllocationID
	var bytes int64 = -1
	step := p.alive[0].born // the last step but one: the last may not be over
	for _, s := range p.alive {
		if int(s.born) < l.n-1 {
			step = s.born
		}
	}
	for _, s := range p.alive {
		if s.born != step || len(l.userLines(l.t.Stack(s.id))) == 0 {
			continue
		}
		if size := l.bytes(s.id); kind == RetainedGraph && !l.untrained() && !l.inBackward(s) || size > bytes {
			best, bytes = s.id, size
		}
	}
	if bytes < 0 {
		return Site{}, 0
	}
	lines := l.userLines(l.t.Stack(best))
	at := lines[0]
	if kind == GrowingList || !l.trains && !l.untrained() {
		for _, line := range lines {
			if at = line; !called[line.Function] {
				break
			}
		}
	}
	if kind == RetainedGraph && l.untrained() {
		at = l.call(lines, p)
	}
	return siteOf(at, l.under(at, p)), l.t.Stack(best)
}

// under is what survivors take that a line, or what it called, made.
func (l *loop) under(at frames.Line, p pace) (bytes int64) {
	for _, s := range p.alive {
		if slices.Contains(l.userLines(l.t.Stack(s.id)), at) {
			bytes += l.bytes(s.id)
		}
	}
	return bytes
}

func (l *loop) inBackward(s survivor) bool {
	b := l.backward[s.born]
	return b != timeline.Never && l.t.Born[s.id] >= b
}

// holder guesses the line whose variable holds what was made below it: the
// innermost that nearly all of it was made under, seen from outside the modules.
// It is empty where no line stands for that much. The stack is that of most
// bytes that shows the line.
func (l *loop) holder(byStack map[snapshot.StackID]int64) (Site, snapshot.StackID) {
	type under struct {
		bytes int64
		depth int // most lines that it was called through
		most  snapshot.StackID
	}
	covers := map[frames.Line]under{}
	var all int64
	for stack, bytes := range byStack {
		lines := l.userLines(stack)
		if len(lines) > 0 {
			all += bytes
		}
		seen := map[frames.Line]bool{}
		for i, line := range lines {
			if called[line.Function] || seen[line] {
				continue
			}
			seen[line] = true
			u := covers[line]
			if most := byStack[u.most]; u.bytes == 0 || bytes > most || bytes == most && stack < u.most {
				u.most = stack
			}
			covers[line] = under{u.bytes + bytes, max(u.depth, len(lines)-i), u.most}
		}
	}
	var best Site
	depth, shows := 0, snapshot.StackID(0)
	for line, u := range covers {
		site := siteOf(line, u.bytes)
		if u.bytes*20 >= all*19 && (best.File == "" || cmp.Or(cmp.Compare(u.depth, depth), cmp.Compare(u.bytes, best.Bytes),
			compareSites(best, site)) > 0) {
			best, depth, shows = site, u.depth, u.most
		}
	}
	return best, shows
}

func compareSites(a, b Site) int {
	return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Function, b.Function))
}

// bySource gathers groups whose innermost user function is the same: one line
// of a program often keeps several tensors.
func (l *growth) bySource(groups []placed) [][]placed {
	type source struct{ file, function string }
	index := map[source]int{}
	var gathered [][]placed
	for _, g := range groups {
		var from source
		if g.stack != 0 {
			for _, line := range l.userLines(g.stack) {
				if from = (source{line.File, line.Function}); !called[line.Function] {
					break
				}
			}
		}
		i, ok := index[from]
		if !ok {
			i = len(gathered)
			index[from] = i
			gathered = append(gathered, nil)
		}
		gathered[i] = append(gathered[i], g)
	}
	return gathered
}
