package facts

import (
	"github.com/vramscope/vramscope/timeline"
)

// held are the allocations that variables hold, true for those with an autograd graph
// behind them or in one; none where nobody recorded variables.
var held = inner(func(p *Pass) map[timeline.AllocationID]bool {
	found := map[timeline.AllocationID]bool{}
	for _, h := range p.Variables {
		for _, id := range h.Tensors {
			found[id] = len(h.Graph) > 0
		}
		for _, id := range h.Graph {
			found[id] = true
		}
	}
	return found
})

// HeldBy reports whether a variable holds an allocation.
func (p *Pass) HeldBy(id timeline.AllocationID) bool {
	_, ok := held.Of(p)[id]
	return ok
}

// HeldAlone reports whether variables hold most of some memory without a graph behind it:
// torch.no_grad() would change nothing.
func (p *Pass) HeldAlone(ids []timeline.AllocationID) bool {
	variables := held.Of(p)
	var alone, all int64
	for _, id := range ids {
		all += p.T.Allocated[id]
		if graph, ok := variables[id]; ok && !graph {
			alone += p.T.Allocated[id]
		}
	}
	return 2*alone > all
}
