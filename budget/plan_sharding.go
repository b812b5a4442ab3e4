package budget

import (
	"cmp"
	"maps"
	"slices"

	"github.com/vramscope/vramscope/budget/autograd"
	"github.com/vramscope/vramscope/budget/network"
	"github.com/vramscope/vramscope/budget/optimizers"
)

// What sharding over data-parallel ranks does to a step: ZeRO and FSDP keep a
// part of each tensor and gather the whole one for the block that runs.

// sharded says whether parameters themselves are split over the ranks.
func (p *setup) sharded() bool { return (p.Zero == 3 || p.FSDP != "") && p.dp > 1 }

// shards is over how many ranks: all of them, or the GPUs of one node. Experts
// are on few of these already: theirs are the ranks that have the same ones.
func (p *setup) shards(experts bool) int64 {
	n := p.dp
	switch {
	case p.Shards > 0:
		n = p.Shards
	case p.FSDP == "hybrid":
		n = min(p.dp, 8)
	}
	if experts && p.EP > 1 {
		n = max(n*p.expertDP/p.dp, 1)
	}
	return n
}

// padded is how many elements of a parameter the ranks have together: FSDP2 gives each as many
// of its rows as the first one has (_fsdp_param.py), so that 8 experts over 16 ranks take
// twice as much. torchtitan divides these by columns then, as is taken of expert parallelism.
func (p *holding) padded(q *parameter) int64 {
	n := p.shards(q.Expert())
	if p.FSDP == "" || p.dp == 1 || p.flatUnits() || p.packing().Has(q) || len(q.Shape) == 0 || q.Shape[0] == 0 ||
		q.Expert() && (p.profile.ExpertsApart || p.EP > 1) {
		return q.Elements()
	}
	return q.Elements() / q.Shape[0] * autograd.Parts(q.Shape[0], n) * n
}

// group is a set of parameters that are gathered and whose gradients are reduced
// together: a block's, or all those outside the blocks. FSDP2 keeps the books of
// torch/distributed/fsdp/_fully_shard: a flat buffer that the all-gather fills, on a
// stream of its own, parameters copied out of it, and for the gradients another flat
// buffer, from which a part of it comes back.
type group struct {
	params   []*parameter
	before   *group     // whose forward was before: backward gathers it ahead
	flat     *storage   // the all-gather's buffer, under way
	whole    []*storage // gathered parameters
	stays    bool       // gathered from forward to backward
	idle     bool       // no gradient goes through it
	small    bool       // FSDP1's adapters in it are units of their own, and the last one of backward gathers ahead
	gathered int64      // bytes of the flat buffer
	calls    int        // in forward, of which backward has not gone through yet
}

// sharding is the state of a run whose parameters are sharded.
type sharding struct {
	root    *group
	ends    map[*parameter]*group // embeddings and head, where they are units of their own
	blocks  map[*network.Block]*group
	last    *group
	flat    *storage // of the last all-gather in forward, until the next one is awaited
	reduce  *storage // of the last reduction, until the next one begins
	waiting map[*parameter]*storage
	// offloaded are parts of gradients whose place is in host memory, but which FSDP1 keeps through the backward.
	offloaded []*storage
	summed    map[*parameter]*storage // over micro-batches that nobody has reduced yet
}

// groupOf is a block's group; nil is everything outside of blocks.
func (r *run) groupOf(b *network.Block) *group {
	s := r.shards
	if s == nil {
		s = &sharding{blocks: map[*network.Block]*group{}, ends: map[*parameter]*group{}, waiting: map[*parameter]*storage{},
			summed: map[*parameter]*storage{}}
		r.shards, r.ranks.shards = s, s
	}
	if b != nil {
		if g := s.blocks[b]; g != nil {
			return g
		}
		g := &group{params: append(slices.Clone(b.Params), b.Adapters...), stays: r.p.staysGathered(false)}
		g.small = r.p.flatUnits() && !r.p.OneUnit && len(b.Adapters) > 0
		s.blocks[b] = g
		g.gathered = r.p.gatheredBytes(g.params)
		return g
	}
	if s.root == nil {
		s.root = &group{stays: r.p.staysGathered(true), params: r.outside()}
		s.root.gathered = r.p.gatheredBytes(s.root.params)
	}
	return s.root
}

