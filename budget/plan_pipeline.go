package budget

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/budget/network"
)

// Stage is what one rank of a pipeline takes.
type Stage struct {
	Rank     int64 `json:"rank"`
	Layers   int64 `json:"layers"`
	InFlight int64 `json:"micro_batches_in_flight"` // at most, in units of this rank's chunks
	Peak     int64 `json:"peak_bytes"`
	Reserved int64 `json:"reserved_bytes"`
}

// chunksPerRank is how many pieces of the model a rank of a schedule has.
func (s Setting) chunksPerRank() int64 {
	switch s.Schedule {
	case "interleaved":
		return cmp.Or(s.StagesPerRank, 2)
	case "zbv":
		return 2
	}
	return 1
}

// layersOf says how many layers each of n pieces of a model has: as many in each, and where
// that leaves some over, one more in each of those in the middle, which have neither
// embeddings nor head (torchtitan's generate_split_points, Megatron-LM's advice).
func layersOf(layers, n int64) []int64 {
	ls := make([]int64, n)
	over := layers % n
	for i := range ls {
		ls[i] = layers / n
		if i > 0 && over > 0 {
			ls[i]++
			over--
		}
	}
	return ls
}

// chunks are the pieces of the model on a rank, in the order of their layers: one after
// every p-th, or with zbv one down and one up again.
func (p *plan) chunks(rank int64) []*plan {
	per := p.chunksPerRank()
	n := p.PP * per
	at := []int64{rank}
	for i := int64(1); i < per; i++ {
		at = append(at, i*p.PP+rank)
	}
	if p.Schedule == "zbv" {
		at[1] = n - 1 - rank
	}
	var cs []*plan
	all, before := p.model.Blocks, int64(0)
	for i, k := range layersOf(int64(len(all)), n) {
		for _, j := range at {
			if j == int64(i) {
				cs = append(cs, p.stage(all[before:before+k], i == 0, int64(i) == n-1))
			}
		}
		before += k
	}
	return cs
}

// move is one step of a rank's schedule: a micro-batch goes forward or backward through one
// of its chunks.
type move struct {
	chunk, micro int64
	back         bool
}

// moves are a rank's, for as many micro-batches as show the most that it ever holds: after
// the first ones go forward, forward and backward take turns.
// Each schedule counts its first forwards in its own way.
func (s Setting) moves(rank int64) []move {
	m, per := s.microBatches(), s.chunksPerRank()
	ahead := min(m, s.PP-rank)
	switch s.Schedule {
	case "zbv":
		return s.zeroBubble(rank)
	case "gpipe":
		ahead = m
	case "interleaved": // torch.distributed.pipelining: as many as the ranks behind wait for, twice
		ahead = min(m*per, (per-1)*s.PP+1+2*(s.PP-1-rank))
	}
	total := min(m, ahead+2) * per
	step := func(k int64, back bool) move { // groups of as many micro-batches as ranks go through a chunk
		g := min(s.PP, m)
		v := move{chunk: k / g % per, micro: k/(g*per)*g + k%g, back: back}
		if back {
			v.chunk = per - 1 - v.chunk
		}
		return v
	}
	if per == 1 {
		step = func(k int64, back bool) move { return move{micro: k, back: back} }
	} else {
		total = min(m*per, (ahead/(s.PP*per)+2)*s.PP*per)
	}
	var ms []move
	f, b := int64(0), int64(0)
	for ; f < min(ahead, total); f++ {
		ms = append(ms, step(f, false))
	}
	for ; b < total; b++ {
		ms = append(ms, step(b, true))
		if f < total {
			ms = append(ms, step(f, false))
			f++
		}
	}
	return ms
}

// zeroBubble are a rank's moves under zbv (torch.distributed.pipelining's ScheduleZBVZeroBubble).
func (s Setting) zeroBubble(rank int64) (ms []move) {
	m := min(s.microBatches(), 2*s.PP+2)
	var n [2][2]int64 // forwards and backwards of each chunk
	step := func(chunk int64, back bool) {
		k := &n[chunk][0]
		if back {
			k = &n[chunk][1]
		}
		if *k < m {
			ms = append(ms, move{chunk: chunk, micro: *k, back: back})
		}
		*k++
	}
	for range 2*(s.PP-rank) - 1 {
		step(0, false)
	}
	for range rank {
		step(1, false)
		step(0, false)
	}
	for range s.PP - rank {
		step(1, false)
		step(1, true)
	}
	for most := max(2*s.PP-1, m); n[1][0] < n[0][0] || n[0][0] < most; {
		if n[0][0] < most {
			step(0, false)
		}
		step(0, true)
		step(1, false)
		step(1, true)
	}
	for n[0][1] < m || n[1][1] < m {
		step(0, true)
		step(1, true)
	}
	return ms
}

