package source

import (
	"maps"
	"path"
	"slices"
	"strings"
)

// Bounds on how far what is wanted is followed into functions.
const (
	maxCalls   = 64 // of one search
	maxDepth   = 5  // of one call in another
	maxBases   = 8  // classes above a class
	maxFolders = 3  // above a file, in which a module that it imports may lie
)

// callee is a function of a file at hand that a call runs.
type callee struct {
	f     *File
	def   int    // its head
	by    *File  // that knows the class
	class string // of the object whose method it is, "" for a function
	bound bool   // the object is its first parameter
}

// into follows what is wanted into the functions that a statement hands it to.
func (st *stand) into(k int, made want) (p Place, ok bool) {
	toks := st.f.stmts[k].tokens
	for i := 0; i+1 < len(toks); i++ {
		if toks[i].kind != 'n' || toks[i+1].text != "(" || mate(toks, i+1) < 0 || made.names[toks[i].text] {
			continue
		}
		args := st.expanded(parts(toks[i+2 : mate(toks, i+1)]))
		if !slices.ContainsFunc(args, func(a argument) bool { return made.mentioned(a.value) }) {
			continue
		}
		if st.s.calls++; st.s.calls > maxCalls || st.depth >= maxDepth {
			return p, false
		}
		c, found := st.callee(toks, i, k)
		if !found {
			continue
		}
		sub := &stand{s: st.s, f: c.f, i: c.def, fn: c.def, depth: st.depth + 1, class: c.class, by: c.by,
			boxes: map[string]bool{}, want: made}
		sub.names = map[string]bool{}
		sub.hand(c, args, made, st.boxes)
		if p, ok := sub.follow(); ok {
			return p, true
		}
	}
	return p, false
}

// known reports whether the variable that holds it is known.
func (st *stand) known() bool { return len(st.s.Containers) > 0 }

// argument is one of a call, or a parameter of a function.
type argument struct {
	name  string // of a keyword
	stars string
	value []token
}

// parts are the arguments between a call's brackets.
func parts(toks []token) (out []argument) {
	from := 0
	add := func(part []token) {
		var a argument
		if len(part) > 0 && (part[0].text == "*" || part[0].text == "**") {
			a.stars, part = part[0].text, part[1:]
		}
		if len(part) > 2 && part[1].text == "=" && part[0].kind == 'n' {
			a.name, part = part[0].text, part[2:]
		}
		if a.value = part; len(part) > 0 || a.stars != "" {
			out = append(out, a)
		}
	}
	for i, t := range toks {
		if t.text == "," && t.depth == toks[0].depth {
			add(toks[from:i])
			from = i + 1
		}
	}
	add(toks[min(from, len(toks)):])
	return out
}

// expanded are arguments with those that a function hands on as *args.
func (st *stand) expanded(args []argument) (out []argument) {
	for _, a := range args {
		if a.stars != "*" || len(a.value) != 1 || st.rest == nil {
			out = append(out, a)
			continue
		}
		for i := range slices.Max(slices.Collect(maps.Keys(st.rest))) + 1 {
			one := argument{}
			if st.rest[i] {
				one.value = a.value
			}
			out = append(out, one)
		}
	}
	return out
}

// hand gives a function's parameters the arguments that hold what is wanted.
func (st *stand) hand(c callee, args []argument, made want, boxes map[string]bool) {
	named := parameters(c.f.stmts[c.def].tokens)
	at := 0
	if c.bound {
		at = 1
	}
	for _, a := range args {
		holds := a.stars == "" && len(a.value) > 0 && made.mentioned(a.value)
		if i := takenBy(named, a, at); i >= 0 && holds {
			p := named[i]
			st.names[p.name] = true
			st.boxes[p.name] = p.stars != "" || boxed(a.value, boxes)
			if p.stars == "*" {
				st.rest = set(st.rest, at-i)
			}
		}
		if a.name == "" {
			at++
		}
	}
}

// takenBy is the parameter that an argument is given to, -1 for none.
func takenBy(named []argument, a argument, at int) int {
	return slices.IndexFunc(named, func(p argument) bool {
		switch {
		case a.name != "":
			return p.name == a.name || p.stars == "**"
		case p.stars == "*":
			return true
		}
		return p.stars == "" && at == slices.IndexFunc(named, func(x argument) bool { return x.name == p.name })
	})
}

func set(m map[int]bool, i int) map[int]bool {
	if m == nil {
		m = map[int]bool{}
	}
	m[i] = true
	return m
}