// stacks are the model, and others that it has in it.
func (r *run) stacks() []*network.Model {
	all := []*network.Model{r.Model, r.Model.Encoder, r.Model.Vision}
	return slices.DeleteFunc(all, func(m *network.Model) bool { return m == nil })
}

// outside are the parameters that are neither in a block's group nor in one of their own.
func (r *run) outside() (qs []*parameter) {
	inside := map[*parameter]bool{}
	for _, mod := range r.stacks() {
		maps.Copy(inside, network.ParamsOf(mod.Blocks))
	}
	for _, q := range r.Model.Params {
		if !inside[q] && !r.p.ownUnit(q) {
			qs = append(qs, q)
		}
	}
	for _, q := range r.p.adapters {
		if q.Outside && !r.p.ownUnits() {
			qs = append(qs, q)
		}
	}
	return qs
}

// gatheredBytes are parameters as they are gathered: packed ones as they are.
func (p *holding) gatheredBytes(qs []*parameter) (n int64) {
	for _, q := range qs {
		n += p.gatheredOne(q)
	}
	return n
}

// gatheredOne is one of them, with the original where a copy of it is trained: its unit gathers both.
func (p *holding) gatheredOne(q *parameter) int64 {
	n := p.gatheredAlone(q)
	if q.Copied && n > 0 {
		n += p.padded(q) * min(p.kept, p.width)
	}
	return n
}

func (p *holding) gatheredAlone(q *parameter) int64 {
	switch n, packed := p.packedBytes(q); {
	case q.Expert() && p.expertsWhole(), p.deepspeed() && p.Zero == 3: // counted as a whole
		return 0
	case packed:
		return n - p.besideShards(q)
	case q.Eight && p.gathersEight():
		return q.Elements()
	case q.Val != nil:
		return p.padded(q) * min(q.Val.Width, max(p.width, p.wide))
	}
	return p.padded(q) * p.width
}

// unshard gathers a group, in backward with the next one ahead.
func (r *run) unshard(g *group, backward bool) {
	m, s := r.M, r.shards
	if g.whole == nil && g.gathered > 0 {
		r.gatherAhead(g)
		if !backward {
			m.Release(s.flat)
			s.flat = nil
		}
		if r.p.Zero == 3 || r.p.flatUnits() { // parameters are parts of the flat buffer
			g.whole = []*storage{g.flat}
		} else {
			for _, q := range g.params {
				if n := r.p.gatheredOne(q); n > 0 {
					g.whole = append(g.whole, m.Alloc(n, Communication))
				}
			}
			if backward {
				m.Release(g.flat)
			} else {
				s.flat = g.flat
			}
		}
		g.flat = nil
	}
	if backward && g.calls > 1 { // what was before in forward is the group itself
		g.calls--
		return
	}
	if backward && !g.small {
		r.gatherBefore(g)
	}
}

// gatherBefore gathers ahead what was before a group in forward; FSDP1 does so where a gradient comes to it.
func (r *run) gatherBefore(g *group) {
	if b := g.before; b != nil && !(r.p.flatUnits() && b.idle) {
		r.gatherAhead(b)
	}
}

func (r *run) gatherAhead(g *group) {
	if g.whole == nil && g.flat == nil {
		g.flat = r.allGather(g)
	}
}

