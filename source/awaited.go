package source

import "slices"

// Awaited reports whether a statement adds to a variable of which a later one, outside of the statement's loop, runs a backward
// pass: `total = total + loss` in a loop and `total.backward()` behind it. The graphs that the variable keeps are trained on.
func (p Place) Awaited() bool {
	if p.Form != Carried {
		return false
	}
	f := p.File
	a := assigned(f.stmts[p.stmt].tokens)
	for _, target := range a.targets {
		for _, name := range namesIn(target) {
			if f.backwardOf(name, p.stmt) {
				return true
			}
		}
	}
	return false
}

// backwardOf reports whether a statement that follows another in its function, outside of its loop, runs a backward pass of a
// variable, which nothing makes anew before.
func (f *File) backwardOf(name string, after int) bool {
	loop, function := f.loop(after), f.function(after)
	if loop < 0 {
		return false
	}
	for j := after + 1; j < len(f.stmts); j++ {
		if f.inside(j, loop) || f.function(j) != function {
			continue
		}
		toks := f.stmts[j].tokens
		own := -1 // where the variable is named by itself
		for i, t := range toks {
			if t.kind == 'n' && t.text == name && (i == 0 || toks[i-1].text != ".") {
				own = i
			}
		}
		a := assigned(toks)
		switch {
		case own < 0:
		case slices.ContainsFunc(toks, func(t token) bool { return t.kind == 'n' && t.text == "backward" }):
			return true
		case f.stmts[j].head == "for" || a.operator == "=" && a.sets(name) && !madeOf(a.value, name):
			return false // it is another one from here on
		}
	}
	return false
}

// madeOf reports whether a value is made of a variable.
func madeOf(value []token, name string) bool {
	return slices.ContainsFunc(value, func(t token) bool { return t.kind == 'n' && t.text == name })
}
