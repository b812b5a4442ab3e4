package budget

import (
	"slices"

	"github.com/vramscope/vramscope/budget/modelfile"
)

// Machine runs a model's operations on byte counts instead of numbers. It
// keeps the books that PyTorch's autograd keeps: which storages are alive,
// which a node saved for backward, when each is let go, and what the live
// bytes are made of at the peak of each phase. Nothing is computed, so a step
// of a 70-billion-parameter model takes well under a millisecond.
type Machine struct {
	live    int64
	made    int64 // storages so far
	cats    Categories
	phase   Phase
	peaks   [numPhases]instant
	tape    []*node
	grad    bool                    // a graph is being built
	mixed   bool                    // inside autocast
	width   int64                   // bytes of the compute type
	wide    int64                   // bytes of a parameter
	casts   map[*parameter]*value   // autocast's cache of weight copies
	accum   map[*parameter]*pending // gradients on their way to a leaf
	held    map[*parameter]*storage // .grad
	cublas  int64                   // workspace of a plain matrix product
	cublas1 int64                   // workspace of one with a bias epilogue
	slabs   *slabs
	pass    Pass
	// transposed marks the next record's second input: its gradient arrives
	// through a transposition.
	transposed bool
	replay     replay
	selective  bool       // attention alone is checkpointed
	loose      bool       // products do not keep their weight's copy
	stream     uint8      // that requests are made on
	stash      int        // how many saved tensors may be on their way to host memory, 0: none go there
	leaving    []*storage // those that are
	host, most int64      // bytes of those that are there, now and at most
	over       *storage   // goes with the next node
	hoard      []*storage // inputs of packed products, which outlive the step
	compiled   bool       // torch.compile fuses what is between products
	late       []*storage // what a compiled head's gradient waits with for that of the embeddings
	log        *[]request // of every storage made and let go, nil: nobody asks
}

// instant is the largest moment of a phase and what was alive in it.
type instant struct {
	bytes int64
	cats  Categories
	made  int64 // storages made until then
}

// storage is one allocation with its reference count.
type storage struct {
	bytes int64
	refs  int
	cat   Category
	born  int64 // how many were made before it
	// column is the same in 8 bits along the other dimension, while that is kept.
	column *storage
}

// value is a tensor: elements of some width in a storage, and the node that
// made it (nil where no gradient flows).
type value struct {
	st   *storage
	n    int64 // elements
	e    int64 // bytes per element
	from *node
	slot int
	leaf *parameter
	// byHead marks a layout in which heads come before tokens, so that
	// attention's output has to be copied before the output projection.
	byHead bool
	fused  bool // made by a compiled kernel that backward's kernel makes again
	// part is what of it is kept for backward, which makes it whole again; nil: all of it.
	part *storage
	// remade marks a compiled result that a kernel of backward works out again from what is
	// kept anyway; sum one that was added to the stream.
	remade, sum bool
}

// parameter is a weight the optimizer sees.
type parameter struct {
	modelfile.Tensor
	trainable bool
	joined    bool // frozen, but in a flat tensor with others that are trained
	packed    bool // quantised: unpacked for every use
	eight     bool // of a product in 8 bits
	listed    bool // a buffer that published counts have among the parameters
	adapter   bool // hung on the model
	outside   bool // on a layer outside of the blocks
	copied    bool // a module that PEFT trains a copy of
	val       *value
}

// expert says whether expert parallelism divides the weight.
func (p *parameter) expert() bool { return p.Role == modelfile.RoleExpert }

// node is one backward function.
type node struct {
	saved []*storage
	away  []int64 // bytes of what was saved in host memory
	in    []edge
	grads []gradient // one for each result; st is nil where none came
	run   func(g []*storage) []*storage
	// compiled says that the operation was, and its backward is.
	compiled bool
	place    int // among the nodes of a checkpointed function, from 1 on
}

// edge says where the gradient of an input goes.
type edge struct {
	to   *node
	slot int
	leaf *parameter
	// view marks a gradient that arrives through a transposition: it is never
	// added to in place.
	view bool
}

type gradient struct {
	st   *storage
	view bool
}