// allGather begins one: this rank's part is made narrow, then all parts arrive.
func (r *run) allGather(g *group) *storage {
	m, p := r.M, r.p
	own := autograd.Parts(g.gathered, p.shards(false))
	if p.kept == p.width { // it is sent as it lies
		own = 0
	}
	m.Stream = autograd.GatherStream
	if p.flatUnits() {
		m.Stream = autograd.NarrowStream
	}
	var eight []*storage
	for _, q := range g.params { // this rank's part in 8 bits
		if q.Eight && p.gathersEight() {
			st := m.EagerCast(autograd.Parts(q.Elements(), p.shards(false)), p.kept)
			own = max(own-st.Bytes, 0)
			eight = append(eight, st)
		}
	}
	part := m.Alloc(own, Communication)
	defer m.ReleaseAll(eight)
	m.Stream = autograd.GatherStream
	flat := m.Alloc(g.gathered, Communication)
	m.Mark(func(q *request) { q.Unit = p.flatUnits() })
	m.Release(part)
	m.Stream = autograd.MainStream
	return flat
}

// reshard lets the gathered parameters go.
func (r *run) reshard(g *group) {
	r.M.ReleaseAll(g.whole)
	g.whole = nil
}

// reduce hands a group's gradients to the ranks: each keeps its part.
func (r *run) reduce(g *group) {
	m, p, s := r.M, r.p, r.shards
	e := p.reducedWidth()
	if p.FSDP != "" && !r.last {
		if p.PP == 1 {
			r.reshard(g)
		}
		r.sumUp(g, e)
		return
	}
	if p.flatUnits() {
		r.reduceFlat(g, e)
		return
	}
	r.reshard(g)
	mine := s.ready(g)
	if len(mine) == 0 {
		return
	}
	s.addUp(m, mine)
	m.Release(s.reduce)
	if s.reduce = nil; !p.deepspeed() {
		var n int64
		for _, q := range mine {
			n += p.padded(q) * e
		}
		s.reduce = m.Alloc(n, Communication)
	}
	for _, q := range mine {
		m.Release(s.waiting[q])
		m.Release(s.summed[q])
		delete(s.waiting, q)
		delete(s.summed, q)
	}
	m.Stream = autograd.ReduceStream
	for _, q := range mine {
		part := r.reducedPart(p.padded(q), e, q.Expert())
		if m.Held[q] != nil || p.gradientsGo() || p.deepspeed() {
			m.Release(part)
		} else {
			m.Held[q] = part
		}
	}
	m.Stream = autograd.MainStream
	if p.OptimizerInBackward {
		m.Pulse(p.share(p.optimizerTemp(mine), 1, false), Temporary)
	}
}

// ready are those of a group's parameters whose gradients are there.
func (s *sharding) ready(g *group) (qs []*parameter) {
	for _, q := range g.params {
		if s.waiting[q] != nil || s.summed[q] != nil {
			qs = append(qs, q)
		}
	}
	return qs
}

// addUp adds gradients to their sums, where there are any.
func (s *sharding) addUp(m *network.Machine, qs []*parameter) {
	for _, q := range qs {
		if s.summed[q] != nil && s.waiting[q] != nil {
			m.Release(s.waiting[q])
			delete(s.waiting, q)
		}
	}
}

// sumUp adds a group's gradients to those of the micro-batches before, in the type that
// they are reduced in, until a step's last one.
func (r *run) sumUp(g *group, e int64) {
	m, s := r.M, r.shards
	for _, q := range g.params {
		if s.waiting[q] == nil {
			continue
		}
		if s.summed[q] == nil {
			s.summed[q] = m.Alloc(q.Elements()*e, Gradients)
		}
		m.Release(s.waiting[q])
		delete(s.waiting, q)
	}
}

// unsynced says whether the micro-batches before a step's last one leave their gradients whole:
// Accelerate, and the Trainer with it, runs them under FSDP's no_sync.
func (p *setup) unsynced() bool {
	return p.Trainer && p.FSDP != "" && p.dp > 1 && p.Accumulate > 1 && p.PP == 1 && !p.SyncEachBatch
}

