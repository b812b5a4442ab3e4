package autograd

import (
	"slices"

	"github.com/vramscope/vramscope/budget/modelfile"
	"github.com/vramscope/vramscope/internal/words"
)

// Machine runs a model's operations on byte counts instead of numbers. It keeps the books that PyTorch's autograd keeps, and what
// the live bytes are made of at the peak of each phase.
type Machine struct {
	Memory
	Tape       []*Node                 // oldest first
	Grad       bool                    // a graph is being built
	Mixed      bool                    // inside autocast
	Width      int64                   // bytes of the compute type
	Wide       int64                   // bytes of a parameter
	Casts      map[*Parameter]*Value   // autocast's cache of weight copies
	Accum      map[*Parameter]*Pending // gradients on their way to a leaf
	Held       map[*Parameter]*Storage // .grad
	Cublas     int64                   // bytes of the workspace of a plain matrix product
	Cublas1    int64                   // and of one with a bias epilogue
	Pass       Pass
	transposed bool // the gradient of the next record's second input arrives through a transposition
	Replay     Replay
	Selective  bool       // attention alone is checkpointed
	Loose      bool       // products do not keep their weight's copy
	Stash      int        // how many saved tensors may be on their way to host memory, 0: none go there
	leaving    []*Storage // those that are
	host, Most int64      // bytes of those that are there, now and at most
	Over       *Storage   // goes with the next node
	Hoard      []*Storage // inputs of packed products, which outlive the step
	late       []*Storage // what a compiled head's gradient waits with for that of the embeddings
}

// Value is a tensor: elements of some width in a storage, and the node that
// made it (nil where no gradient flows).
type Value struct {
	Mem   *Storage
	N     int64      // elements
	Width int64      // bytes per element
	From  *Node      // that made it
	Slot  int        // which result of it
	Leaf  *Parameter // whose value it is, nil for results
	// ByHead marks a layout in which heads come before tokens, so that
	// attention's output has to be copied before the output projection.
	ByHead bool
	Fused  bool // made by a compiled kernel that backward's kernel makes again
	// part is what of it is kept for backward, which makes it whole again; nil: all of it.
	part *Storage
	// Remade marks a compiled result that a kernel of backward works out again from what is
	// kept anyway; sum one that was added to the stream.
	Remade, Sum bool
}

// Parameter is a weight the optimizer sees.
type Parameter struct {
	modelfile.Tensor
	Trainable bool
	Joined    bool // frozen, but in a flat tensor with others that are trained
	Packed    bool // quantised: unpacked for every use
	Eight     bool // of a product in 8 bits
	Listed    bool // a buffer that published counts have among the parameters
	Adapter   bool // hung on the model
	Outside   bool // on a layer outside of the blocks
	Copied    bool // a module that PEFT trains a copy of
	Val       *Value
}

// Expert says whether expert parallelism divides the weight.
func (p *Parameter) Expert() bool { return p.Role == modelfile.RoleExpert }

// Node is one backward function.
type Node struct {
	Saved []*Storage
	away  []int64 // bytes of what was saved in host memory
	in    []edge
	grads []gradient // one for each result; st is nil where none came
	run   func(g []*Storage) []*Storage
	// compiled says that the operation was, and its backward is.
	compiled bool
	place    int // among the nodes of a checkpointed function, from 1 on
}

// edge says where the gradient of an input goes.
type edge struct {
	to   *Node
	slot int
	leaf *Parameter
	view bool // through a transposition: nothing is added to it in place
}

type gradient struct {
	st   *Storage
	view bool
}

// Pending is a parameter's gradient until every use of the parameter has reported.
type Pending struct {
	uses, seen int
	st         *Storage
	view       bool
}

// New is a machine for numbers of width bytes, with parameters of wide bytes.
func New(width, wide int64, pass Pass) Machine {
	return Machine{
		Memory: Memory{slabs: usedSlabs.Get().(*slabs), graphs: pass.CUDAGraphs},
		Pass:   pass,
		Width:  width,
		Wide:   wide,
		Casts:  map[*Parameter]*Value{},
		Accum:  map[*Parameter]*Pending{},
		Held:   map[*Parameter]*Storage{},
	}
}

