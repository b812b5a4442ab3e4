package facts

import (
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/frames"
)

// Keeper is the variable that leads to the earlier ones of models, as the names of their weights begin with it; "" where they
// don't.
func (p *Pass) Keeper(x *Again) string {
	var names []string
	for _, id := range x.IDs {
		name := p.NameOf(id)
		if x.Model && frames.IsVariable(name) && p.Classes.Category[id] == classify.Weights {
			names = append(names, name)
		}
	}
	if len(names) < 2 {
		return ""
	}
	if path := CommonPath(names); path != names[0] {
		return path
	}
	return ""
}

// CommonPath is the container that all of some variables lie in, the first of them where there is none.
func CommonPath(paths []string) string {
	common := pathParts(paths[0])
	for _, path := range paths[1:] {
		parts, n := pathParts(path), 0
		for n < min(len(parts), len(common)) && parts[n] == common[n] {
			n++
		}
		common = common[:n]
	}
	for len(common) > 0 && common[len(common)-1] == "[*]" {
		common = common[:len(common)-1]
	}
	if len(common) < 2 { // a module or a function, and no variable of it
		return paths[0]
	}
	return strings.Join(common, "")
}

// ContainerOf is the container that holds two variables as parts of its elements, or is one and holds the other so, "" where
// there is none: queue of queue[*]['images'] and queue[*]['labels'].
func ContainerOf(a, b string) string {
	x, y := pathParts(a), pathParts(b)
	if len(x) > len(y) {
		x, y = y, x
	}
	for n, part := range y {
		switch {
		case part == "[*]" && n > 1 && (n >= len(x) || x[n] == part):
			return strings.Join(y[:n], "")
		case n >= len(x) || x[n] != part:
			return ""
		}
	}
	return ""
}

// pathParts cuts a variable's path before each attribute, index and key, whatever a key in quotes holds.
func pathParts(path string) (parts []string) {
	from, quoted := 0, false
	for i := range len(path) {
		switch c := path[i]; {
		case c == '\'':
			quoted = !quoted
		case !quoted && i > from && (c == '.' || c == '['):
			parts, from = append(parts, path[from:i]), i
		}
	}
	return append(parts, path[from:])
}
