package budget

// slab hands small things out from pieces of many at a time: a step of a large model
// makes hundreds of thousands of them.
type slab[T any] []T

// slabSize is a compromise: small models need few.
const slabSize = 512

// take is n new ones.
func (s *slab[T]) take(n int) []T {
	if len(*s) < n {
		*s = make([]T, max(slabSize, n))
	}
	p := (*s)[:n:n]
	*s = (*s)[n:]
	return p
}

// put is a new one that holds x.
func (s *slab[T]) put(x T) *T {
	p := &s.take(1)[0]
	*p = x
	return p
}

type slabs struct {
	storages slab[storage]
	values   slab[value]
	nodes    slab[node]
	grads    slab[gradient]
	ins      slab[edge]
}
