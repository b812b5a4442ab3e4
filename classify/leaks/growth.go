package leaks

import (
	"math"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// A survivor outlives its own step and the whole next one.
type survivor struct {
	id         timeline.AllocationID
	born, died int32 // steps; died is the number of steps for what is alive after the last
}

// place is where survivors are made: a stack, or without stacks a size. The
// stream of a program's allocations has few of them.
type place struct {
	stack     snapshot.StackID
	requested int64 // 0 where there is a stack: sizes may vary
}

// placeOf is where an allocation was made.
func placeOf(l *loop, id timeline.AllocationID) place {
	if stack := l.t.Stack(id); stack != 0 && len(l.userLines(stack)) > 0 {
		return place{stack: stack}
	}
	return place{requested: l.t.Requested(id)}
}

type placed struct {
	place
	kept   []survivor
	beside bool // another growth that it goes with, whose line counts
}

// Growth below these is of no consequence: a million steps of it fit.
const (
	smallGrowth = 16 << 10 // bytes per step
	smallTotal  = 64 << 10 // bytes
	smallPart   = 2        // percent of the peak
)

// growth finds what every step leaves behind: lists that grow, and graphs that are retained.
type growth struct {
	*loop
	gradients []int64 // bytes made in each step, once asked for
	gone      []int64 // bytes of what was there before the first step that go in each, once asked for
}

// survivors groups what outlives its step by the place where it was made, in
// order of first appearance.
func (l *growth) survivors() []placed {
	index := map[place]int{}
	var groups []placed
	for id, step := range l.all() {
		next := min(step+1, l.n-1)
		died := l.died(id)
		if died != timeline.Never && died <= l.last[next] || l.belongs(id) {
			continue
		}
		p := placeOf(l.loop, id)
		i, ok := index[p]
		if !ok {
			i = len(groups)
			index[p] = i
			groups = append(groups, placed{place: p})
		}
		end := l.n
		if died != timeline.Never {
			end = l.stepAt(died)
		}
		groups[i].kept = append(groups[i].kept, survivor{id, int32(step), int32(end)})
	}
	return groups
}

// belongs reports whether an allocation is meant to stay. Being alive for long is
// no reason to believe it: that is what a leak looks like, too.
func (l *growth) belongs(id timeline.AllocationID) bool {
	if pool := l.t.Pool(id); pool != 0 { // what a captured graph makes stays as long as the graph
		return true
	}
	switch l.c.Category[id] {
	case meaning.Workspace:
		return true
	case meaning.KVCache: // grows while it decodes, but nothing trained needs it
		return !l.trains && !l.serves
	case meaning.Weights, meaning.Communication:
		s := l.c.Signal[id]
		return s != meaning.BySite && s != meaning.ByLife && s != meaning.BySize
	}
	return false
}

// pace is how a group of survivors grows.
type pace struct {
	steps       int // distinct steps that left something
	first, last int
	regular     float64 // share of the expected steps that did
	alive       []survivor
	bytes       int64 // alive after the last step
	rise        int   // of a queue, by how many it is longer after each step; 0: it is none
}

// paceOf reports whether survivors keep coming, and at which pace.
func (l *growth) paceOf(kept []survivor) (p pace, grows bool) {
	end := l.n - 1
	if l.cut() {
		end--
	}
	return l.paceUpTo(kept, end)
}

// paceUpTo reports whether survivors keep coming up to a step, and at which pace.
// What is made once (optimizer state), twice (DDP rebuilds its buckets in the second
// step) or in a queue of some length doesn't.
func (l *growth) paceUpTo(kept []survivor, end int) (p pace, grows bool) {
	var steps []int
	firstDead, firstAlive := int32(l.n), int32(l.n)
	dead, staying, latest := 0, 0, int32(-1) // those that are gone; steps of what is alive, and the last of them
	for _, s := range kept {
		if k := int(s.born); len(steps) == 0 || steps[len(steps)-1] != k {
			steps = append(steps, k)
		}
		if int(s.died) < l.n {
			dead++
			firstDead = min(firstDead, s.born)
			continue
		}
		firstAlive = min(firstAlive, s.born)
		if s.born != latest {
			staying, latest = staying+1, s.born
		}
		p.alive = append(p.alive, s)
		p.bytes += l.bytes(s.id)
	}
	if len(steps) < 2 || len(p.alive) < 2 || dead*4 > 3*len(kept) {
		return p, false
	}
	if firstDead < firstAlive { // first in, first out
		if p.rise = l.rise(kept, end); p.rise == 0 {
			return p, false
		}
	}
	if len(steps) == 2 && steps[1] > end && p.bytes*100 < l.peakAllocated() {
		return p, false // the second step isn't over: what it holds may be a batch beside the next one
	}
	p.steps, p.first, p.last = len(steps), steps[0], steps[len(steps)-1]
	var gaps []int
	for i := 1; i < len(steps); i++ {
		gaps = append(gaps, steps[i]-steps[i-1])
	}
	slices.Sort(gaps)
	usual := gaps[(len(gaps)-1)/2]
	expected := max(1, (end-p.first)/usual+1)
	p.regular = min(1, float64(p.steps)/float64(expected))
	switch {
	case p.last+usual+min(1, usual-1) <= end: // it has stopped; what comes every few steps may come a step late
		return p, false
	case (p.steps < 3 || dead > 0 && staying < 3) && l.whole() > 2: // made in two steps of many, or takes the place of what goes
		return p, false
	case p.regular < 0.7 || gaps[len(gaps)-1] > 3*usual:
		return p, false
	}
	return p, true
}

// rise is by how many more survivors are there after most steps up to one than after the
// step before; 0 where there are fewer after any. Those of the first two steps
// aren't told from what is used at once.
func (l *growth) rise(kept []survivor, end int) int {
	const few = 4 // steps
	first := int(kept[0].born) + 2
	if end-first+1 < few {
		return 0
	}
	more := make([]int, l.n+1) // by step
	for _, s := range kept {
		more[s.born]++
		more[s.died]--
	}
	more = more[first : end+1]
	late, lately := more[len(more)*2/3:], 0
	for _, n := range late {
		lately += n
	}
	slices.Sort(more)
	usual, same := more[len(more)/2], 0
	for _, n := range more {
		if n == usual {
			same++
		}
	}
	if more[0] < 0 || same*2 <= len(more) || lately <= 0 { // a container that is full by now
		return 0
	}
	return usual
}

// leaks are what every step leaves behind, graphs apart from lists.
func (l *growth) leaks() []Leak {
	var growing, rest []placed
	for _, all := range l.survivors() {
		g, p, ok := l.grows(all)
		switch {
		case ok && l.replaces(p):
		case ok && !l.stateOf(g.kept) && (g.stack != 0 || l.even(p)) && (p.steps > 2 || l.twice(&g)):
			growing = append(growing, g)
		case g.requested > 0:
			rest = append(rest, all)
		}
	}
	if pool, ok := l.pooled(rest); ok && l.t.Older() == 0 {
		growing = append(growing, pool)
	}
	if len(growing) == 0 || !l.untrained() && !l.works() || l.inModule() {
		return nil
	}
	graph, lists := l.split(growing)
	var leaks []Leak
	graph, sources := l.oneGrowth(graph, l.bySource(lists))
	if len(graph) > 0 {
		leaks = l.claim(leaks, RetainedGraph, graph)
	}
	for _, list := range sources {
		leaks = l.claim(leaks, GrowingList, list)
	}
	var most int64 // bytes per step
	for i := range leaks {
		most = max(most, leaks[i].BytesPerStep)
	}
	return slices.DeleteFunc(leaks, func(leak Leak) bool { // so little beside another may be part of it, where no line tells
		return leak.File == "" && leak.BytesPerStep*100 < most
	})
}

// grows reports whether a group keeps growing, and gives what of it does.
func (l *growth) grows(all placed) (g placed, p pace, ok bool) {
	if all.stack != 0 {
		p, ok = l.paceOf(all.kept)
		return all, p, ok
	}
	g = placed{place: all.place, kept: l.recurring(all.kept)}
	p, ok = l.paceOf(g.kept)
	last := func(kept []survivor) int { return int(kept[len(kept)-1].born) }
	if !ok && len(g.kept) > 0 && last(g.kept) == l.n-2 && last(all.kept) == l.n-1 {
		p, ok = l.paceUpTo(g.kept, l.n-2) // the last step's weren't told from what it leaves anyhow
	}
	return g, p, ok
}

// lasting are the categories of which much stays for good reason.
var lasting = [meaning.NumCategories]bool{meaning.Weights: true, meaning.Gradients: true, meaning.OptimizerState: true,
	meaning.KVCache: true, meaning.Communication: true,
	meaning.Workspace: true}

// pooled joins survivors without stacks whose sizes differ from step to step
// into one group: each size alone shows nothing.
func (l *growth) pooled(rest []placed) (placed, bool) {
	var pool placed
	for _, g := range rest {
		for _, s := range g.kept {
			if int(s.born) <= l.settled() && l.bytes(s.id) >= smallGrowth && (!lasting[l.c.Category[s.id]] || l.trains &&
				l.c.Category[s.id] == meaning.KVCache) {
				pool.kept = append(pool.kept, s)
			}
		}
	}
	slices.SortFunc(pool.kept, func(a, b survivor) int { return int(a.id) - int(b.id) })
	p, ok := l.paceUpTo(pool.kept, l.settled())
	return pool, ok && p.steps >= 4
}

// stateOf reports whether survivors are optimizer state that is made bit by bit,
// as parameters get their first gradients, rather than all of it again in every
// step.
func (l *growth) stateOf(kept []survivor) bool {
	state := 0
	made := make([]int64, l.n) // by step, in bytes
	for _, s := range kept {
		if l.c.Category[s.id] == meaning.OptimizerState {
			state++
		}
		made[s.born] += l.bytes(s.id)
	}
	if 2*state < len(kept) {
		return false
	}
	if l.unfrozen(made, int(kept[0].born)) {
		return true
	}
	later := made[kept[0].born+1:]
	if whole := later[:max(0, len(later)-1)]; l.cut() && !slices.Contains(whole, 0) {
		later = whole // each makes some, and the last may yet make more
	}
	later = slices.DeleteFunc(later, func(bytes int64) bool { return bytes == 0 })
	if len(later) < 2 {
		return true
	}
	slices.Sort(later)
	return 10*later[0] < 9*later[len(later)/2]
}

// unfrozen reports whether all steps after the first that made state, so many
// bytes each, made more gradients than the one before: layers that are trained
// from then on have none yet.
func (l *growth) unfrozen(made []int64, first int) bool {
	if l.gradients == nil {
		l.gradients = make([]int64, l.n)
		for id, step := range l.all() {
			if l.c.Category[id] == meaning.Gradients {
				l.gradients[step] += l.bytes(id)
			}
		}
	}
	for k := first + 1; k < l.n; k++ {
		if made[k] > 0 && l.gradients[k] <= l.gradients[k-1] {
			return false
		}
	}
	return true
}

// replaces reports whether what steps leave takes the place of what was there before
// the first of them: weights that are converted layer by layer. In most steps as
// much goes as comes.
func (l *growth) replaces(p pace) bool {
	if l.gone == nil {
		l.gone = make([]int64, l.n)
		for id, born := range l.t.Born {
			if died := l.t.FreeRequested[id]; (born == timeline.Never || born < l.first[0]) && died != timeline.Never &&
				died != timeline.Before && died >= l.first[0] {
				l.gone[min(l.stepAt(died), l.n-1)] += l.bytes(timeline.AllocationID(id))
			}
		}
	}
	left := make([]int64, l.n)
	for _, s := range p.alive {
		left[s.born] += l.bytes(s.id)
	}
	steps, even := 0, 0
	for k, bytes := range left {
		if bytes > 0 {
			steps++
			if l.gone[k] >= bytes {
				even++
			}
		}
	}
	return even*4 >= steps*3
}

// even reports whether the steps leave about as many survivors each; those of one
// size, without stacks, could be anything.
func (l *growth) even(p pace) bool {
	count := make([]int, l.n)
	for _, s := range p.alive {
		count[s.born]++
	}
	least, most := math.MaxInt, 0
	for _, n := range count[1 : l.n-1] {
		if n > 0 {
			least, most = min(least, n), max(most, n)
		}
	}
	regular := p.regular > 0.99 || p.steps >= 4 && p.regular >= 0.75
	return regular && (most == 0 || most <= 2*least)
}

// settled is the last step after which a whole step came: of later ones nobody
// knows what they keep and what is merely still in use.
func (l *growth) settled() int {
	if l.cut() {
		return l.n - 3
	}
	return l.n - 2
}

// recurring leaves out what only the first or the last steps made: survivors
// without stacks share their sizes with the optimizer's state of the first step
// and the last one's gradients. What is made after the last settled step may be in
// use, and counts as far as steps before left as much; what one step ends with,
// another may begin with.
func (l *growth) recurring(kept []survivor) []survivor {
	if l.n < 3 {
		return kept
	}
	type role struct {
		phase    meaning.Phase
		category meaning.Category
	}
	type part struct {
		step  int32
		phase meaning.Phase // Backward, Optimizer, or OtherPhase for all the rest
	}
	partOf := func(s survivor) part {
		if p := l.c.Phase[s.id]; p == meaning.Backward || p == meaning.Optimizer {
			return part{s.born, p}
		}
		return part{s.born, meaning.OtherPhase}
	}
	settled := max(1, l.settled())
	usual, left, most := map[role]bool{}, map[part]int{}, [meaning.NumPhases]int{}
	for _, s := range kept {
		if s.born > 0 && int(s.born) <= settled {
			p := partOf(s)
			left[p]++
			most[p.phase] = max(most[p.phase], left[p])
			usual[role{l.c.Phase[s.id], l.c.Category[s.id]}] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(kept), func(s survivor) bool {
		if int(s.born) <= settled {
			return !usual[role{l.c.Phase[s.id], l.c.Category[s.id]}]
		}
		p := partOf(s)
		left[p]++
		return left[p] > most[p.phase]
	})
}

// twice reports whether two steps are evidence enough to suspect something: not
// of batches, which are often loaded ahead, and without stacks only when the
// whole program is seen.
func (l *growth) twice(g *placed) bool {
	category := l.c.Category[g.kept[len(g.kept)-1].id]
	if category == meaning.Inputs || lasting[category] {
		return false
	}
	return g.stack != 0 || l.n == 2 && l.t.Older() == 0 && l.alike(g.kept)
}

// alike reports whether both of two steps left the same at the same place.
func (l *growth) alike(kept []survivor) bool {
	var count [2]int
	var offset [2]float64
	phase := l.c.Phase[kept[0].id]
	for _, s := range kept {
		if lasting[l.c.Category[s.id]] || l.c.Phase[s.id] != phase {
			return false
		}
		k := s.born
		count[k]++
		offset[k] += float64(l.t.Born[s.id]-l.first[k]) / float64(l.last[k]-l.first[k]+1)
	}
	n := float64(count[0])
	return count[0] == count[1] && max(offset[0]-offset[1], offset[1]-offset[0]) < 0.1*n
}

// works reports whether steps do more than leave things behind: loading a model
// layer by layer looks like a leak in every other respect. A module's forward
// on a stack is work; without stacks, memory that comes and goes.
func (l *growth) works() bool {
	var stays, passes int64
	seen := make([]bool, l.t.Snapshot.NumStacks())
	computes := false
	for id, step := range l.all() {
		if died := l.t.FreeRequested[id]; died != timeline.Never && died <= l.last[min(step+1, l.n-1)] {
			passes += l.bytes(id)
		} else {
			stays += l.bytes(id)
		}
		if stack := l.t.Stack(id); !seen[stack] {
			seen[stack] = true
			computes = computes || slices.ContainsFunc(l.t.Snapshot.Stack(stack), l.isForward)
		}
	}
	return computes || passes >= stays/2
}

// claim joins groups into one leak, unless it is too small to matter.
func (l *growth) claim(leaks []Leak, kind string, groups []placed) []Leak {
	var kept, own []survivor
	for _, g := range groups {
		if kept = append(kept, g.kept...); !g.beside {
			own = append(own, g.kept...)
		}
	}
	slices.SortFunc(kept, func(a, b survivor) int { return int(a.id) - int(b.id) })
	slices.SortFunc(own, func(a, b survivor) int { return int(a.id) - int(b.id) })
	p, _ := l.paceOf(kept)
	perStep := l.perStep(p)
	if perStep < smallGrowth || p.bytes < smallTotal {
		return leaks
	}
	leak := Leak{Kind: kind, Steps: p.steps, BytesPerStep: perStep, TotalBytes: p.bytes}
	before := l.before(groups)
	for _, s := range before {
		leak.Older += l.bytes(s.id)
	}
	leak.TotalBytes += leak.Older
	l.describe(&leak, append(before, p.alive...))
	if kind == RetainedGraph || leak.Category == meaning.Activations {
		leak.passes = l.passesOver(p.alive)
	}
	leak.Confidence = confidence(leak.shownBy(), p.regular, leak.File != "")
	if leak.Category == meaning.OptimizerState && p.steps > p.last-p.first {
		leak.Confidence = min(leak.Confidence, bounded)
	}
	main, _ := l.paceOf(own)
	leak.Site, leak.stack = l.keeper(kind, main)
	if leak.OfBackward = kind == RetainedGraph && l.ofBackward(p.alive); leak.OfBackward {
		leak.Category = meaning.Activations // what a second backward pass would use; weights have one gradient each
	}
	return append(leaks, leak)
}

// before is what the same lines made before the trace and what is still there: of
// steps that the ring buffer has dropped.
func (l *growth) before(groups []placed) (out []survivor) {
	places := map[snapshot.StackID]bool{}
	for _, g := range groups {
		places[g.stack] = g.stack != 0
	}
	for id := range timeline.AllocationID(l.t.Older()) {
		if places[l.t.Stack(id)] && l.died(id) == timeline.Never && !l.belongs(id) {
			out = append(out, survivor{id, -1, int32(l.n)})
		}
	}
	return out
}

// shownBy is the number of steps that show a leak, with those before the trace, or of passes where a step has several.
func (l *Leak) shownBy() int { return max(l.Steps+int(l.Older/max(1, l.BytesPerStep)), l.passes) }

// passesOver counts the forward passes whose memory is kept, though the backward pass that followed, and used it, is over.
func (l *growth) passesOver(kept []survivor) (n int) {
	var forward meaning.PhaseSpan
	at := 0
	for i := range l.steps {
		for _, span := range l.steps[i].Phases {
			switch span.Phase {
			case meaning.Forward:
				forward = span
			case meaning.Backward:
				for at < len(kept) && l.t.BornAt(kept[at].id) < forward.FirstEvent {
					at++
				}
				if at < len(kept) && l.t.BornAt(kept[at].id) <= forward.LastEvent && span.LastEvent < int(l.last[l.n-1]) {
					n++
				}
				forward = meaning.PhaseSpan{FirstEvent: span.LastEvent, LastEvent: -1}
			}
		}
	}
	return n
}

// perStep is what a step usually leaves behind, in bytes; over steps that leave
// nothing it is spread evenly.
func (l *growth) perStep(p pace) int64 {
	if p.rise > 0 {
		return p.bytes / int64(len(p.alive)) * int64(p.rise)
	}
	left := make([]int64, l.n)
	for _, s := range p.alive {
		left[s.born] += l.bytes(s.id)
	}
	left = slices.DeleteFunc(left, func(bytes int64) bool { return bytes == 0 })
	slices.Sort(left)
	if len(left) == 0 {
		return 0
	}
	return left[(len(left)-1)/2] * int64(p.steps) / int64(p.last-p.first+1)
}

// bounded is how sure at most is a leak of state that each step makes, such as a history of gradients: an optimizer may hold it
// to a length.
const bounded = 0.75

// confidence grows with the steps that agree.
func confidence(steps int, regular float64, named bool) float64 {
	sure := 0.6
	switch {
	case steps >= 5:
		sure = 0.97
	case steps == 4:
		sure = 0.95
	case steps == 3:
		sure = 0.92
	}
	if !named {
		sure -= 0.03
	}
	return sure * (0.7 + 0.3*regular)
}