// sumsBefore makes the sums of whole gradients that such micro-batches leave to the last one.
func (r *run) sumsBefore() {
	groups := []*group{r.groupOf(nil)}
	for _, b := range r.Model.Blocks {
		groups = append(groups, r.groupOf(b))
	}
	for _, g := range groups {
		var first *parameter
		var n int64
		for _, q := range g.params {
			switch {
			case !q.HasGradient():
			case r.p.flatUnits():
				first = cmp.Or(first, q)
				n += q.Elements()
			default:
				r.shards.summed[q] = r.M.Alloc(q.Elements()*r.p.reducedWidth(), Gradients)
			}
		}
		if first != nil {
			r.shards.summed[first] = r.M.Alloc(n*r.p.width, Gradients)
		}
	}
	for _, q := range r.Model.Params {
		if r.p.ownUnit(q) && q.HasGradient() {
			r.shards.summed[q] = r.M.Alloc(q.Elements()*r.p.reducedWidth(), Gradients)
		}
	}
}

// staysFor says whether a block's parameters stay gathered from forward to backward.
func staysFor(r *run, g *group, b *network.Block) bool {
	return g.stays || r.p.profile.KeepsLast && !r.p.flatUnits() && b == r.Model.Blocks[len(r.Model.Blocks)-1]
}

// Layer runs a block with its parameters gathered.
func (r *run) Layer(b *network.Block, x *value, f func(*value) *value) *value {
	if !r.p.sharded() {
		return r.Once(b, x, f)
	}
	m := r.M
	g := r.groupOf(b)
	g.stays = staysFor(r, g, b)
	if r.shards.last != g {
		g.before, r.shards.last = r.shards.last, g
	}
	in := m.Again(x)
	hook(m, in, x, func() {
		if g.small {
			r.gatherBefore(g)
		}
		r.reduce(g)
	})
	r.unshard(g, false)
	y := f(in)
	m.Drop(in)
	if !g.stays || !m.Grad {
		r.reshard(g)
	}
	r.beforeBackward(y, g)
	return y
}

// beforeBackward gathers a group as soon as the gradient of its result is there.
func (r *run) beforeBackward(y *value, g *group) {
	g.idle = r.M.Grad && y.From == nil
	hookResult(r.M, y, func() { r.unshard(g, true) })
}

// hook runs f in backward, as soon as the gradient of a second name for x is there.
func hook(m *network.Machine, name, x *value, f func()) {
	m.Record([]*value{name}, []*value{x}, nil, func(g []*storage) []*storage {
		f()
		return []*storage{m.Keep(g[0])}
	})
}

// hookResult runs f as soon as the gradient of y is there, if one comes.
func hookResult(m *network.Machine, y *value, f func()) {
	if m.Grad && y.From != nil {
		in := *y
		hook(m, y, &in, f)
	}
}

// finishSharding is what FSDP's last callback does: whatever group is left is reduced.
func (r *run) finishSharding() {
	s := r.shards
	if s == nil {
		return
	}
	for _, b := range r.Model.Blocks {
		if g := s.blocks[b]; g != nil {
			r.reduce(g)
			r.M.Release(g.flat) // gathered ahead of a backward that didn't come
			g.flat = nil
		}
	}
	for _, q := range r.Model.Params {
		if g := s.ends[q]; g != nil {
			r.reduce(g)
		}
	}
	if s.root != nil {
		r.reduce(s.root)
	}
	r.M.Release(s.reduce)
	r.M.Release(s.flat)
	r.M.ReleaseAll(s.offloaded)
	s.reduce, s.flat, s.offloaded = nil, nil, nil
}

// Once runs a block whose parameters lie in host memory and are copied for it.
func (r *run) Once(b *network.Block, x *value, f func(*value) *value) *value {
	if r.p.Offload != "params" || r.p.sharded() {
		return f(x)
	}
	m := r.M
	g := r.p.groupBytes(b)
	s := m.Alloc(3*g, Communication)
	y := f(x)
	m.Release(s)
	hookResult(m, y, func() { m.Pulse(4*g, Communication) }) // once again, beside the gradients
	return y
}

// groupBytes are a block's parameters in the type they are gathered in.
func (p *setup) groupBytes(b *network.Block) int64 {
	var qs []*parameter
	for _, l := range b.Linears() {
		qs = append(qs, l.Weight, l.Bias)
	}
	if !p.expertsWhole() {
		qs = append(qs, b.Routed()...)
	}
	return p.width * network.Elements(qs, func(q *parameter) bool { return q != nil })
}

