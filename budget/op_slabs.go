package budget

// slabs hand out the machine's small things from pieces of many at a time: a
// step of a large model makes hundreds of thousands of them.
type slabs struct {
	storages []storage
	values   []value
	nodes    []node
	grads    []gradient
	ins      []edge
}

// slabSize is a compromise: small models need few.
const slabSize = 512

func (s *slabs) storage(x storage) *storage {
	if len(s.storages) == 0 {
		s.storages = make([]storage, slabSize)
	}
	p := &s.storages[0]
	s.storages = s.storages[1:]
	*p = x
	return p
}

func (s *slabs) value(x value) *value {
	if len(s.values) == 0 {
		s.values = make([]value, slabSize)
	}
	p := &s.values[0]
	s.values = s.values[1:]
	*p = x
	return p
}

func (s *slabs) node(x node) *node {
	if len(s.nodes) == 0 {
		s.nodes = make([]node, slabSize)
	}
	p := &s.nodes[0]
	s.nodes = s.nodes[1:]
	*p = x
	return p
}

func (s *slabs) gradients(n int) []gradient {
	if len(s.grads) < n {
		s.grads = make([]gradient, max(slabSize, n))
	}
	p := s.grads[:n:n]
	s.grads = s.grads[n:]
	return p
}

func (s *slabs) edges(n int) []edge {
	if len(s.ins) < n {
		s.ins = make([]edge, max(slabSize, n))
	}
	p := s.ins[:n:n]
	s.ins = s.ins[n:]
	return p
}