// Replay is how checkpointing treats the graph. The first run of a
// checkpointed function makes nodes that save nothing and are not kept, and
// notes how far a second run has to go: that one stops as soon as the last
// tensor that backward needs is there.
type Replay struct {
	Discard bool  // first run
	tensors int64 // results made so far
	last    int64 // the result that the second run need not make any more
	Until   int64 // second run: stop here, 0 when nothing is replayed

	Op       bool // a policy keeps results of some operations
	products int  // made so far
	outputs  []output
	Gathered []*Storage // of the first run, which stay

	nodes int        // made so far
	tail  []*Node    // of the first run, after the last one that saved something
	early []arriving // gradients that these gave to the rest
}

// Tensor makes a value of n elements of e bytes.
func (m *Machine) Tensor(n, e int64) *Value {
	m.Replay.tensors++
	if m.Replay.Until > 0 && m.Replay.tensors >= m.Replay.Until {
		m.stopped = true
	}
	return m.slabs.values.put(Value{Mem: m.Alloc(n*e, words.Temporary), N: n, Width: e})
}

// Bytes are those of all elements.
func (v *Value) Bytes() int64 { return v.N * v.Width }

// NeedsGrad says whether a gradient flows back to the value.
func (v *Value) NeedsGrad() bool {
	return v != nil && (v.From != nil || v.Leaf.HasGradient())
}

// HasGradient says whether backward makes one for the weight.
func (p *Parameter) HasGradient() bool { return p != nil && (p.Trainable || p.Joined) }

func (v *Value) edge() edge {
	if v.From == nil && v.Leaf.HasGradient() {
		return edge{leaf: v.Leaf}
	}
	return edge{to: v.From, slot: v.Slot}
}

// Record puts a node on the tape: outputs outs, inputs ins, saved storages,
// and the function that turns output gradients into input gradients. A nil
// in the result means that no gradient flows there.
func (m *Machine) Record(outs []*Value, ins []*Value, saved []*Storage, run func(g []*Storage) []*Storage) {
	turned := m.transposed
	m.transposed = false
	if !m.Grad || !slices.ContainsFunc(ins, (*Value).NeedsGrad) {
		return
	}
	nd := m.slabs.nodes.put(Node{run: run, grads: m.slabs.grads.take(len(outs)), compiled: m.Compiled})
	for i, v := range outs {
		v.From, v.Slot = nd, i
	}
	if m.Replay.Discard {
		m.note(outs, saved)
		m.trail(nd, ins, saved)
		return
	}
	if m.Replay.Until > 0 {
		m.Replay.arrive(nd)
	}
	nd.in = m.slabs.ins.take(len(ins))
	for i, v := range ins {
		if v.NeedsGrad() {
			nd.in[i] = v.used(m, turned && i == 1)
		}
	}
	nd.save(m, saved)
	m.Tape = append(m.Tape, nd)
}

// used is where the gradient of an input goes; a parameter's waits for all its uses.
func (v *Value) used(m *Machine, view bool) edge {
	e := v.edge()
	e.view = view
	if e.leaf != nil {
		if m.Accum[e.leaf] == nil {
			m.Accum[e.leaf] = &Pending{}
		}
		m.Accum[e.leaf].uses++
	}
	return e
}

// save keeps storages for a node's backward, or sends them to host memory until then.
func (nd *Node) save(m *Machine, saved []*Storage) {
	nd.Saved = saved[:0] // what is nil is left out
	for _, s := range saved {
		if s == nil {
			continue
		}
		m.Keep(s)
		if s.Cat == words.Temporary {
			m.Become(s, words.Activations)
		}
		if m.Stash > 0 && s.Cat == words.Activations && s.Bytes > leastOffloaded {
			nd.away = append(nd.away, s.Bytes)
			m.host += s.Bytes
			m.Most = max(m.Most, m.host)
			m.offload(s)
			continue
		}
		nd.Saved = append(nd.Saved, s)
	}
}

// UnaryNode records an operation whose gradient is one new tensor of its input's size.
func (m *Machine) UnaryNode(y, x *Value, c words.Category, saved ...*Storage) {
	b := x.Bytes()
	m.Record([]*Value{y}, []*Value{x}, saved, func(g []*Storage) []*Storage {
		return []*Storage{m.Alloc(b, c)}
	})
}

// note remembers the last result that was needed: what saves only its inputs need not run again.
func (m *Machine) note(outs []*Value, saved []*Storage) {
	for _, s := range saved {
		if s == nil {
			continue
		}
		m.Replay.last = m.Replay.tensors
		for _, o := range outs {
			if o.Mem == s {
				m.Replay.last++
			}
		}
	}
}

