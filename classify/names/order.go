package names

import (
	"slices"
	"strings"
)

// forwardOrders are the orders in which weights are made: as listed; children
// before a module's own parameters, as Module._apply moves them; by name, as
// safetensors files list them.
func (m *matcher) forwardOrders() []order {
	listed := make(order, len(m.tensors))
	for i := range listed {
		listed[i] = i
	}
	byName := slices.Clone(listed)
	slices.SortStableFunc(byName, func(a, b int) int { return strings.Compare(m.tensors[a].Name, m.tensors[b].Name) })
	return []order{listed, childrenFirst(m.tensors), byName}
}

// backwardOrders are the orders in which gradients appear: the last module
// first, a module's own parameters in their order.
func (m *matcher) backwardOrders() (orders []order) {
	for _, o := range m.forwardOrders() {
		var modules []order
		last := ""
		for _, i := range o {
			module := moduleOf(m.tensors[i].Name)
			if len(modules) == 0 || module != last {
				modules = append(modules, nil)
			}
			modules[len(modules)-1] = append(modules[len(modules)-1], i)
			last = module
		}
		slices.Reverse(modules)
		orders = append(orders, slices.Concat(modules...))
	}
	return orders
}

func moduleOf(name string) string {
	if i := strings.LastIndexByte(name, '.'); i >= 0 {
		return name[:i]
	}
	return ""
}

// childrenFirst is the order of a walk over the modules that comes to a
// module's own parameters after its children's.
func childrenFirst(tensors []Tensor) order {
	type node struct {
		children []string
		own      order
	}
	nodes := map[string]*node{"": {}}
	var add func(module string) *node
	add = func(module string) *node {
		if n := nodes[module]; n != nil {
			return n
		}
		n := &node{}
		nodes[module] = n
		parent := add(moduleOf(module))
		parent.children = append(parent.children, module)
		return n
	}
	for i, t := range tensors {
		n := add(bounded(moduleOf(t.Name)))
		n.own = append(n.own, i)
	}
	var o order
	var walk func(module string)
	walk = func(module string) {
		n := nodes[module]
		for _, child := range n.children {
			walk(child)
		}
		o = append(o, n.own...)
	}
	walk("")
	return o
}

// bounded keeps hostile names from nesting modules without end.
func bounded(module string) string {
	const deepest = 64
	if strings.Count(module, ".") < deepest {
		return module
	}
	return ""
}

// decayed puts what is usually not decayed, biases and norms, behind the rest:
// two parameter groups.
func (m *matcher) decayed(o order) order {
	var first, last order
	for _, i := range o {
		name := strings.ToLower(m.tensors[i].Name)
		if strings.HasSuffix(name, "bias") || strings.Contains(name, "norm") || strings.Contains(name, "ln_") {
			last = append(last, i)
		} else {
			first = append(first, i)
		}
	}
	return append(first, last...)
}

// maxDifference is how many insertions and deletions alignment puts up with: a
// model that differs more is another one.
const maxDifference = 1000

// align finds the longest common subsequence of two lists of sizes as pairs of
// indices, with as few differences as possible; ok is false when they differ
// too much. (Myers, An O(ND) Difference Algorithm, 1986.)
func align(a, b []int64) (pairs [][2]int, ok bool) {
	limit := min(len(a)+len(b), maxDifference)
	// reach[k] is how far along a the best path on diagonal k has come; trace
	// keeps it for every number of differences.
	reach := make([]int, 2*limit+3)
	offset := limit + 1
	var trace [][]int
	for d := 0; d <= limit; d++ {
		for k := -d; k <= d; k += 2 {
			var x int
			if k == -d || k != d && reach[offset+k-1] < reach[offset+k+1] {
				x = reach[offset+k+1]
			} else {
				x = reach[offset+k-1] + 1
			}
			y := x - k
			for x < len(a) && y < len(b) && a[x] == b[y] {
				x, y = x+1, y+1
			}
			reach[offset+k] = x
			if x >= len(a) && y >= len(b) {
				return backtrack(append(trace, slices.Clone(reach[offset-d:offset+d+1])), len(a), len(b)), true
			}
		}
		trace = append(trace, slices.Clone(reach[offset-d:offset+d+1]))
	}
	return nil, false
}

// backtrack follows the paths from the end: trace[d] holds diagonals -d to d.
func backtrack(trace [][]int, x, y int) [][2]int {
	var pairs [][2]int
	for d := len(trace) - 1; d >= 0; d-- {
		k := x - y
		previous := 0
		if d > 0 {
			before := trace[d-1] // its diagonal j is at j + d - 1
			at := func(j int) int {
				if j < -(d-1) || j > d-1 {
					return -1
				}
				return before[j+d-1]
			}
			if k == -d || k != d && at(k-1) < at(k+1) {
				previous = k + 1
			} else {
				previous = k - 1
			}
			startX := at(previous)
			startY := startX - previous
			for x > startX && y > startY {
				x, y = x-1, y-1
				pairs = append(pairs, [2]int{x, y})
			}
			x, y = startX, startY
			continue
		}
		for x > 0 && y > 0 {
			x, y = x-1, y-1
			pairs = append(pairs, [2]int{x, y})
		}
	}
	slices.Reverse(pairs)
	return pairs
}