type pending struct {
	uses, seen int
	st         *storage
	view       bool
}

// New is a machine for numbers of width bytes, with parameters of wide bytes.
func New(width, wide int64) Machine {
	return Machine{
		width: width,
		wide:  wide,
		casts: map[*parameter]*value{},
		accum: map[*parameter]*pending{},
		held:  map[*parameter]*storage{},
		slabs: usedSlabs.Get().(*slabs),
	}
}

// replay is how checkpointing treats the graph. The first run of a
// checkpointed function makes nodes that save nothing and are not kept, and
// notes how far a second run has to go: that one stops as soon as the last
// tensor that backward needs is there.
type replay struct {
	discard bool  // first run
	tensors int64 // results made so far
	last    int64 // the result that the second run need not make any more
	until   int64 // second run: stop here, 0 when nothing is replayed
	dead    bool  // stopped

	op       bool // a policy keeps results of some operations
	products int  // made so far
	outputs  []output
	gathered []*storage // of the first run, which stay

	nodes int        // made so far
	tail  []*node    // of the first run, after the last one that saved something
	early []arriving // gradients that these gave to the rest
}

// alloc makes a storage with one reference.
func (m *Machine) alloc(bytes int64, c Category) *storage {
	if m.replay.dead {
		return m.slabs.storages.put(storage{refs: 1, cat: c})
	}
	m.live += bytes
	m.cats[c] += bytes
	m.made++
	m.mark()
	if m.log != nil {
		on := m.stream
		if m.compiled && m.pass.CUDAGraphs {
			on = graphPool
		}
		*m.log = append(*m.log, request{id: m.made, bytes: bytes, stream: on})
	}
	return m.slabs.storages.put(storage{bytes: bytes, refs: 1, cat: c, born: m.made})
}

// compile says whether what follows is compiled, and what was so before.
func (m *Machine) compile(on bool) (before bool) {
	before, m.compiled = m.compiled, on
	return before
}

// mark compares the moment with the phase's peak.
func (m *Machine) mark() {
	if p := &m.peaks[m.phase]; m.live > p.bytes {
		p.bytes, p.cats, p.made = m.live, m.cats, m.made
	}
}

func (m *Machine) keep(s *storage) *storage {
	if s != nil {
		s.refs++
	}
	return s
}

func (m *Machine) release(s *storage) {
	if s == nil {
		return
	}
	if s.refs--; s.refs == 0 {
		m.live -= s.bytes
		m.cats[s.cat] -= s.bytes
		if m.log != nil && s.born > 0 {
			*m.log = append(*m.log, request{id: s.born, bytes: -1, stream: m.stream})
		}
	}
}

func (m *Machine) releaseAll(all []*storage) {
	for _, s := range all {
		m.release(s)
	}
}

// become moves a storage to another category, for its whole life: also in the
// peaks at which it was alive already.
func (m *Machine) become(s *storage, c Category) {
	m.cats[s.cat] -= s.bytes
	m.cats[c] += s.bytes
	for i := range m.peaks[:m.phase+1] {
		if p := &m.peaks[i]; p.bytes > 0 && p.made >= s.born && s.born > 0 {
			p.cats[s.cat] -= s.bytes
			p.cats[c] += s.bytes
		}
	}
	s.cat = c
}

// pulse is memory that is taken and given back at once.
func (m *Machine) pulse(bytes int64, c Category) {
	if bytes > 0 {
		m.release(m.alloc(bytes, c))
	}
}

// handIn is what code outside makes for a compiled function to take. A CUDA graph works on a
// copy of it in its own pool.
func (m *Machine) handIn(bytes int64, c Category) *storage {
	if !m.pass.CUDAGraphs {
		return m.alloc(bytes, c)
	}
	before := m.compile(false)
	m.pulse(bytes, c)
	m.compile(before)
	s := m.alloc(bytes, c)
	if m.log != nil {
		(*m.log)[len(*m.log)-1].handed = true
	}
	return s
}

// tensor makes a value of n elements of e bytes.
func (m *Machine) tensor(n, e int64) *value {
	m.replay.tensors++
	if m.replay.until > 0 && m.replay.tensors >= m.replay.until {
		m.replay.dead = true
	}
	return m.slabs.values.put(value{st: m.alloc(n*e, Temporary), n: n, e: e})
}

