package source

import (
	"slices"
	"strings"
)

// mostEdits bounds how many statements of one form are changed at once.
const mostEdits = 8

// Freed are the changes that free gradients instead of zeroing them in place, for all statements of a
// file that zero some; why says what stands against them.
func Freed(f *File) (edits []Edit, why string) {
	for i := range f.stmts {
		toks := f.stmts[i].tokens
		for k, t := range toks {
			switch {
			case t.text == "set_to_none" && k+2 < len(toks) && toks[k+1].text == "=" && toks[k+2].text == "False" &&
				inCall(toks, k, "zero_grad"):
				edits = append(edits, Edit{f, toks[k+2].from, toks[k+2].to, "True"})
			case t.text == "zero_" && f.stmts[i].head == "" && isGrad(toks[:k]) && mate(toks, k+1) == len(toks)-1:
				_, before, _ := strings.Cut(text(toks[:k]), ".grad")
				end := k - 2 - strings.Count(before, ".data")*2 // of x.grad
				edits = append(edits, Edit{f, toks[end].to, toks[len(toks)-1].to, " = None"})
			}
		}
	}
	switch {
	case len(edits) == 0:
		return nil, "no statement there zeroes gradients in place"
	case len(edits) > mostEdits:
		return nil, "too many statements there zero gradients in place"
	}
	return edits, ""
}

// isGrad reports whether tokens are x.grad. or x.grad.data. from a statement's beginning.
func isGrad(toks []token) bool {
	ending := text(toks[max(0, len(toks)-5):])
	return len(toks) > 3 && toks[0].kind == 'n' && chainStart(toks, len(toks)-1) == 0 &&
		(strings.HasSuffix(ending, ".grad.") || strings.HasSuffix(ending, ".grad.data.")) &&
		strings.Count(text(toks), ".grad") == 1
}

// inCall reports whether a token is an argument of a method's call.
func inCall(toks []token, i int, method string) bool {
	at := opening(toks, i)
	return at > 0 && toks[at].text == "(" && toks[at-1].text == method
}