// microBatches of a step: as many as there are stages, unless the setting says.
func (s Setting) microBatches() int64 {
	switch {
	case s.MicroBatches > 0:
		return s.MicroBatches
	case s.Accumulate > 1:
		return s.Accumulate
	}
	return s.PP
}

// inFlight is the most micro-batches that a rank holds at once.
func inFlight(ms []move) (most int64) {
	var n int64
	for _, v := range ms {
		if v.back {
			n--
		} else {
			n++
		}
		most = max(most, n)
	}
	return most
}

// rankOf is the part of a pipeline's plan that one rank has.
func (p *plan) rankOf(rank int64) *plan {
	cs := p.chunks(rank)
	q := *cs[0]
	q.chunked, q.moved, q.rank = cs, p.moves(rank), rank
	if len(cs) == 1 {
		return &q
	}
	m := *q.model // what the optimizer sees is in all of them
	m.Params = nil
	seen := map[*parameter]bool{}
	for _, c := range cs {
		for _, w := range c.model.Params {
			if !seen[w] {
				m.Params = append(m.Params, w)
			}
			seen[w] = true
		}
	}
	q.all = &m
	return &q
}

// ranksServed is for how many of a pipeline's ranks the allocator is asked what it reserves:
// those with the highest peaks. For the others it is as much more as for the highest.
const ranksServed = 2

// rankBudget is one rank of a pipeline, worked out.
type rankBudget struct {
	*plan
	b *Budget
}

// pipeline works every rank out and shows the fullest.
func (p *plan) pipeline(b *Budget) {
	var ranks []rankBudget
	for i := range p.PP {
		if p.fullest > 0 && i != p.fullest-1 {
			continue
		}
		x := rankBudget{p.rankOf(i), &Budget{Setting: b.Setting}}
		reserve := x.reserve
		x.reserve = 1 // nothing is asked for yet
		x.train(x.b, nil)
		x.reserve = reserve
		var layers int64
		for _, c := range x.chunked {
			layers += int64(len(c.model.Blocks))
		}
		ranks = append(ranks, x)
		b.Stages = append(b.Stages, Stage{Rank: i, Layers: layers, InFlight: inFlight(x.moved), Peak: x.b.PeakBytes})
	}
	best := p.reservedByRank(ranks, b.Stages)
	full, rank := ranks[best].b, b.Stages[best].Rank
	b.fullest = rank + 1
	b.Phases, b.FirstStep, b.WeightsBytes = full.Phases, full.FirstStep, full.WeightsBytes
	b.load, b.step, b.Reserved, b.Host = nil, nil, full.Reserved, full.Host
	b.peak()
	where := fmt.Sprintf("stage %d", rank)
	switch rank {
	case 0:
		where = "the first"
	case p.PP - 1:
		where = "the last"
	}
	b.note("of %d pipeline stages %s is the fullest, and the one shown (%s, %d micro-batches)", p.PP, where, p.Schedule,
		p.microBatches())
}

// reservedByRank fills in what is reserved, and says which rank is the fullest.
func (p *plan) reservedByRank(ranks []rankBudget, stages []Stage) (best int) {
	order := make([]int, len(ranks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(ranks[j].b.top(), ranks[i].b.top()) })
	factor := reserveFactor(p.Setting)
	best = order[0]
	for n, i := range order {
		x := ranks[i]
		kept := p.KeepGradients || p.Accumulate > 1 && x.moved == nil
		if x.b.Reserved = int64(float64(x.b.top()) * factor); n < ranksServed && p.reserve == 0 {
			load, step := x.requests(kept, nil)
			x.b.Reserved = max(x.reserved(load, step), x.b.top())
		}
		if n == 0 && p.reserve == 0 {
			factor = float64(x.b.Reserved) / float64(x.b.top())
		}
		stages[i].Reserved = x.b.Reserved
		if x.b.Reserved > ranks[best].b.Reserved {
			best = i
		}
	}
	return best
}

