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
		if f.inside(j, loop) || f.function(j) != function || !byItself(f.stmts[j].tokens, name) {
			continue
		}
		if has(f.stmts[j].tokens, "backward") {
			return true
		}
		a := assigned(f.stmts[j].tokens)
		if f.stmts[j].head == "for" || a.operator == "=" && a.sets(name) && !has(a.value, name) {
			return false // it is another one from here on
		}
	}
	return false
}

// byItself reports whether a variable is named, and not as a part of something else.
func byItself(toks []token, name string) bool {
	for i, t := range toks {
		if t.kind == 'n' && t.text == name && (i == 0 || toks[i-1].text != ".") {
			return true
		}
	}
	return false
}

func has(toks []token, name string) bool {
	return slices.ContainsFunc(toks, func(t token) bool { return t.kind == 'n' && t.text == name })
}