// Drop is the change that lets go, at the end of a pass of the program's loop, of the variables that hold what
// the path makes; why says what stands against it.
func (s *Search) Drop() (e Edit, why string) {
	const unknown = "which variables hold it isn't sure"
	if s.Loop < 0 || s.Loop >= min(len(s.Path), maxPath) {
		return e, unknown
	}
	var names []string
	var st *stand
	for _, graph := range []bool{true, false} {
		own := *s
		own.Graph = graph
		at, ok := own.handedUp()
		if !ok {
			return e, unknown
		}
		st = at
		for name := range at.names {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	loop := st.f.loop(st.i)
	if len(names) == 0 || loop < 0 {
		return e, unknown
	}
	for _, name := range names {
		if !st.endsWith(name, loop) {
			return e, name + " may be used after the pass, or isn't set in each"
		}
	}
	if st.f.stmts[loop+1].first <= st.f.stmts[loop].last {
		return e, "the loop stands in one line"
	}
	return st.atEnd(loop, "del "+strings.Join(names, ", ")), ""
}

// handedUp follows what the path makes up to the loop's function, and gives where the variables there stand.
func (s *Search) handedUp() (*stand, bool) {
	for k := range s.Path[:s.Loop+1] {
		st, ok := s.standAt(k, s.Loop)
		if !ok {
			return nil, false
		}
		if k < s.Loop && s.isComprehension(k) && st.f.at(s.Path[k+1].Line) == st.i {
			continue
		}
		for _, x := range storesOf(st.f.stmts[st.i].tokens) {
			if !valueLost(st.want, x.value) {
				return nil, false
			}
		}
		if _, kept := st.begin(st.f.stmts[st.i].tokens); kept {
			return nil, false
		}
		if _, kept := st.follow(); kept {
			return nil, false
		}
		if k == s.Loop {
			return st, true
		}
		if !st.returned {
			return nil, false
		}
	}
	return nil, false
}

// endsWith reports whether a variable is set in each pass of a loop, and used in none before that, nor after the loop.
func (st *stand) endsWith(name string, loop int) bool {
	set := false
	own := want{names: map[string]bool{name: true}, object: true}
	for k := range st.f.stmts {
		toks := st.f.stmts[k].tokens
		if fn := st.f.function(k); fn != st.fn {
			if st.sees(k) && own.spoken(toks) {
				return false
			}
			continue
		}
		inside := st.f.inside(k, loop)
		if a := assigned(toks); !set && inside && st.always(k, loop) && a.sets(name) && !own.spoken(a.value) {
			set = true
			continue
		}
		if own.spoken(toks) && (!inside || !set) || st.f.stmts[k].head == "def" && inside {
			return false
		}
	}
	return set
}

// sees reports whether another function's statement sees the variables of the one where the search stands.
func (st *stand) sees(k int) bool { return st.fn < 0 || st.f.inside(k, st.fn) }

// spoken reports whether some tokens name a variable.
func (w *want) spoken(toks []token) bool {
	for i, t := range toks {
		if t.kind == 'n' && w.names[t.text] && (i == 0 || toks[i-1].text != ".") && !isKeyword(toks, i) {
			return true
		}
	}
	return false
}

// always reports whether each pass of a loop comes to a statement: nothing but with stands between them.
func (st *stand) always(k, loop int) bool {
	for i := st.f.stmts[k].parent; i != loop; i = st.f.stmts[i].parent {
		if i < 0 || st.f.stmts[i].head != "with" {
			return false
		}
	}
	return true
}

// atEnd adds a statement at the end of a block.
func (st *stand) atEnd(block int, statement string) Edit {
	var indent string
	end := 0 // the block's last line, from 1
	for k := block + 1; k < len(st.f.stmts) && st.f.inside(k, block); k++ {
		if x := &st.f.stmts[k]; x.parent == block && indent == "" {
			line := st.f.Lines[x.first-1]
			indent = line[:len(line)-len(strings.TrimLeft(line, " \t"))]
		}
		end = max(end, st.f.stmts[k].last)
	}
	at := 0
	for range end - 1 {
		at += strings.IndexByte(st.f.text[at:], '\n') + 1
	}
	if n := strings.IndexByte(st.f.text[at:], '\n'); n >= 0 {
		at += n
	} else {
		at = len(st.f.text)
	}
	newline := "\n"
	if strings.HasSuffix(st.f.text[:at], "\r") {
		at, newline = at-1, "\r\n"
	}
	return Edit{st.f, at, at, newline + indent + statement}
}

// bounded bounds the deque that a statement appends to; false where it isn't one that only grows.
func (p Place) bounded() (e Edit, ok bool) {
	if p.Form != Method || p.what.method != "append" && p.what.method != "appendleft" {
		return e, false
	}
	for i := range p.File.stmts {
		toks := p.File.stmts[i].tokens
		if p.emptied(toks) {
			return e, false // what it holds may be wanted
		}
		a := assigned(toks)
		if len(a.targets) != 1 || lastName(a.targets[0]) != p.what.name || callOf(a.value) != "deque" {
			continue
		}
		at := mate(a.value, len(a.value)-1)
		if ok || at > 3 || len(a.value)-at > 4 { // a second one, or one with arguments that aren't known
			return Edit{}, false
		}
		from := a.value[len(a.value)-1].from
		switch inside := text(a.value[at+1 : len(a.value)-1]); inside {
		case "":
			e, ok = Edit{p.File, from, from, "maxlen=16"}, true
		case "[]", "()":
			e, ok = Edit{p.File, from, from, ", maxlen=16"}, true
		default:
			return e, false
		}
	}
	return e, ok
}

// emptied reports whether a statement takes something out of the container.
func (p Place) emptied(toks []token) bool {
	for k, t := range toks {
		if t.text == p.what.name && k+2 < len(toks) && toks[k+1].text == "." && taking[toks[k+2].text] {
			return true
		}
	}
	return false
}

var taking = words("pop popleft clear remove rotate")