// send delivers a gradient along an edge and owns its reference.
func (m *Machine) send(e edge, s *Storage) {
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
		*g = gradient{m.sum(g.st, s, g.view), false}
	default:
		m.Release(s)
	}
}

// sum adds two gradients: in place where the first is nobody else's.
func (m *Machine) sum(old, s *Storage, view bool) *Storage {
	if old.Refs == 1 && !view {
		m.Release(s)
		return old
	}
	t := m.Alloc(min(old.Bytes, s.Bytes), old.Cat) // either may be a part of something larger
	m.Release(old)
	m.Release(s)
	return t
}

// toLeaf collects a parameter's gradient; it becomes .grad when every use has reported.
func (m *Machine) toLeaf(p *Parameter, s *Storage, view bool) {
	a := m.Accum[p]
	if a.st == nil {
		a.st, a.view = s, view
	} else {
		a.st, a.view = m.sum(a.st, s, a.view), false
	}
	if a.seen++; a.seen < a.uses {
		return
	}
	delete(m.Accum, p)
	if m.Pass.Reduce != nil && m.Pass.Reduce(p, a.st) {
		return
	}
	if m.Held[p] != nil {
		m.Release(a.st) // added in place
		return
	}
	if a.st.Refs > 1 { // someone else's too: copied
		t := m.Alloc(a.st.Bytes, words.Gradients)
		m.Release(a.st)
		a.st = t
	}
	m.Become(a.st, words.Gradients)
	m.Held[p] = a.st
}

// Backward empties the tape down to a mark, newest node first, as the engine does.
func (m *Machine) Backward(from int) {
	for len(m.Tape) > from {
		nd := m.Tape[len(m.Tape)-1]
		m.Tape = m.Tape[:len(m.Tape)-1]
		m.step(nd)
	}
}

func (m *Machine) step(nd *Node) {
	gs := make([]*Storage, len(nd.grads))
	some := false
	for i, g := range nd.grads {
		if g.st != nil {
			gs[i], some = g.st, true
		}
	}
	over := m.Over
	m.Over = nil
	var outs []*Storage
	if some {
		before := m.Compile(nd.compiled)
		back := make([]*Storage, len(nd.away))
		for i, n := range nd.away {
			back[i] = m.Alloc(n, words.Activations)
			m.host -= n
		}
		outs = nd.run(gs)
		m.ReleaseAll(back)
		m.Compile(before)
	}
	m.ReleaseAll(gs)
	m.ReleaseAll(nd.Saved)
	nd.Saved, nd.grads = nil, nil
	for i, s := range outs {
		m.send(nd.in[i], s)
	}
	m.Release(over)
	nd.in = nil
}

// Saved tensors in host memory: each is copied on a stream of its own, and its memory is
// given back when the copy is done. So that the copies cannot fall behind, only some may
// be under way; in backward each comes back for the operation that needs it.

const (
	leastOffloaded = 1024 // bytes: smaller ones stay (torchtune/training/_activation_offloading.py)
	StashTorchtune = 5
	stashUnsloth   = 2 // inputs of checkpointed blocks, in two buffers by turns
)

// offload begins a storage's copy, and owns its reference.
func (m *Machine) offload(s *Storage) {
	m.leaving = append(m.leaving, s)
	if len(m.leaving) > m.Stash {
		m.Release(m.leaving[0])
		m.leaving = m.leaving[1:]
	}
}

// Arrived waits for all copies.
func (m *Machine) Arrived() {
	m.ReleaseAll(m.leaving)
	m.leaving, m.Stash = nil, 0
}

// Seed gives the loss its gradient.
func (m *Machine) Seed(v *Value) {
	if v.From != nil {
		v.From.grads[v.Slot] = gradient{m.Alloc(v.Bytes(), words.Temporary), false}
	}
	m.Drop(v)
}

// Parts is how many pieces of a size n is cut into.
func Parts(n, size int64) int64 { return 1 + (n-1)/size }

// mostPieces bounds how many are told apart.
const mostPieces = 4096

// Pieces are those, of n bytes, larger ones where there were too many.
func Pieces(n, size int64) (pieces []int64) {
	size = max(size, 1, Parts(n, mostPieces))
	for ; n > 0; n -= size {
		pieces = append(pieces, min(n, size))
	}
	return pieces
}

// OnTape ties a storage's life to the oldest node of the tape.
func (m *Machine) OnTape(s *Storage) {
	if m.Grad && len(m.Tape) > 0 {
		m.Tape[0].Saved = append(m.Tape[0].Saved, s)
		return
	}
	m.Release(s)
}
