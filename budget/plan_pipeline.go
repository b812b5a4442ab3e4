package budget

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/budget/schedule"
)

// Stage is what one rank of a pipeline takes.
type Stage struct {
	Rank     int64 `json:"rank"`
	Layers   int64 `json:"layers"`
	InFlight int64 `json:"micro_batches_in_flight"` // at most, in units of this rank's chunks
	Peak     int64 `json:"peak_bytes"`
	Reserved int64 `json:"reserved_bytes"`
}

// chunks are the pieces of the model on a rank, in the order of their layers: one after
// every p-th, or with zbv one down and one up again.
func (p *plan) chunks(rank int64) []*plan {
	per := schedule.Chunks(p.Setting)
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
	for i, k := range schedule.Layers(int64(len(all)), n) {
		for _, j := range at {
			if j == int64(i) {
				cs = append(cs, p.stage(all[before:before+k], i == 0, int64(i) == n-1))
			}
		}
		before += k
	}
	return cs
}

// rankOf is the part of a pipeline's plan that one rank has.
func (p *plan) rankOf(rank int64) *plan {
	cs := p.chunks(rank)
	q := *cs[0]
	q.chunked, q.moved, q.rank = cs, schedule.Moves(p.Setting, rank), rank
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
		if p.Fullest > 0 && i != p.Fullest-1 {
			continue
		}
		x := rankBudget{p.rankOf(i), &Budget{Setting: b.Setting}}
		reserve := x.Reserve
		x.Reserve = 1 // nothing is asked for yet
		x.train(x.b)
		x.Reserve = reserve
		var layers int64
		for _, c := range x.chunked {
			layers += int64(len(c.model.Blocks))
		}
		ranks = append(ranks, x)
		b.Stages = append(b.Stages, Stage{Rank: i, Layers: layers, InFlight: schedule.InFlight(x.moved), Peak: x.b.PeakBytes})
	}
	best := p.reservedByRank(ranks, b.Stages)
	full, rank := ranks[best].b, b.Stages[best].Rank
	b.Fullest = rank + 1
	b.Phases, b.FirstStep, b.WeightsBytes = full.Phases, full.FirstStep, full.WeightsBytes
	b.Reserved, b.Host = full.Reserved, full.Host
	b.peak()
	where := fmt.Sprintf("stage %d", rank)
	switch rank {
	case 0:
		where = "the first"
	case p.PP - 1:
		where = "the last"
	}
	b.note("of %d pipeline stages %s is the fullest, and the one shown (%s, %d micro-batches)", p.PP, where, p.Schedule,
		schedule.MicroBatches(p.Setting))
}

// reservedByRank fills in what is reserved, and says which rank is the fullest.
func (p *plan) reservedByRank(ranks []rankBudget, stages []Stage) (best int) {
	order := make([]int, len(ranks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(ranks[j].b.top(), ranks[i].b.top()) })
	factor := ReserveFactor(p.Setting)
	best = order[0]
	for n, i := range order {
		x := ranks[i]
		kept := p.KeepGradients || p.Accumulate > 1 && x.moved == nil
		if x.b.Reserved = int64(float64(x.b.top()) * factor); n < ranksServed && p.Reserve == 0 {
			x.logging = true
			r := x.simulate(kept, 0)
			x.b.Reserved = max(x.reserved(r), x.b.top())
			r.M.Done()
		}
		if n == 0 && p.Reserve == 0 {
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
		if v.Back {
			left[v.Chunk]++
		}
	}
	twins := p.twins()
	var kept []*storage
	for _, v := range p.moved {
		c := r.parts[v.Chunk]
		k := key{v.Chunk, v.Micro}
		if v.Back {
			left[v.Chunk]--
		}
		if twins.has(v.Micro) {
			twins.run(r.M, v.Back)
			continue
		}
		if !v.Back {
			before := r.M.Cats
			open[k] = c.forward()
			if v.Micro == 1 {
				twins.keep(before, r.M.Cats)
			}
			continue
		}
		c.last = left[v.Chunk] == 0
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
			r.M.Pulse(schedule.MicroBatches(p.Setting)*c.collected(), Logits)
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
	if p.EveryMicroBatch || p.logging || schedule.Chunks(p.Setting) > 1 || !p.model.Sends || p.keepsPackedInputs() ||
		p.ActivationOffload || p.UseCache || p.Checkpointing == "offload" {
		return twins{}
	}
	return twins{from: 2, to: schedule.InFlight(p.moved) - 1}
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
func (p *setup) waitsLast() bool { return p.PP > 1 && schedule.Chunks(p.Setting) > 1 && !p.megatron() }

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
