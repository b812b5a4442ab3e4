package source

import (
	"slices"
	"strings"
)

// Call is a line of the program on the way to what was made.
type Call struct {
	File, Function string
	Line           int
}

// Search looks for the statement that keeps what a line makes beyond its step.
type Search struct {
	Open     func(file string) *File // nil: it isn't at hand
	Path     []Call                  // innermost first
	Loop     int                     // the call in whose function the program's loop stands, -1: not known
	Graph    bool                    // an autograd graph, which hangs on all that is made of a tensor
	OfGrads  bool                    // gradients have one, too: create_graph=True
	OfObject bool                    // what an object such as an optimizer holds

	Containers []string // names of the variable that holds it, where it's known
	Element    string   // name of the part of its elements that does, "" for the elements themselves

	opened []*File // in this search
	calls  int     // that were followed
	looks  int     // at all of a file for a variable
}

// Form is the way in which a statement keeps something.
type Form string

// The forms.
const (
	Method    Form = "method"    // container.append(x)
	Item      Form = "item"      // container[k] = x
	Attribute Form = "attribute" // self.x = x
	Carried   Form = "carried"   // x = x + y, x += y
	Cached    Form = "cached"    // @lru_cache
	Exception Form = "exception" // errors.append(e), whose traceback holds the frames
)

// Place is a statement of a program that keeps something.
type Place struct {
	File *File
	Line int
	Code string // its first line
	Form Form
	stmt int
	what store

	boxed bool // what is stored is an object that holds it
}

// Bounds on a search.
const (
	maxPath  = 16  // calls
	maxLooks = 400 // at all of a file
)

// Find gives the statement, false where none is sure.
func (s *Search) Find() (Place, bool) {
	path := s.Path[:min(len(s.Path), maxPath)]
	for _, call := range path {
		s.open(call.File)
	}
	for k := range path {
		p, again, ok := s.level(k, s.Loop)
		if ok {
			return p, true
		}
		if !again {
			break
		}
	}
	for k := range path {
		if p, ok := s.caught(k); ok {
			return p, true
		}
	}
	return s.only()
}

// open opens a file, which is at hand from then on.
func (s *Search) open(name string) *File {
	if i := slices.IndexFunc(s.opened, func(f *File) bool { return f.Name == name }); i >= 0 {
		return s.opened[i]
	}
	f := s.Open(name)
	if f != nil {
		s.opened = append(s.opened, f)
	}
	return f
}

// stand is where a search stands: a statement of a function of the path.
type stand struct {
	s        *Search
	f        *File
	i, fn    int  // statement; head of its function
	inLoop   bool // the program's loop stands in this function, or outside of it
	returned bool
	depth    int             // of calls that were followed
	rest     map[int]bool    // which of the function's *args hold it
	class    string          // of self, as the function was called
	by       *File           // that knows the class
	boxes    map[string]bool // variables that are an object that holds it
	want
}

// standAt is the statement of a call, false where the text isn't what ran.
func (s *Search) standAt(k, loop int) (*stand, bool) {
	call := s.Path[k]
	f := s.open(call.File)
	if f == nil {
		return nil, false
	}
	i := f.at(call.Line)
	if i < 0 {
		return nil, false
	}
	fn := f.function(i)
	if f.stmts[i].head == "def" {
		return nil, false
	}
	if !strings.HasPrefix(call.Function, "<") && f.nameOf(fn) != call.Function || call.Function == "<module>" && fn >= 0 {
		return nil, false
	}
	st := &stand{s: s, f: f, i: i, fn: fn, boxes: map[string]bool{},
		inLoop: loop >= 0 && k >= loop || loop < 0 && k == len(s.Path)-1}
	st.want = want{names: map[string]bool{}, graph: s.Graph, grads: s.OfGrads, object: s.OfObject}
	return st, true
}

// level looks in the function of one call; again tells that the function gives it to its caller.
func (s *Search) level(k, loop int) (p Place, again, ok bool) {
	st, ok := s.standAt(k, loop)
	if !ok {
		return p, false, false
	}
	if s.isComprehension(k) && st.f.at(s.Path[k+1].Line) == st.i {
		return p, true, false // its own frame, of the same statement
	}
	toks := st.f.stmts[st.i].tokens
	for _, x := range storesOf(toks) {
		if !valueLost(st.want, x.value) && st.outlives(x, st.i) {
			return st.place(st.i, x), false, true
		}
	}
	if p, ok := st.into(st.i, st.made(k)); ok {
		return p, false, true
	}
	if x, ok := st.collected(toks); ok {
		return st.place(st.i, x), false, true
	}
	if p, ok := st.begin(toks); ok {
		return p, false, true
	}
	if p, ok := st.follow(); ok {
		return p, false, true
	}
	if st.returned {
		if p, ok := st.cached(); ok {
			return p, false, true
		}
	}
	return p, st.returned, false
}

