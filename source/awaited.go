package source

import "slices"

// Awaited reports whether a statement adds to a variable of which a later one, outside of the statement's loop, runs a backward
// pass, or of what is made of it: `total = total + loss` or `outputs.append(out)` in a loop and `total.backward()` or `loss =
// f(outputs)`, `loss.backward()` behind it. The graphs that the variable keeps are trained on.
func (p Place) Awaited() bool {
	f := p.File
	switch p.Form {
	case Carried:
		for _, target := range assigned(f.stmts[p.stmt].tokens).targets {
			if slices.ContainsFunc(namesIn(target), func(name string) bool { return f.backwardOf(name, p.stmt) }) {
				return true
			}
		}
	case Method, Item:
		return len(p.what.container) == 1 && f.backwardOf(p.what.name, p.stmt)
	}
	return false
}

// backwardOf reports whether a statement that follows another in its function, outside of its loop, runs a backward pass of a
// variable or of what is made of it, which nothing makes anew before.
func (f *File) backwardOf(name string, after int) bool {
	loop, function := f.loop(after), f.function(after)
	if loop < 0 {
		return false
	}
	made := map[string]bool{name: true} // of it
	for j := after + 1; j < len(f.stmts) && len(made) > 0; j++ {
		toks := f.stmts[j].tokens
		if f.inside(j, loop) || f.function(j) != function || !namesAny(toks, made) {
			continue
		}
		if has(toks, "backward") {
			return true
		}
		a := assigned(toks)
		if in := slices.IndexFunc(toks, func(t token) bool { return t.text == "in" }); f.stmts[j].head == "for" && in > 0 {
			a = assignment{targets: [][]token{toks[1:in]}, operator: "=", value: toks[in:]}
		}
		follows := namesAny(a.value, made) && !ungraphed(a.value)
		for _, target := range a.targets {
			for _, x := range namesIn(target) {
				switch {
				case follows:
					made[x] = true
				case a.operator == "=":
					delete(made, x) // it is another one from here on
				}
			}
		}
	}
	return false
}

// ungraphed reports whether a value is taken without its graph.
func ungraphed(toks []token) bool {
	for i, t := range toks {
		if i > 0 && toks[i-1].text == "." && (cut[t.text] || t.text == "item" || t.text == "tolist" || t.text == "numpy") {
			return true
		}
	}
	return false
}

// namesAny reports whether one of some variables is named, and not as a part of something else.
func namesAny(toks []token, names map[string]bool) bool {
	for i, t := range toks {
		if t.kind == 'n' && names[t.text] && (i == 0 || toks[i-1].text != ".") {
			return true
		}
	}
	return false
}

func has(toks []token, name string) bool {
	return slices.ContainsFunc(toks, func(t token) bool { return t.kind == 'n' && t.text == name })
}
