package weights

import (
	"cmp"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

var MadeAnew = &rules.Rule{
	ID: "made-anew",
	Doc: `One of as many blocks as a pass leaves gradients, size by size, that are made between two backward passes, outlive the
second and go after it. Two sets that others replace are moments, and of three the last are weights. A single one that another
replaces is an average, or, where nothing else is state, an optimizer's moments. One that goes before the optimizer steps, or
comes when those of setup are gone, takes over as weights, by guess. What such a set replaced is the same. Sets that are made
once, after a pass, and stay are state, unless a single one may be a copy. Sets of twice the bytes are masters and moments of
weights in 16 bits.
Where no module shows what setup makes, what is made before the first pass and stays is a weight, too.`,
	Signal: meaning.ByLife,
	Born:   rules.AnyTime &^ rules.BornIn(meaning.Backward),
	Needs:  []rules.Need{rules.Training, rules.Sizes, rules.Retention, leftByPasses},
	Round:  4,
	Begin:  func(a *rules.Facts) rules.Says { return rules.Each(findSets(a)) },
}

// sets finds whole sets of weights and moments that a program makes anew.
type sets struct {
	*rules.Facts
	*passGradients
	state  map[int64]bool
	at     []int // by run: its gap; -1: a backward pass
	gaps   []gap // between backward passes, one more than there are of these
	last   int   // gap in which sets are made that go
	gone   bool  // of the weights that setup left no whole set stays
	claims map[timeline.AllocationID]rules.Claim
	order  map[int64][]meaning.Category // by size: of what goes, in the order in which it does
}

// gap is what a program makes and lets go between two backward passes, by size.
type gap struct {
	born  map[int64][]timeline.AllocationID // and outlives the next pass, but not the program
	stays map[int64][]timeline.AllocationID // and is there for good
	goes  map[int64][]timeline.AllocationID // made before the pass before it
	step  int                               // first event of an optimizer's step; the number of events where there is none
	each  map[int64]int                     // gradients that the next pass leaves, or, where it adds to others, an earlier one
	bytes int64                             // of all of these
}

// findSets looks for sets of twice the bytes, too: an optimizer's copies of weights in 16 bits, and their moments. Beside these a
// set of the weights' own sizes is one of weights.
func findSets(a *rules.Facts) map[timeline.AllocationID]rules.Claim {
	const few = 3 // sizes: fewer are so by chance
	own, state := leftByPasses.Of(a), rules.Sizes.Of(a).StateSize
	masters, doubled := setsOf(a, own.twice(), state, true), map[int64]bool{}
	for id := range masters {
		masters[id] = rules.As(meaning.OptimizerState, rules.Plausible)
		doubled[a.Timeline.Requested(id)/2] = true
	}
	if len(doubled) < few {
		return setsOf(a, own, state, false)
	}
	maps.Copy(doubled, state)
	claims := setsOf(a, own, doubled, false)
	maps.Copy(claims, masters)
	return claims
}

// setsOf looks at every gap for sets, then at what the first of them replaced.
func setsOf(a *rules.Facts, of *passGradients, state map[int64]bool, double bool) map[timeline.AllocationID]rules.Claim {
	x := &sets{Facts: a, passGradients: of, state: state,
		claims: map[timeline.AllocationID]rules.Claim{}, order: map[int64][]meaning.Category{}}
	if len(x.most) == 0 {
		return x.claims
	}
	x.fill()
	if !double && (!a.Recorded.Allocs || a.All&frames.InModule == 0) {
		x.keep()
	}
	x.join()
	for i := 1; i < len(x.gaps); i++ {
		g := &x.gaps[i]
		x.tell(g, g.born, g.times(g.born))
	}
	for i := range x.gaps {
		g := &x.gaps[i]
		x.learn(g)
		if n := g.times(g.stays); 0 < x.last && x.last < i && x.asMany(g, n) {
			x.tell(g, g.stays, n)
		}
	}
	for i := range x.gaps {
		x.replaced(&x.gaps[i])
	}
	x.begin()
	return x.claims
}

// join puts beside what goes later what stays, where setup's weights are gone, and finds the last gap that makes sets.
func (x *sets) join() {
	for i := range x.gaps {
		g := &x.gaps[i]
		for size, ids := range g.born {
			if x.gone { // of what was made together some may be the last that there is
				g.born[size] = append(ids, g.stays[size]...)
				slices.Sort(g.born[size])
			}
		}
		if g.times(g.born) > 0 {
			x.last = i
		}
	}
}

// cut finds the gaps between backward passes, and counts these.
func (x *sets) cut() (passes int) {
	open := func() gap {
		each, bytes := x.next(passes)
		return gap{map[int64][]timeline.AllocationID{}, map[int64][]timeline.AllocationID{}, map[int64][]timeline.AllocationID{},
			x.Last, each, bytes}
	}
	x.at, x.gaps = make([]int, len(x.Runs)+1), []gap{open()}
	for r := range x.Runs {
		x.at[r] = passes
		switch g := &x.gaps[passes]; x.Runs[r].Phase {
		case meaning.Backward:
			passes++
			x.at[r], x.gaps = -1, append(x.gaps, open())
		case meaning.Optimizer:
			i := x.Runs[r].First
			for len(x.Windows) > 0 && i < x.Runs[r].End && x.Covered[i] != meaning.HintOf(meaning.Optimizer) {
				i++ // without stacks the run begins with the gap
			}
			if i < x.Runs[r].End && (x.Recorded.Allocs || len(x.Windows) > 0) {
				g.step = min(g.step, i)
			}
		}
	}
	x.at[len(x.Runs)] = passes + 1
	return passes
}

// fill sorts what has the sizes of gradients by the gaps in which it is made and goes.
func (x *sets) fill() {
	n := x.cut()
	left := map[int64]int{}
	for id := range timeline.AllocationID(x.Timeline.Len()) {
		if x.most[x.Timeline.Requested(id)] > 0 && x.Phase[id] != meaning.Backward {
			x.place(id, n, left)
		}
	}
	var lost int64
	for size, times := range x.gaps[0].each {
		if left[size] < times {
			lost += size * int64(times)
		}
	}
	x.gone = lost*2 > x.gaps[0].bytes
	for i := range x.gaps {
		for _, ids := range x.gaps[i].goes {
			slices.SortFunc(ids, func(p, q timeline.AllocationID) int { return cmp.Compare(x.Freed(p), x.Freed(q)) })
		}
	}
}

// place puts a block into the gaps in which it is made and goes, the last of so many, or counts what setup leaves for good.
func (x *sets) place(id timeline.AllocationID, n int, left map[int64]int) {
	size := x.Timeline.Requested(id)
	from, to := 0, x.at[max(0, x.Run(x.Freed(id)))]
	if b := x.Born(id); b >= 0 {
		from = x.at[x.Run(b)]
	}
	setup := x.Phase[id] == meaning.Setup || x.Born(id) < 0
	switch inPass := x.Recorded.Allocs && meaning.HintOf(x.Phase[id]).Is(meaning.Forward, meaning.Generate); {
	case inPass && !setup, from < 0:
	case to > n && setup:
		left[size]++
	case to > n:
		x.gaps[from].stays[size] = append(x.gaps[from].stays[size], id)
	case to > from && to > 0:
		if !setup {
			x.gaps[from].born[size] = append(x.gaps[from].born[size], id)
		}
		x.gaps[to].goes[size] = append(x.gaps[to].goes[size], id)
	}
}

// keep takes what is made before the first pass for weights where it is there for several passes, or for most where it isn't
// known to be of setup, unless passes keep their graphs.
func (x *sets) keep() {
	const large, several = 1 << 16, 3 // bytes; passes
	if rules.Retention.Of(x.Facts).Retains {
		return
	}
	for i := range x.gaps {
		for size, ids := range x.gaps[i].goes {
			for _, id := range ids {
				b := x.Born(id)
				most := i*2 > len(x.gaps) || i >= several && x.Phase[id] == meaning.Setup
				if most && size >= large && b >= 0 && x.at[x.Run(b)] == 0 {
					x.claims[id] = rules.As(meaning.Weights, rules.Plausible)
				}
			}
		}
	}
	for size, ids := range x.gaps[0].stays {
		for _, id := range ids {
			if size >= large {
				x.claims[id] = rules.As(meaning.Weights, rules.Plausible)
			}
		}
	}
}

// begin says of sets that are made once, after a pass, and stay, that they are state: two of them, and a single one that begins
// as zeros or, without C++ frames, with other work between its blocks, unlike a copy.
func (x *sets) begin() {
	const soon = 4 // gaps
	for i := 1; i < min(soon, len(x.gaps)); i++ {
		g := x.gaps[i].without(x.state)
		times := g.times(g.stays)
		if times != 1 && times != 2 {
			continue
		}
		var ids []timeline.AllocationID
		for size, made := range g.stays {
			if len(made) == times*g.each[size] && !x.state[size] {
				ids = append(ids, made...)
			}
		}
		if len(ids) == 0 || slices.ContainsFunc(ids, func(id timeline.AllocationID) bool { return x.claims[id].Sure > 0 }) {
			continue
		}
		apart := x.work(ids) > len(ids) && !rules.Retention.Of(x.Facts).Retains // nor what is saved
		for _, id := range ids {
			if times == 2 || x.Birth(id).Marks&frames.Filled != 0 || !x.Recorded.Native && apart {
				x.claims[id] = rules.As(meaning.OptimizerState, rules.Plausible)
			}
		}
		return
	}
}

// work is how much is made and gone between blocks.
func (x *sets) work(ids []timeline.AllocationID) (n int) {
	last := slices.Max(ids)
	for id := slices.Min(ids); id < last; id++ {
		n += phases.AsInt(x.Freed(id) < x.Born(last))
	}
	return n
}

// without is a gap without some sizes, unless these are most of it.
func (g gap) without(sizes map[int64]bool) *gap {
	rest := g
	rest.each, rest.bytes = map[int64]int{}, 0
	for size, times := range g.each {
		if !sizes[size] {
			rest.each[size], rest.bytes = times, rest.bytes+size*int64(times)
		}
	}
	if rest.bytes*4 < g.bytes {
		return &g
	}
	return &rest
}

// times is how many sets there are of most sizes; 0: they are no sets.
func (g *gap) times(of map[int64][]timeline.AllocationID) int {
	const most = 6
	var bytes [most + 1]int64
	for size, ids := range of {
		if each := g.each[size]; each > 0 && len(ids)%each == 0 && len(ids) <= most*each {
			bytes[len(ids)/each] += size * int64(each)
		}
	}
	for n, b := range bytes {
		if b > 0 && b*10 >= g.bytes*9 {
			return n
		}
	}
	return 0
}

// tell says of what sets are, those that were made last in a size being the last set.
func (x *sets) tell(g *gap, of map[int64][]timeline.AllocationID, times int) {
	if times == 0 || x.inPass(g, of, times) {
		return
	}
	turns := g.turns(of, times)
	for size, ids := range of {
		each := g.each[size]
		if each == 0 || len(ids) != times*each {
			continue
		}
		rounds := times > 1 && len(ids) > times && turns
		for k, id := range ids {
			nth := k / each
			if rounds { // a weight's own follow each other
				nth = k % times
			}
			x.claims[id] = x.ofSet(g, id, nth, times)
		}
	}
}

// ofSet says what a block of the nth set of several is.
func (x *sets) ofSet(g *gap, id timeline.AllocationID, nth, times int) rules.Claim {
	switch last := nth == times-1; {
	case last && (x.gone || times > 2 && x.Phase[id] != meaning.Optimizer):
		return rules.As(meaning.Weights, rules.Plausible)
	case times > 1:
		return rules.As(meaning.OptimizerState, rules.Plausible)
	}
	return x.single(g, id)
}

// turns reports whether the blocks of a weight that has hardly another of its size follow each other, before those of others.
func (g *gap) turns(of map[int64][]timeline.AllocationID, times int) bool {
	var all []timeline.AllocationID
	for size, ids := range of {
		if g.each[size]*times == len(ids) {
			all = append(all, ids...)
		}
	}
	slices.Sort(all)
	follow, apart := 0, 0
	for size, ids := range of {
		if each := g.each[size]; 0 < each && each < times && each*times == len(ids) {
			k, _ := slices.BinarySearch(all, ids[0])
			if all[k+times-1] == ids[times-1] {
				follow++
			} else {
				apart++
			}
		}
	}
	return follow > apart
}

// single says what one of a set is that is made alone.
func (x *sets) single(made *gap, id timeline.AllocationID) rules.Claim {
	size, freed := x.Timeline.Requested(id), x.Freed(id)
	if freed >= x.Last { // the last of several
		for _, before := range made.goes[size] {
			if c := x.claims[before]; c.Sure > 0 {
				return c
			}
		}
		return rules.Claim{}
	}
	gone := x.at[x.Run(freed)]
	g := &x.gaps[gone]
	earlier := func(other timeline.AllocationID) bool { return x.Born(other) < freed }
	switch {
	case slices.ContainsFunc(g.born[size], earlier) || gone > x.last && slices.ContainsFunc(g.stays[size], earlier):
		if x.state[size] {
			return rules.As(meaning.Weights, rules.Plausible)
		}
		return rules.As(meaning.OptimizerState, rules.Plausible)
	case freed < g.step && x.Phase[id] != meaning.Optimizer:
		return rules.As(meaning.Weights, rules.Guess)
	}
	return rules.Claim{}
}

// inPass reports whether much of what is made among some blocks goes in a backward pass: a forward pass makes them.
func (x *sets) inPass(g *gap, of map[int64][]timeline.AllocationID, times int) bool {
	all, saved := 0, 0
	first, last := timeline.AllocationID(x.Timeline.Len()), timeline.AllocationID(0)
	for size, ids := range of {
		if len(ids) == times*g.each[size] {
			all += len(ids)
			first, last = min(first, ids[0]), max(last, ids[len(ids)-1])
		}
	}
	for id := first; id < last; id++ {
		if f := x.Freed(id); f < x.Last && x.Phases[f] == meaning.Backward && x.Phase[id] != meaning.Backward {
			saved++
		}
	}
	return saved*2 > all
}

// known are those of what goes that are of sets.
func (x *sets) known(g *gap) map[int64][]timeline.AllocationID {
	out := map[int64][]timeline.AllocationID{}
	for size, ids := range g.goes {
		for _, id := range ids {
			if x.claims[id].Sure > 0 {
				out[size] = append(out[size], id)
			}
		}
	}
	return out
}

// asMany reports whether as many sets go in a gap, of the sizes of its weights or of others that these replace.
func (x *sets) asMany(g *gap, times int) bool {
	weights, known := 0, 0
	for _, n := range g.each {
		weights += n
	}
	goes := x.known(g)
	for _, ids := range goes {
		known += len(ids)
	}
	return times == g.times(goes) || known == times*weights
}

// learn notes the order in which sets go.
func (x *sets) learn(g *gap) {
	for size, ids := range x.known(g) {
		if len(ids) == len(g.goes[size]) && len(ids) > len(x.order[size]) {
			x.order[size] = nil
			for _, id := range ids {
				x.order[size] = append(x.order[size], x.claims[id].Category)
			}
		}
	}
}

// replaced says of what sets are that were there before the first pass and go as later ones do.
func (x *sets) replaced(g *gap) {
	for size, ids := range g.goes {
		order := x.order[size]
		if len(order) != len(ids) || len(x.known(g)[size]) > 0 {
			continue
		}
		for k, id := range ids {
			if b := x.Born(id); b < 0 || x.at[x.Run(b)] == 0 {
				x.claims[id] = rules.As(order[k], rules.Plausible)
			}
		}
	}
}

// passGradients are what backward passes leave, by size: as many as there are weights of that size.
type passGradients struct {
	left []map[int64]int // by pass
	most map[int64]int   // in any pass
}

// twice are as many of twice the bytes, but for sizes that gradients have.
func (x *passGradients) twice() *passGradients {
	double := func(sizes map[int64]int) map[int64]int {
		out := map[int64]int{}
		for n, count := range sizes {
			if x.most[2*n] == 0 {
				out[2*n] = count
			}
		}
		return out
	}
	twice := &passGradients{most: double(x.most)}
	for _, sizes := range x.left {
		twice.left = append(twice.left, double(sizes))
	}
	return twice
}

// OfPass are the gradients that a backward pass leaves where it leaves the most of a size, by size.
func OfPass(a *rules.Facts) map[int64]int { return leftByPasses.Of(a).most }

// leftByPasses are the gradients of a program, pass by pass.
var leftByPasses = rules.Named("gradients that each pass leaves", func(a *rules.Facts) *passGradients {
	const least = 4096 // bytes: what is smaller has a bias's size by chance
	x := &passGradients{most: map[int64]int{}}
	pass := make([]int, len(a.Runs))
	for r := range a.Runs {
		if a.Runs[r].Phase == meaning.Backward {
			pass[r] = len(x.left)
			x.left = append(x.left, map[int64]int{})
		}
	}
	for id := timeline.AllocationID(a.Timeline.Older()); int(id) < a.Timeline.Len(); id++ {
		n, r := a.Timeline.Requested(id), a.Run(a.Born(id))
		if n < least || a.Runs[r].Phase != meaning.Backward || a.Phase[id] != meaning.Backward || !rules.OutlivesPass(a, id) {
			continue
		}
		left := x.left[pass[r]]
		left[n]++
		x.most[n] = max(x.most[n], left[n])
	}
	return x
})

// next are the gradients of a pass or of one before it that leaves more than twice as much: a pass that adds to gradients leaves
// none. One or two are no model's.
func (x *passGradients) next(pass int) (each map[int64]int, bytes int64) {
	const few, least = 8, 3 // passes; gradients
	for p := min(pass, len(x.left)-1); p >= max(0, pass-few); p-- {
		var sum int64
		all := 0
		for n, count := range x.left[p] {
			sum, all = sum+n*int64(count), all+count
		}
		if sum > 2*bytes && all >= least {
			each, bytes = x.left[p], sum
		}
	}
	return each, bytes
}