// drop is a Python name going out of scope.
func (m *Machine) drop(vs ...*value) {
	for _, v := range vs {
		if v != nil {
			m.release(v.st)
		}
	}
}

func (v *value) bytes() int64 { return v.n * v.e }

func (v *value) needsGrad() bool {
	return v != nil && (v.from != nil || v.leaf.hasGradient())
}

// hasGradient says whether backward makes one for the weight.
func (p *parameter) hasGradient() bool { return p != nil && (p.trainable || p.joined) }

// again is a second Python name for the same tensor.
func (m *Machine) again(v *value) *value { m.keep(v.st); return m.slabs.values.put(*v) }

func (v *value) edge() edge {
	if v.from == nil && v.leaf.hasGradient() {
		return edge{leaf: v.leaf}
	}
	return edge{to: v.from, slot: v.slot}
}

// record puts a node on the tape: outputs outs, inputs ins, saved storages,
// and the function that turns output gradients into input gradients. A nil
// in the result means that no gradient flows there.
func (m *Machine) record(outs []*value, ins []*value, saved []*storage, run func(g []*storage) []*storage) {
	turned := m.transposed
	m.transposed = false
	if !m.grad || !slices.ContainsFunc(ins, (*value).needsGrad) {
		return
	}
	nd := m.slabs.nodes.put(node{run: run, grads: m.slabs.grads.take(len(outs)), compiled: m.compiled})
	for i, v := range outs {
		v.from, v.slot = nd, i
	}
	if m.replay.discard {
		m.note(outs, saved)
		m.trail(nd, ins, saved)
		return
	}
	if m.replay.until > 0 {
		m.replay.arrive(nd)
	}
	nd.in = m.slabs.ins.take(len(ins))
	for i, v := range ins {
		if v.needsGrad() {
			nd.in[i] = v.used(m, turned && i == 1)
		}
	}
	nd.save(m, saved)
	m.tape = append(m.tape, nd)
}

// used is where the gradient of an input goes; a parameter's waits for all its uses.
func (v *value) used(m *Machine, view bool) edge {
	e := v.edge()
	e.view = view
	if e.leaf != nil {
		if m.accum[e.leaf] == nil {
			m.accum[e.leaf] = &pending{}
		}
		m.accum[e.leaf].uses++
	}
	return e
}

// save keeps storages for a node's backward, or sends them to host memory until then.
func (nd *node) save(m *Machine, saved []*storage) {
	nd.saved = saved[:0] // what is nil is left out
	for _, s := range saved {
		if s == nil {
			continue
		}
		m.keep(s)
		if s.cat == Temporary {
			m.become(s, Activations)
		}
		if m.stash > 0 && s.cat == Activations && s.bytes > leastOffloaded {
			nd.away = append(nd.away, s.bytes)
			m.host += s.bytes
			m.most = max(m.most, m.host)
			m.offload(s)
			continue
		}
		nd.saved = append(nd.saved, s)
	}
}

// unaryNode records an operation whose gradient is one new tensor of its input's size.
func (m *Machine) unaryNode(y, x *value, c Category, saved ...*storage) {
	b := x.bytes()
	m.record([]*value{y}, []*value{x}, saved, func(g []*storage) []*storage {
		return []*storage{m.alloc(b, c)}
	})
}

// note remembers the last result that was still needed: an operation that
// saves only what goes into it need not run again itself.
func (m *Machine) note(outs []*value, saved []*storage) {
	for _, s := range saved {
		if s == nil {
			continue
		}
		m.replay.last = m.replay.tensors
		for _, o := range outs {
			if o.st == s {
				m.replay.last++
			}
		}
	}
}

// send delivers a gradient along an edge and owns its reference.
func (m *Machine) send(e edge, s *storage) {
	switch {
	case s == nil:
	case e.leaf != nil:
		m.toLeaf(e.leaf, s, e.view)
	case e.to != nil:
		g := &e.to.grads[e.slot]
		if g.st == nil {
			*g = gradient{s, e.view}
			return
		}
		g.st, g.view = m.sum(g.st, s, g.view)
	default:
		m.release(s)
	}
}