// parameters are those of a function's head.
func parameters(head []token) (out []argument) {
	open := slices.IndexFunc(head, func(t token) bool { return t.text == "(" })
	if open < 0 || mate(head, open) < 0 {
		return nil
	}
	for _, p := range parts(head[open+1 : mate(head, open)]) {
		if p.name == "" && len(p.value) > 0 && p.value[0].kind == 'n' {
			p.name = p.value[0].text
		}
		if p.name != "" {
			out = append(out, p)
		}
	}
	return out
}

// boxed reports whether an expression is an object that holds what is wanted, not that itself.
func boxed(value []token, boxes map[string]bool) bool {
	called := callOf(value)
	if !single(value) || called != "" && (wrappers[called] || called[0] >= 'A' && called[0] <= 'Z') {
		return true
	}
	own := want{names: boxes}
	return own.spoken(value)
}

// callee finds the function that a call runs, false where it isn't sure.
func (st *stand) callee(toks []token, i, k int) (c callee, ok bool) {
	name := toks[i].text
	if i == 0 || toks[i-1].text != "." {
		return st.plain(name, k)
	}
	base := toks[chainStart(toks, i-1) : i-1]
	if len(base) == 0 {
		return c, false
	}
	if class, at := st.classOf(base); class != "" {
		c, ok = st.method(at, class, name)
		if len(base) == 1 && base[0].text == class {
			c.bound = c.bound && c.f.decorated(c.def, "classmethod")
		}
		return c, ok && (st.known() || isSelf(text(base)) || st.outlives(store{container: base, name: lastName(base)}, k))
	}
	if c, ok := st.ofModule(base[0].text, name); ok && len(base) == 1 {
		return c, true
	}
	if !st.known() || storing[name] {
		return c, false
	}
	return st.s.onlyMethod(name)
}

func isSelf(name string) bool { return name == "self" || name == "cls" }

// onlyMethod is the one method of a name in the files at hand, false where there are several.
func (s *Search) onlyMethod(name string) (c callee, ok bool) {
	for _, f := range s.opened {
		for def := range f.stmts {
			if f.stmts[def].head != "def" || f.class(def) < 0 || f.nameOf(def) != name {
				continue
			}
			if ok {
				return c, false
			}
			c, ok = callee{f, def, f, f.className(f.class(def)), !f.decorated(def, "staticmethod")}, true
		}
	}
	return c, ok
}

// ofModule is a function of the file that a name is imported from, or that is imported under it.
func (st *stand) ofModule(imported, name string) (c callee, ok bool) {
	f := st.imported(imported)
	if f == nil {
		return c, false
	}
	def := f.defined(name, -1)
	return callee{f: f, def: def}, def >= 0
}

// plain is a function that is called by its name, or what an object does when it is called.
func (st *stand) plain(name string, k int) (c callee, ok bool) {
	for _, inside := range []int{st.fn, -1} {
		if def := st.f.defined(name, inside); def >= 0 {
			return callee{f: st.f, def: def}, true
		}
	}
	if c, ok := st.ofModule(name, name); ok {
		return c, true
	}
	variable := []token{{text: name, kind: 'n'}}
	class, f := st.classOf(variable)
	if class == "" || class == name || !st.known() && !st.outlives(store{container: variable, name: name}, k) {
		return c, false
	}
	for _, called := range []string{"__call__", "forward"} {
		if c, ok := st.method(f, class, called); ok {
			return c, true
		}
	}
	return c, false
}

// classOf is the class of an object, "" where it isn't sure, with a file that knows the class.
func (st *stand) classOf(base []token) (class string, f *File) {
	switch last := base[len(base)-1].text; {
	case len(base) == 1 && isSelf(last):
		if st.class != "" {
			return st.class, st.by
		}
		if at := st.f.class(st.fn); st.fn >= 0 && at >= 0 {
			return st.f.className(at), st.f
		}
		return "", nil
	case len(base) == 1 && st.knows(last) != nil:
		return last, st.f
	case last == ")":
		if called := callOf(base); st.knows(called) != nil {
			return called, st.f
		}
		return "", nil
	}
	return st.assignedClass(text(base))
}

// assignedClass is the one class whose objects are assigned to a variable or attribute.
func (st *stand) assignedClass(base string) (class string, f *File) {
	for i := range st.f.stmts {
		a := assigned(st.f.stmts[i].tokens)
		for _, target := range a.targets {
			if text(target) != base {
				continue
			}
			called := callOf(a.value)
			if called != class && (class != "" || st.knows(called) == nil) || called == "" {
				return "", nil
			}
			class = called
		}
	}
	return class, st.f
}