// runStages is a step of one rank: each move is a forward of a chunk, or the backward of one
// that went before.
func (r *run) runStages() {
	p := r.p
	type key struct{ chunk, micro int64 }
	open := map[key]*forward{}
	left := map[int64]int64{} // backward moves by chunk
	for _, v := range p.moved {
		if v.back {
			left[v.chunk]++
		}
	}
	twins := p.twins()
	var kept []*storage
	for _, v := range p.moved {
		c := r.parts[v.chunk]
		k := key{v.chunk, v.micro}
		if v.back {
			left[v.chunk]--
		}
		if twins.has(v.micro) {
			twins.run(r.M, v.back)
			continue
		}
		if !v.back {
			before := r.M.Cats
			open[k] = c.forward()
			if v.micro == 1 {
				twins.keep(before, r.M.Cats)
			}
			continue
		}
		c.last = left[v.chunk] == 0
		c.backward(open[k])
		delete(open, k)
		for range c.keptBoundaries() {
			kept = append(kept, r.M.Alloc(c.boundary(), Communication))
		}
	}
	for _, c := range r.parts {
		c.finishSharding()
	}
	r.M.ReleaseAll(kept)
	r.ends[Forward], r.ends[Loss] = r.parts[0].ends[Forward], r.parts[0].ends[Loss]
	r.end(Backward)
	for _, c := range r.parts { // the schedule hands all outputs out, as one
		if !c.Model.Sends && p.collectsOutputs() {
			r.M.Pulse(p.microBatches()*c.collected(), Logits)
		}
		r.M.ReleaseAll(c.outputs)
	}
}

// twins are micro-batches that take what the one before them takes, at no moment that is
// fuller than the same one of a micro-batch which is run: all but the first two, the last
// before backward begins, and those after.
type twins struct {
	from, to int64      // the first one, and the one after the last
	kept     Categories // by each of them, from its forward to its backward
	held     []*storage
}

// twins are those of a rank's moves; none where they leave anything else behind, as the last
// stage's results are, or where every request is asked for.
func (p *plan) twins() twins {
	if p.everyMicroBatch || p.logging || p.chunksPerRank() > 1 || !p.model.Sends || p.keepsPackedInputs() ||
		p.ActivationOffload || p.UseCache || p.Checkpointing == "offload" {
		return twins{}
	}
	return twins{from: 2, to: inFlight(p.moved) - 1}
}

func (t *twins) has(micro int64) bool { return t.from <= micro && micro < t.to }

// keep notes what a micro-batch's forward left; where that is less of anything, none is like it.
func (t *twins) keep(before, after Categories) {
	for c := range after {
		if t.kept[c] = after[c] - before[c]; t.kept[c] < 0 {
			t.to = 0
		}
	}
}

// run is the forward or the backward of one.
func (t *twins) run(m *network.Machine, back bool) {
	n := 0
	for c, bytes := range t.kept {
		if bytes > 0 {
			n++
		}
		if bytes > 0 && !back {
			t.held = append(t.held, m.Alloc(bytes, Category(c)))
		}
	}
	if back {
		m.ReleaseAll(t.held[len(t.held)-n:])
		t.held = t.held[:len(t.held)-n]
	}
}

// waitsLast says whether what a rank sends stays until it has to be through: PyTorch's schedules
// of several stages a rank wait for a result when its backward comes, and for gradients when
// the step is over (schedules.py, _PipelineScheduleRuntime).
func (p *plan) waitsLast() bool { return p.PP > 1 && p.chunksPerRank() > 1 && !p.megatron() }

// keptBoundaries is how many tensors as large as what goes between stages a micro-batch leaves
// until the step is over: of the last stage what it was given, with the graph of its result;
// and the gradient that is on its way back.
func (r *run) keptBoundaries() (n int) {
	p := r.p
	if !r.Model.Received || p.buffersAhead() {
		return 0
	}
	if !r.Model.Sends && p.collectsOutputs() {
		n++
	}
	if p.waitsLast() {
		n++
	}
	return n
}

// boundary is what goes from one stage to the next, in bytes.
func (r *run) boundary() int64 {
	n := r.p.Batch * r.p.Sequence * r.Model.Hidden * r.p.wide
	if r.p.SequenceParallel {
		n /= r.p.TP
	}
	return n
}

// Arriving is what a pipeline's stage receives.
func (r *run) Arriving() *value {
	m, e := r.M, r.p.wide
	n := r.boundary() / e
	here := n
	if r.p.buffersAhead() { // it lies in the buffer
		here = 0
	}
	x := m.Tensor(here, e)
	x.N = n
	if r.p.collectsOutputs() && !r.Model.Sends {
		r.outputs = append(r.outputs, m.Keep(x.Mem))
	}
	m.Entry(x)
	return x
}