// sum adds two gradients: in place where the first is nobody else's.
func (m *Machine) sum(old, s *storage, view bool) (*storage, bool) {
	if old.refs == 1 && !view {
		m.release(s)
		return old, false
	}
	t := m.alloc(min(old.bytes, s.bytes), old.cat) // either may be a part of something larger
	m.release(old)
	m.release(s)
	return t, false
}

// toLeaf collects a parameter's gradient; it becomes .grad when every use of
// the parameter has reported.
func (m *Machine) toLeaf(p *parameter, s *storage, view bool) {
	a := m.accum[p]
	if a.st == nil {
		a.st, a.view = s, view
	} else {
		a.st, a.view = m.sum(a.st, s, a.view)
	}
	if a.seen++; a.seen < a.uses {
		return
	}
	delete(m.accum, p)
	if m.pass.Reduce != nil && m.pass.Reduce(p, a.st) {
		return
	}
	if m.held[p] != nil {
		m.release(a.st) // added in place
		return
	}
	if a.st.refs > 1 { // someone else's too: copied
		t := m.alloc(a.st.bytes, Gradients)
		m.release(a.st)
		a.st = t
	}
	m.become(a.st, Gradients)
	m.held[p] = a.st
}

// backward empties the tape down to a mark, newest node first, as the engine
// does: nodes run in the reverse order of their making.
func (m *Machine) backward(from int) {
	for len(m.tape) > from {
		nd := m.tape[len(m.tape)-1]
		m.tape = m.tape[:len(m.tape)-1]
		m.step(nd)
	}
}

func (m *Machine) step(nd *node) {
	gs := make([]*storage, len(nd.grads))
	some := false
	for i, g := range nd.grads {
		if g.st != nil {
			gs[i], some = g.st, true
		}
	}
	over := m.over
	m.over = nil
	var outs []*storage
	if some {
		before := m.compile(nd.compiled)
		back := make([]*storage, len(nd.away))
		for i, n := range nd.away {
			back[i] = m.alloc(n, Activations)
			m.host -= n
		}
		outs = nd.run(gs)
		m.releaseAll(back)
		m.compile(before)
	}
	for _, s := range gs {
		m.release(s)
	}
	for _, s := range nd.saved {
		m.release(s)
	}
	nd.saved, nd.grads = nil, nil
	for i, s := range outs {
		m.send(nd.in[i], s)
	}
	m.release(over)
	nd.in = nil
}

// Saved tensors in host memory: each is copied on a stream of its own, and its memory is
// given back when the copy is done. So that the copies cannot fall behind, only some may
// be under way; in backward each comes back for the operation that needs it.

const (
	leastOffloaded = 1024 // bytes: smaller ones stay (torchtune/training/_activation_offloading.py)
	stashTorchtune = 5
	stashUnsloth   = 2 // inputs of checkpointed blocks, in two buffers by turns
)

// offload begins a storage's copy, and owns its reference.
func (m *Machine) offload(s *storage) {
	m.leaving = append(m.leaving, s)
	if len(m.leaving) > m.stash {
		m.release(m.leaving[0])
		m.leaving = m.leaving[1:]
	}
}

// arrived waits for all copies.
func (m *Machine) arrived() {
	m.releaseAll(m.leaving)
	m.leaving, m.stash = nil, 0
}

// seed gives the loss its gradient.
func (m *Machine) seed(v *value) {
	if v.from != nil {
		v.from.grads[v.slot] = gradient{m.alloc(v.bytes(), Temporary), false}
	}
	m.drop(v)
}

// parts is how many pieces of a size n is cut into.
func parts(n, size int64) int64 { return 1 + (n-1)/size }

// replace is x = f(x): the old value goes when the new one is there.
func (m *Machine) replace(old, v *value) *value { m.drop(old); return v }

// onTape ties a storage's life to the oldest node of the tape.
func (m *Machine) onTape(s *storage) {
	if m.grad && len(m.tape) > 0 {
		m.tape[0].saved = append(m.tape[0].saved, s)
		return
	}
	m.release(s)
}
