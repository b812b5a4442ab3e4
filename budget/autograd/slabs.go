package autograd

import "sync"

// slab hands small things out from pieces of many: a step of a large model makes hundreds of thousands.
type slab[T any] struct {
	free   []T
	pieces [][]T
	next   int // piece to hand out again
}

// slabSize is a compromise: small models need few.
const slabSize = 512

// take is n empty ones.
func (s *slab[T]) take(n int) []T {
	p := s.room(n)
	clear(p)
	return p
}

// room is for n, in which those of an earlier step may lie.
func (s *slab[T]) room(n int) []T {
	if len(s.free) < n {
		s.free = s.piece(n)
	}
	p := s.free[:n:n]
	s.free = s.free[n:]
	return p
}

// piece is room for at least n: that of an earlier step, or new.
func (s *slab[T]) piece(n int) []T {
	if n > slabSize {
		return make([]T, n)
	}
	if s.next == len(s.pieces) {
		s.pieces = append(s.pieces, make([]T, slabSize))
	}
	s.next++
	return s.pieces[s.next-1]
}

// again hands all pieces out again.
func (s *slab[T]) again() { s.free, s.next = nil, 0 }

// put is a new one that holds x.
func (s *slab[T]) put(x T) *T {
	p := &s.room(1)[0]
	*p = x
	return p
}

type slabs struct {
	storages slab[Storage]
	values   slab[Value]
	nodes    slab[Node]
	grads    slab[gradient]
	ins      slab[edge]
}

// usedSlabs are those of steps that are over: a budget runs dozens of steps.
var usedSlabs = sync.Pool{New: func() any { return new(slabs) }}

// Done gives a machine's memory to the next one. Nothing that it made may be looked at after.
func (m *Machine) Done() {
	s := m.slabs
	m.slabs = nil
	s.storages.again()
	s.values.again()
	s.nodes.again()
	s.grads.again()
	s.ins.again()
	usedSlabs.Put(s)
}