// expertsWhole says whether a rank computes with its experts as they lie there:
// no other has a part of them, and they need no conversion.
func (p *setup) expertsWhole() bool {
	return p.shards(true) == 1 && p.kept == p.width && p.Offload != "params"
}

// rootBytes are the parameters outside the blocks, which stay gathered from the forward to the end of the backward.
func (p *holding) rootBytes() int64 {
	if !p.sharded() {
		return 0
	}
	return p.width * network.Elements(p.model.Params, func(q *parameter) bool {
		return q.Role == network.RoleEmbedding || q.Role == network.RoleHead || q.Role == network.RolePosition
	})
}

// reduceGradient hands a finished gradient to the ranks: with FSDP and ZeRO 3 it waits for
// its group, with ZeRO 2 each keeps its part only. Gradients that go to host memory, or
// whose optimizer step comes at once, stay nowhere.
func (p *plan) reduceGradient(m *ranks, q *parameter, st *storage) bool {
	switch {
	case m.shards != nil && m.shards.summed[q] != nil && p.reducedWidth() == p.width && !p.flatUnits(): // added in place
		m.Release(st)
		return true
	case m.shards != nil:
		m.shards.await(m, q, st)
		return true
	case p.wideGradients(): // added to what is there
	case p.gathersLate():
		m.openBucket()
		return false
	case p.dp > 1 && p.Zero >= 2:
		reduceAlone(p, m, q, st.Bytes)
	case !p.gradientsGo():
		return false
	}
	if p.OptimizerInBackward {
		m.Pulse(p.optimizerTemp([]*parameter{q}), Temporary)
	}
	m.Release(st)
	return true
}

// await keeps a gradient until its group's are reduced.
func (s *sharding) await(m *ranks, q *parameter, st *storage) {
	if st.Refs > 1 || st.Cat != Gradients && s.waiting[q] == nil {
		m.Become(st, Gradients)
	}
	m.Release(s.waiting[q])
	s.waiting[q] = st
}

// reduceAlone is a gradient's reduction under ZeRO 2.
func reduceAlone(p *plan, m *ranks, q *parameter, bytes int64) {
	n := p.shards(q.Expert())
	if m.Held[q] == nil && !p.gradientsGo() {
		m.Held[q] = m.Alloc(autograd.Parts(p.keptBytes(q), n), Gradients)
	}
	switch {
	case p.deepspeed():
		m.intoBucket(q.Elements())
	case n > 1:
		m.Pulse(bytes, Communication)
	}
}

// gradientsGo says whether no gradient stays on the GPU until the optimizer's step.
func (p *setup) gradientsGo() bool {
	return p.OptimizerInBackward || p.Offload == "params" && !p.Inference || p.Offload == "optimizer" && p.Zero >= 2
}

// optimizerTemp is what an optimizer takes for the step of some tensors alone.
func (p *holding) optimizerTemp(qs []*parameter) int64 {
	if p.Offload != "none" {
		return 0
	}
	var temp int64
	for _, same := range optimizers.ByWidth(p.optTensors(qs)) {
		_, t := optimizers.Of(p.Optimizer).Bytes(same, p.workspace(), p.MasterWeights, p.wideGradients())
		temp = max(temp, t)
	}
	return temp
}

// share is this rank's part of n bytes, of experts or of the rest.
func (p *setup) share(n int64, from int, experts bool) int64 {
	if p.Zero >= from && p.dp > 1 || p.FSDP != "" && p.dp > 1 {
		k := p.shards(experts)
		return (n + k - 1) / k
	}
	return n
}

// gathersEight says whether FSDP gathers a weight in 8 bits (enable_fsdp_float8_all_gather).
func (p *setup) gathersEight() bool {
	return p.Float8AllGather && p.sharded() && p.FSDP != "" && !p.flatUnits()
}

// wideGradient is torchao's recipe that makes gradients of weights in 16 bits, of inputs that
// are kept in 16 bits.
const wideGradient = "rowwise_with_gw_hp"