// collected is what a comprehension, or list() of a generator, gathers, where the program's loop is that: there is none
// around its statement.
func (st *stand) collected(toks []token) (x store, ok bool) {
	a := assigned(toks)
	if a.operator != "=" || len(a.targets) != 1 || len(a.value) < 3 || !st.inLoop || st.f.loop(st.i) >= 0 {
		return x, false
	}
	element, from := a.value[1:], slices.IndexFunc(a.value, func(t token) bool { return t.text == "for" })
	switch {
	case wrappers[a.value[0].text] && a.value[1].text == "(":
		from = len(element)
	case from > 1 && (a.value[0].text == "[" || a.value[0].text == "{") && mate(a.value, 0) == len(a.value)-1:
		from--
	default:
		return x, false
	}
	x = store{container: a.targets[0], name: lastName(a.targets[0]), value: a.value}
	return x, st.s.fits(x) && !valueLost(st.want, element[:from])
}

// made is what the path's next function gives in a statement: the call of a function that has its name.
func (st *stand) made(k int) want {
	w := st.want
	w.names = map[string]bool{}
	if k > 0 {
		w.names[st.s.Path[k-1].Function] = true
	}
	return w
}

// isComprehension reports whether a call is of a comprehension, which the next one runs.
func (s *Search) isComprehension(k int) bool {
	name := s.Path[k].Function
	return (strings.HasSuffix(name, "comp>") || name == "<genexpr>") && k+1 < len(s.Path) && s.Path[k+1].File == s.Path[k].File
}

// valueLost reports whether a value that is made and stored at once holds nothing of it.
func valueLost(w want, value []token) bool {
	if len(value) == 0 {
		return true
	}
	last := value[len(value)-1]
	at := mate(value, len(value)-1)
	if last.text != ")" || at < 1 {
		return false
	}
	name := value[at-1].text
	method := at > 1 && value[at-2].text == "." // x.float() is a tensor, float(x) is none
	return values[name] || scalars[name] && !method || w.graph && cut[name] || !w.graph && name == "cpu"
}

func (st *stand) place(i int, x store) Place {
	line := st.f.stmts[i].first
	p := Place{File: st.f, Line: line, Code: strings.TrimSpace(st.f.Lines[line-1]), stmt: i, what: x}
	switch {
	case x.method != "":
		p.Form = Method
	case len(x.container) > 0 && x.name != lastName(x.container):
		p.Form = Attribute
	case len(x.container) > 0:
		p.Form = Item
	default:
		p.Form = Carried
	}
	return p
}

// begin notes the variables that the first statement gives what it makes.
func (st *stand) begin(toks []token) (p Place, ok bool) {
	switch {
	case toks[0].text == "return" || toks[0].text == "yield":
		st.returned = !valueLost(st.want, toks[1:])
		return p, false
	case st.object && len(toks) > 3 && toks[1].text == "." && toks[2].text == "step":
		st.names[toks[0].text] = true
		return p, false
	}
	a := assigned(toks)
	if a.operator == "" || valueLost(st.want, a.value) {
		return p, false
	}
	return st.take(a, st.i)
}

// take notes the variables that an assignment gives what is wanted, or finds one that carries it on.
func (st *stand) take(a assignment, k int) (p Place, ok bool) {
	for _, target := range a.targets {
		for _, name := range namesIn(target) {
			own := want{names: map[string]bool{name: true}, graph: true}
			x := store{name: name, value: a.value}
			if st.graph && (a.operator != "=" || own.mentioned(a.value)) && st.s.fits(x) && st.carries(name, k) {
				return st.place(k, x), true
			}
			st.names[name] = true
			st.boxes[name] = st.boxes[name] || boxed(a.value, st.boxes)
		}
	}
	return p, false
}

// carries reports whether a variable of the loop's function keeps its value from step to step.
func (st *stand) carries(name string, i int) bool {
	loop := st.f.loop(i)
	if st.s.looks++; st.s.looks > maxLooks || !st.inLoop || loop < 0 {
		return false
	}
	made, anew := st.assigns(name, loop, i)
	return made && !anew
}