// knows is the file that has a class, as the file at hand knows it.
func (st *stand) knows(class string) *File {
	if class == "" {
		return nil
	}
	if st.f.classNamed(class) >= 0 {
		return st.f
	}
	if f := st.imported(class); f != nil && f.classNamed(class) >= 0 {
		return f
	}
	return nil
}

// method finds a method of a class, as a file knows it, or of those above it.
func (st *stand) method(f *File, class, name string) (c callee, ok bool) {
	type known struct {
		by   *File
		name string
	}
	todo := []known{{f, class}}
	for n := 0; n < len(todo) && n < maxBases; n++ {
		own := &stand{s: st.s, f: todo[n].by}
		at := own.knows(todo[n].name)
		if at == nil {
			continue
		}
		head := at.classNamed(todo[n].name)
		if def := at.defined(name, head); def >= 0 {
			return callee{at, def, f, class, !at.decorated(def, "staticmethod")}, true
		}
		for _, base := range parameters(at.stmts[head].tokens) {
			todo = append(todo, known{at, base.name})
		}
	}
	return c, false
}

// imported is the file from which a name is imported, nil where it isn't at hand.
func (st *stand) imported(name string) *File {
	for i := range st.f.stmts {
		module := importOf(st.f.stmts[i].tokens, name)
		if module == "" {
			continue
		}
		dir := path.Dir(st.f.Name)
		relative := strings.TrimLeft(module, ".")
		for n := 0; n < maxFolders; n++ {
			if n+1 < len(module)-len(relative) {
				dir = path.Dir(dir)
				continue
			}
			if f := st.s.open(path.Join(dir, strings.ReplaceAll(relative, ".", "/")+".py")); f != nil {
				return f
			}
			if relative != module {
				break
			}
			dir = path.Dir(dir)
		}
	}
	return nil
}

// importOf is the module from which a statement imports a name, "" where it doesn't.
func importOf(toks []token, name string) string {
	if len(toks) < 2 || toks[0].text != "from" && toks[0].text != "import" {
		return ""
	}
	own := slices.IndexFunc(toks, func(t token) bool { return t.text == "import" })
	for i := own + 1; own >= 0 && i < len(toks); i++ {
		if toks[i].text != name || i+1 < len(toks) && (toks[i+1].text == "as" || toks[i+1].text == ".") {
			continue
		}
		if own > 0 {
			return text(toks[1:own])
		}
		if i > 2 && toks[i-1].text == "as" {
			i -= 2
		}
		return text(toks[chainStart(toks, i+1) : i+1])
	}
	return ""
}

// class is the head of the class that a statement stands in directly, -1 for none.
func (f *File) class(i int) int {
	if i < 0 {
		return -1
	}
	for i = f.stmts[i].parent; i >= 0 && f.stmts[i].head != "def"; i = f.stmts[i].parent {
		if f.stmts[i].head == "class" {
			return i
		}
	}
	return -1
}

func (f *File) className(i int) string {
	if toks := f.stmts[i].tokens; len(toks) > 1 {
		return toks[1].text
	}
	return ""
}

// classNamed is the head of the one class of a name, -1 for none.
func (f *File) classNamed(name string) int {
	found := -1
	for i := range f.stmts {
		if f.stmts[i].head == "class" && f.className(i) == name {
			if found >= 0 {
				return -1
			}
			found = i
		}
	}
	return found
}

// defined is the head of the one function of a name in a class or function, of the module itself with -1; -1 for none.
func (f *File) defined(name string, inside int) int {
	found := -1
	for i := range f.stmts {
		if f.stmts[i].head != "def" || f.nameOf(i) != name {
			continue
		}
		at := f.class(i)
		if at < 0 {
			at = f.function(i)
		}
		if at == inside && found >= 0 {
			return -1
		}
		if at == inside {
			found = i
		}
	}
	return found
}

// decorated reports whether a function has a decorator.
func (f *File) decorated(def int, by string) bool {
	for i := def - 1; i >= 0 && f.stmts[i].parent == f.stmts[def].parent && f.stmts[i].tokens[0].text == "@"; i-- {
		if slices.ContainsFunc(f.stmts[i].tokens, func(t token) bool { return t.text == by }) {
			return true
		}
	}
	return false
}
