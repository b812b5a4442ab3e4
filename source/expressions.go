package source

import (
	"slices"
	"strings"
)

// words is a set of words of one text.
func words(text string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(text) {
		set[w] = true
	}
	return set
}

var (
	// storing are methods of containers that keep what they are given.
	storing = words("append appendleft add put put_nowait extend extendleft insert setdefault update push send")
	// values are what is asked of a tensor and isn't the tensor: neither keeps its memory nor its graph.
	values = words("item tolist numpy shape size dim ndim dtype device numel element_size backward __len__")
	// cut are what has no graph any more.
	cut = words("detach detach_ data argmax argmin")
	// scalars are functions that give no tensor.
	scalars = words("float int bool str len print repr range isinstance id type format log info debug")
	// wrappers keep what they are given; a class does, too.
	wrappers = words("partial tuple list dict set deque reversed sorted enumerate zip ref")
	// views are methods that give another view of the same memory.
	views = words("detach view reshape flatten unsqueeze squeeze permute transpose t T expand contiguous cuda to " +
		"narrow select chunk " +
		"split unbind requires_grad_ float half data items values pop popleft get")
	// logging are methods of a logger, whose records a handler may keep.
	logging = words("debug info warning error critical exception log")
	caching = words("lru_cache cache cached memoize cachedmethod cached_property")
)

// want is what is looked for: a tensor itself, or a graph that hangs on all that was made of it.
type want struct {
	names  map[string]bool // variables that hold it
	graph  bool
	grads  bool // .grad has a graph, too
	object bool // it isn't a tensor, but what holds some
}

// mentioned reports whether some tokens hand on what is wanted.
func (w *want) mentioned(toks []token) bool {
	for i, t := range toks {
		if t.kind != 'n' {
			continue
		}
		after := i > 0 && toks[i-1].text == "."
		if !(w.names[t.text] && !after || w.grads && after && t.text == "grad") || isKeyword(toks, i) {
			continue
		}
		if w.handedOn(toks, i) || w.inLambda(toks, i) {
			return true
		}
	}
	return false
}

// inLambda reports whether a name stands in a function that is handed on, and isn't a parameter of it.
func (w *want) inLambda(toks []token, i int) bool {
	at := i - 1
	for at >= 0 && toks[at].text != "lambda" {
		at--
	}
	if at < 0 || toks[at].depth > toks[i].depth || at > 0 && toks[at-1].text == "=" || !w.handedOn(toks, at) {
		return false
	}
	for k := at + 1; k < i && toks[k].text != ":"; k++ {
		if toks[k].text == toks[i].text {
			return false
		}
	}
	return true
}

// isKeyword reports whether a name is that of an argument, as in f(name=…).
func isKeyword(toks []token, i int) bool {
	return i+1 < len(toks) && toks[i+1].text == "=" && toks[i].depth > toks[0].depth &&
		(toks[i-1].text == "," || toks[i-1].text == "(")
}

// handedOn reports whether the value of an expression holds what one of its names does.
func (w *want) handedOn(toks []token, i int) bool {
	if w.lost(toks, i+1) {
		return false
	}
	for at := opening(toks, i); at >= 0; at = opening(toks, at) {
		if toks[at].text == "(" && at > 0 && toks[at-1].kind == 'n' {
			f := toks[at-1].text
			if scalars[f] || !w.graph && !w.keeps(f) {
				return false
			}
		}
		if end := mate(toks, at); end > 0 && w.lost(toks, end+1) {
			return false
		}
	}
	return true
}

// keeps reports whether a function keeps what it is given.
func (w *want) keeps(function string) bool {
	return wrappers[function] || storing[function] || views[function] || function[0] >= 'A' && function[0] <= 'Z' || w.object
}

// lost reports whether what follows an expression gives something that holds nothing of it.
func (w *want) lost(toks []token, i int) bool {
	for i+1 < len(toks) && (toks[i].text == "." || toks[i].text == "[" || toks[i].text == "(") {
		if toks[i].text != "." {
			if i = mate(toks, i) + 1; i == 0 {
				return false
			}
			continue
		}
		if w.another(toks[i+1].text, toks[i+2:min(len(toks), i+6)]) {
			return true
		}
		i += 2
	}
	return i < len(toks) && comparing[toks[i].text]
}

// another reports whether an attribute, or the result of a method, holds nothing of what it is asked of.
func (w *want) another(name string, after []token) bool {
	if values[name] || w.graph {
		return values[name] || cut[name]
	}
	call := len(after) > 0 && after[0].text == "("
	if name == "cpu" || name == "to" && call && strings.Contains(text(after), "cpu") {
		return true
	}
	return call && !w.object && !views[name] && !storing[name] // another tensor
}

var comparing = map[string]bool{"==": true, "!=": true, "<": true, ">": true, "<=": true, ">=": true, "is": true, "in": true}

// opening is the bracket that a token stands in, -1 without one.
func opening(toks []token, i int) int {
	for k := i - 1; k >= 0; k-- {
		if mate(toks, k) > i {
			return k
		}
	}
	return -1
}