// assigns reports whether a statement of the function but one assigns to a variable, and whether one does anew in
// each pass of a loop.
func (st *stand) assigns(name string, loop, but int) (made, anew bool) {
	for k := range st.f.stmts {
		if st.f.function(k) != st.fn || k == but {
			continue
		}
		toks := st.f.stmts[k].tokens
		targets := assigned(toks).targets
		if st.f.stmts[k].head == "for" {
			if in := slices.IndexFunc(toks, func(t token) bool { return t.text == "in" }); in > 1 {
				targets = [][]token{toks[1:in]}
			}
		}
		for _, target := range targets {
			if slices.Contains(namesIn(target), name) {
				made, anew = true, anew || loop >= 0 && st.f.inside(k, loop)
			}
		}
	}
	return made, anew
}

// follow goes through the statements that come after, up to the loop's end and again from its
// beginning, and finds the one that keeps what the variables hold.
func (st *stand) follow() (p Place, ok bool) {
	if len(st.names) == 0 && !st.grads {
		return p, false
	}
	order := st.after()
	rounds := 1
	if st.object {
		rounds = 2 // what holds it was made before
	}
	for range rounds {
		for _, k := range order {
			if p, ok := st.look(k); ok {
				return p, true
			}
		}
	}
	return p, false
}

// after are the statements of the function that come after the one at hand, and those before it in its loop.
func (st *stand) after() []int {
	var later, again []int
	loop := st.f.loop(st.i)
	for k := range st.f.stmts {
		switch {
		case st.f.function(k) != st.fn || k == st.i:
		case k > st.i:
			later = append(later, k)
		case st.object || loop >= 0 && st.f.inside(k, loop):
			again = append(again, k)
		}
	}
	return append(later, again...)
}

// look takes one statement into account.
func (st *stand) look(k int) (p Place, ok bool) {
	toks := st.f.stmts[k].tokens
	if !st.enters(k) {
		return p, false
	}
	for _, s := range storesOf(toks) {
		if !st.mentioned(s.value) {
			continue
		}
		if st.outlives(s, k) {
			p := st.place(k, s)
			p.boxed = boxed(s.value, st.boxes)
			return p, true
		}
		if base := s.container; len(base) > 0 {
			st.names[base[0].text] = true // a list of its own, which may be handed on
			st.boxes[base[0].text] = true
		}
	}
	if p, ok := st.into(k, st.want); ok {
		return p, true
	}
	if toks[0].text == "return" || toks[0].text == "yield" {
		st.returned = st.returned || st.mentioned(toks[1:])
		return p, false
	}
	a := assigned(toks)
	if a.operator == "" || !st.mentioned(a.value) || st.underNoGrad(k) {
		return p, false
	}
	return st.take(a, k)
}

// enters takes the head of a block into account, and reports whether a statement may hold more to look at.
func (st *stand) enters(k int) bool {
	switch st.f.stmts[k].head {
	case "def":
		st.encloses(k)
		return false
	case "for":
		st.passes(st.f.stmts[k].tokens)
		return true
	case "", "with":
		return true
	}
	return false
}

// encloses takes a function into account that holds what is wanted by naming it.
func (st *stand) encloses(def int) {
	name := st.f.nameOf(def)
	own := want{names: map[string]bool{}}
	for n := range st.names {
		own.names[n] = true
	}
	for _, p := range parameters(st.f.stmts[def].tokens) {
		delete(own.names, p.name)
	}
	for k := def + 1; k < len(st.f.stmts) && st.f.inside(k, def); k++ {
		if own.spoken(st.f.stmts[k].tokens) {
			st.names[name], st.boxes[name] = true, true
			return
		}
	}
}

// passes takes a loop over what is wanted into account.
func (st *stand) passes(toks []token) {
	in := slices.IndexFunc(toks, func(t token) bool { return t.text == "in" })
	if in < 2 || !st.mentioned(toks[in+1:]) {
		return
	}
	for _, name := range namesIn(toks[1:in]) {
		st.names[name] = true
	}
}

// underNoGrad reports whether a statement builds no graph.
func (st *stand) underNoGrad(k int) bool {
	for i := st.f.stmts[k].parent; st.graph && i >= 0; i = st.f.stmts[i].parent {
		if st.f.stmts[i].head == "with" && (strings.Contains(text(st.f.stmts[i].tokens), "no_grad") ||
			strings.Contains(text(st.f.stmts[i].tokens), "inference_mode")) {
			return true
		}
	}
	return false
}

