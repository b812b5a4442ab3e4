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