// text is some tokens in one line.
func text(toks []token) string {
	var b strings.Builder
	for _, t := range toks {
		b.WriteString(t.text)
	}
	return b.String()
}

// assignment is a statement's targets and value; the operator is "" for what assigns nothing.
type assignment struct {
	targets  [][]token
	operator string
	value    []token
}

// sets reports whether a variable is among the targets.
func (a assignment) sets(name string) bool {
	return slices.ContainsFunc(a.targets, func(target []token) bool { return slices.Contains(namesIn(target), name) })
}

func assigned(toks []token) (a assignment) {
	from := 0
	for i, t := range toks {
		if t.kind != 'o' || t.depth > toks[0].depth {
			continue
		}
		if n := len(t.text); t.text == "=" || n > 1 && n < 4 && t.text[n-1] == '=' && !comparing[t.text] && t.text != ":=" {
			a.targets = append(a.targets, unannotated(toks[from:i]))
			a.operator, from = t.text, i+1
		}
	}
	a.value = toks[from:]
	return a
}

// unannotated is a target without its type.
func unannotated(toks []token) []token {
	for i, t := range toks {
		if t.text == ":" && t.depth == toks[0].depth {
			return toks[:i]
		}
	}
	return toks
}

// namesIn are the variables that a target assigns to.
func namesIn(target []token) (names []string) {
	for i, t := range target {
		last := i+1 == len(target)
		if t.kind == 'n' && (i == 0 || target[i-1].text != ".") && (last || target[i+1].text != "." && target[i+1].text != "[") &&
			opening(target, i) < 0 || t.kind == 'n' && tupled(target, i) {
			names = append(names, t.text)
		}
	}
	return names
}

// tupled reports whether a name is one of a target in brackets.
func tupled(target []token, i int) bool {
	at := opening(target, i)
	return at == 0 && (i+1 == len(target) || target[i+1].text != "." && target[i+1].text != "[") && target[i-1].text != "."
}

// store is a place that keeps a value: container.append(value), container[k] = value, container.name = value.
type store struct {
	container []token // self.preds of self.preds.append(x), self of self.x = x
	name      string  // the container's last name
	value     []token
	method    string  // "" for an assignment
	extra     []token // what a logger's record is given
	hook      bool
}

// isAttribute reports whether a statement sets an attribute.
func (x store) isAttribute() bool { return x.method == "" && x.name != lastName(x.container) }

// storesOf are those of a statement.
func storesOf(toks []token) (found []store) {
	for i := range toks {
		if x, ok := storedBy(toks, i); ok {
			found = append(found, x)
		}
	}
	a := assigned(toks)
	for _, target := range a.targets {
		n := len(target)
		if n == 0 || target[0].kind != 'n' {
			continue
		}
		switch last := target[n-1]; {
		case a.operator == "+=" && strings.HasPrefix(text(a.value), "["):
			found = append(found, store{container: target, name: lastName(target), value: a.value, method: "+="})
		case n < 3:
		case last.text == "]" && mate(target, n-1) > 0:
			c := target[:mate(target, n-1)]
			found = append(found, store{container: c, name: lastName(c), value: a.value})
		case last.kind == 'n' && target[n-2].text == ".":
			found = append(found, store{container: target[:n-2], name: last.text, value: a.value})
		}
	}
	return found
}

// storedBy is what a call of a method stores, false where it stores nothing.
func storedBy(toks []token, i int) (x store, ok bool) {
	if !isMethod(toks, i) {
		return x, false
	}
	name := toks[i].text
	c := toks[chainStart(toks, i-1) : i-1]
	x = store{container: c, name: lastName(c), value: toks[i+2 : mate(toks, i+1)], method: name}
	switch {
	case strings.HasPrefix(name, "register_") && strings.HasSuffix(name, "hook"):
		x.hook = true
	case logging[name]:
		args := parts(x.value)
		at := slices.IndexFunc(args, func(a argument) bool { return a.name == "extra" })
		if at < 0 {
			return x, false
		}
		x.value, x.extra = args[at].value, args[at].value
	case !storing[name] && name != "set":
		return x, false
	}
	return x, true
}

// isMethod reports whether a name is that of a method that is called.
func isMethod(toks []token, i int) bool {
	return i > 1 && toks[i-1].text == "." && i+1 < len(toks) && toks[i+1].text == "(" && mate(toks, i+1) > 0
}

// chainStart is where the expression begins that ends before a token.
func chainStart(toks []token, end int) int {
	i := end - 1
	for i > 0 {
		switch {
		case (toks[i].text == ")" || toks[i].text == "]") && mate(toks, i) >= 0:
			i = mate(toks, i) - 1
			if i >= 0 && toks[i].kind != 'n' && toks[i].text != ")" && toks[i].text != "]" {
				return i + 1
			}
		case toks[i].kind == 'n' && toks[i-1].text == ".":
			i -= 2
		default:
			return i
		}
	}
	return max(0, i)
}

func lastName(toks []token) string {
	for i := len(toks) - 1; i >= 0; i-- {
		if toks[i].kind == 'n' && opening(toks, i) < 0 {
			return toks[i].text
		}
	}
	return ""
}
