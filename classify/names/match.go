// Package names gives allocations the names of the model's tensors: from labels and the
// recording's metadata (name.go), else by the order of their sizes (match.go, order.go).
// An order only tells names: the categories must be known by then.
package names

import (
	"maps"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/timeline"
)

// Find gives the model's tensors to the allocations that hold them, their
// gradients and their optimizer state. What tells is the order of the sizes:
// modules are moved, differentiated and stepped through in the order in which
// they are registered. Where an order leaves more than one possibility, nothing
// is named.
func Find(c *meaning.Result, tensors []Tensor) {
	tensors = slices.DeleteFunc(slices.Clone(tensors), func(t Tensor) bool { return t.Elements <= 0 || t.Name == "" })
	if len(tensors) == 0 {
		return
	}
	m := &matcher{c: c, namer: newNamer(c), tensors: tensors}
	var weights, masters []timeline.AllocationID
	gradients, states := map[int32][]timeline.AllocationID{}, map[int32][]timeline.AllocationID{}
	for id := range timeline.AllocationID(c.Timeline.Len()) {
		if c.Timeline.Requested(id) <= 4 || c.Category[id] > meaning.OptimizerState {
			continue
		}
		switch c.Category[id] {
		case meaning.Weights:
			weights = append(weights, id)
		case meaning.Gradients:
			gradients[c.Step[id]] = append(gradients[c.Step[id]], id)
		case meaning.OptimizerState:
			if c.Detail[id] == meaning.MasterWeights {
				masters = append(masters, id)
			} else {
				states[c.Step[id]] = append(states[c.Step[id]], id)
			}
		}
	}
	m.match(weights, m.forwardOrders(), []string{""})
	m.dropTied()
	forward := m.forwardOrders()
	m.match(masters, forward, []string{".master"})
	backward := m.backwardOrders()
	for _, step := range slices.Sorted(maps.Keys(gradients)) {
		m.match(gradients[step], backward, []string{".grad"})
	}
	for _, step := range slices.Sorted(maps.Keys(states)) {
		m.state(states[step])
	}
}

// matcher looks for the model's tensors among allocations.
type matcher struct {
	c       *meaning.Result
	namer   *namer
	tensors []Tensor
	tied    string // a weight that is another one
}

// dropTied leaves out what has no memory of its own.
func (m *matcher) dropTied() {
	m.tensors = slices.DeleteFunc(m.tensors, func(t Tensor) bool { return m.tied != "" && t.Name == m.tied })
}

// inAnother reports whether one of some allocations may be as many elements as another is, in half or twice the precision.
func (m *matcher) inAnother(ids []timeline.AllocationID, id timeline.AllocationID) bool {
	n := m.c.Timeline.Requested(id)
	return slices.ContainsFunc(ids, func(x timeline.AllocationID) bool {
		y := m.c.Timeline.Requested(x)
		return 2*y == n || y == 2*n
	})
}

// order is a sequence of tensors, by index.
type order []int

// found is an order that fits.
type found struct {
	order order
	pairs [][2]int // allocation, place in the order
	ids   []timeline.AllocationID
	parts int // allocations per tensor
}

// match names what fits one of the orders; every tensor has one allocation for
// each ending, one after the other.
func (m *matcher) match(ids []timeline.AllocationID, orders []order, endings []string) bool {
	best := m.best(ids, orders, len(endings))
	if len(best.pairs) == 0 {
		return false
	}
	// As many allocations of a size as tensors have it, or the order doesn't tell
	// which ones are missing.
	has, wants := map[int64]int{}, map[int64]int{}
	for _, i := range best.order {
		wants[m.tensors[i].Elements] += best.parts
	}
	for _, p := range best.pairs {
		has[m.tensors[best.order[p[1]/best.parts]].Elements]++
	}
	first, last := map[int64]int{}, map[int64]int{}
	for i, t := range m.tensors {
		if _, known := first[t.Elements]; !known {
			first[t.Elements] = i
		}
		last[t.Elements] = i
	}
	for _, p := range best.pairs {
		i, id := best.order[p[1]/best.parts], best.ids[p[0]]
		size := m.tensors[i].Elements
		switch {
		case has[size] == wants[size]:
		case endings[0] == "" && has[size] == 1 && wants[size] == 2 && !m.inAnother(ids, id): // the head is the embedding
			i, m.tied = first[size], m.tensors[last[size]].Name
		default:
			continue
		}
		// Blocks older than the trace are in the order of their addresses, which means little.
		if !m.namer.named(id) && (m.c.Timeline.Born[id] != timeline.Never || min(wants[size], has[size]) <= 1) {
			m.namer.name(id, m.tensors[i].Name+endings[p[1]%best.parts])
		}
	}
	return true
}

// similar is the share of tensors or allocations that must be in order. In
// backward, norms come between the maps that they precede, so not all are; a
// size is only named when all of its tensors are in order.
const similar = 0.6

// best is the order, with the element size, that fits most.
func (m *matcher) best(ids []timeline.AllocationID, orders []order, parts int) (best found) {
	for _, element := range []int64{0, 4, 2, 1} {
		for _, o := range orders {
			want := make([]int64, 0, len(o)*parts)
			wanted := map[int64]bool{}
			for _, i := range o {
				size := m.tensors[i].Elements * element
				if element == 0 {
					size = m.tensors[i].Bytes
				}
				wanted[size] = true
				for range parts {
					want = append(want, size)
				}
			}
			var sizes []int64
			var some []timeline.AllocationID
			for _, id := range ids {
				if size := m.c.Timeline.Requested(id); wanted[size] {
					sizes, some = append(sizes, size), append(some, id)
				}
			}
			if 2*len(some) < len(ids) || len(some) <= len(best.pairs) {
				continue
			}
			pairs, ok := align(sizes, want)
			if ok && len(pairs) > len(best.pairs) && float64(len(pairs)) >= similar*float64(min(len(want), len(sizes))) &&
				2*len(pairs) >= len(want) {
				best = found{o, pairs, some, parts}
			}
		}
	}
	return best
}

// state names optimizer state: one or more allocations per parameter, together
// or one kind after the other.
func (m *matcher) state(ids []timeline.AllocationID) {
	orders := m.forwardOrders()
	orders = append(orders, m.decayed(orders[0]))
	two := m.pair()
	// Two per parameter fit one per parameter badly, and the other way round: the
	// number of state tensors decides.
	if 3*len(ids) > 4*len(m.tensors) {
		if m.match(ids, orders, two) {
			return
		}
		half := len(ids) / 2
		m.match(ids[:half], orders, two[:1])
		m.match(ids[half:], orders, two[1:])
		return
	}
	m.match(ids, orders, []string{".momentum"})
}

// pairs are what optimizers call two tensors of state that they keep of each weight, in
// the order in which they make them (torch/optim).
var pairs = map[string][]string{
	"RMSprop":  {".square_avg", ".momentum_buffer"},
	"Adadelta": {".square_avg", ".acc_delta"},
	"Adamax":   {".exp_avg", ".exp_inf"},
	"Rprop":    {".prev", ".step_size"},
}

// pair is what the program's optimizer calls them, as far as annotations name it; most
// that keep two are Adam's kin.
func (m *matcher) pair() []string {
	s := m.c.Timeline.Snapshot
	for _, n := range s.Annotations {
		if _, step, ok := strings.Cut(s.String(n.Name), "Optimizer.step#"); ok {
			if two := pairs[strings.TrimSuffix(step, ".step")]; two != nil {
				return two
			}
		}
	}
	return []string{".exp_avg", ".exp_avg_sq"}
}