// outlives reports whether a container is there longer than one step: an object's, a module's, or a
// variable of the function with the loop that was made before the loop.
func (st *stand) outlives(x store, k int) bool {
	if st.s.looks++; st.s.looks > maxLooks || len(x.container) == 0 || !st.s.fits(x) || st.isCall(x) {
		return false
	}
	base := x.container[0].text
	if st.fn < 0 && st.f.loop(k) < 0 {
		return true
	}
	loop := st.f.loop(k)
	made, anew := st.assigns(base, loop, -1)
	if anew {
		return false
	}
	if !made { // an argument, a variable of another function, self
		return st.outer(x, base)
	}
	return st.inLoop && loop >= 0
}

// outer reports whether a container that a function doesn't make itself is there longer than one step.
func (st *stand) outer(x store, base string) bool {
	isAttribute := x.isAttribute()
	if st.depth > 0 && !st.known() && (isAttribute || st.isParameter(base)) {
		return false // an object's newest, or a container that the caller may have made anew
	}
	return !isAttribute || st.graph || base == "ctx"
}

// isCall reports whether a store runs a method of the program's own, which is followed.
func (st *stand) isCall(x store) bool {
	if x.method == "" || !storing[x.method] {
		return false
	}
	class, f := st.classOf(x.container)
	if class == "" {
		return false
	}
	_, ok := st.method(f, class, x.method)
	return ok
}

// isParameter reports whether a function is given a variable, other than the object whose method it is.
func (st *stand) isParameter(name string) bool {
	return !isSelf(name) && slices.ContainsFunc(parameters(st.f.stmts[st.fn].tokens), func(p argument) bool {
		return p.name == name
	})
}

// cached is the decorator of a function that keeps its results.
func (st *stand) cached() (p Place, ok bool) {
	if st.fn < 0 {
		return p, false
	}
	for i := st.fn - 1; i >= 0 && st.f.stmts[i].parent == st.f.stmts[st.fn].parent && st.f.stmts[i].tokens[0].text == "@"; i-- {
		if slices.ContainsFunc(st.f.stmts[i].tokens, func(t token) bool { return caching[t.text] }) {
			p = st.place(i, store{})
			p.Form = Cached
			return p, true
		}
	}
	return p, false
}

// caught is the statement of an except clause that keeps the exception, whose traceback holds the
// frames of the call.
func (s *Search) caught(k int) (p Place, ok bool) {
	st, ok := s.standAt(k, s.Loop)
	if !ok {
		return p, false
	}
	for try := st.f.stmts[st.i].parent; try >= 0 && st.f.stmts[try].head != "def"; try = st.f.stmts[try].parent {
		if st.f.stmts[try].head != "try" {
			continue
		}
		for e := try + 1; e < len(st.f.stmts); e++ {
			x := &st.f.stmts[e]
			if x.parent != st.f.stmts[try].parent {
				continue
			}
			n := len(x.tokens)
			if x.head != "except" {
				if x.head != "else" && x.head != "finally" {
					break
				}
				continue
			}
			if n < 3 || x.tokens[n-2].text != "as" {
				continue
			}
			if p, ok := st.chained(e, x.tokens[n-1].text); ok {
				return p, true
			}
			if p, ok := st.keptIn(e, x.tokens[n-1].text); ok {
				return p, true
			}
		}
	}
	return p, false
}

// keptIn is the statement of an except clause that stores the exception.
func (st *stand) keptIn(clause int, exception string) (p Place, ok bool) {
	held := &stand{s: st.s, f: st.f, i: clause, fn: st.fn, inLoop: st.inLoop, boxes: map[string]bool{},
		want: want{names: map[string]bool{exception: true}, object: true}}
	for i := clause + 1; i < len(st.f.stmts) && st.f.inside(i, clause); i++ {
		if p, ok := held.look(i); ok {
			p.Form = Exception
			return p, true
		}
	}
	return p, false
}

// chained is the statement of an except clause that keeps the exception in the variable to which it was linked:
// e.__cause__ = last; last = e.
func (st *stand) chained(clause int, exception string) (p Place, ok bool) {
	linked := map[string]bool{}
	for i := clause + 1; i < len(st.f.stmts) && st.f.inside(i, clause); i++ {
		a := assigned(st.f.stmts[i].tokens)
		if a.operator != "=" || len(a.value) != 1 || len(a.targets) != 1 {
			continue
		}
		switch target := text(a.targets[0]); {
		case target == exception+".__cause__" || target == exception+".__context__":
			linked[a.value[0].text] = true
		case linked[target] && a.value[0].text == exception && st.carries(target, i):
			p = st.place(i, store{name: target, value: a.value})
			p.Form = Exception
			return p, true
		}
	}
	return p, false
}
