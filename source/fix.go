package source

import (
	"slices"
	"strings"
)

// Edit is a change of a program's text.
type Edit struct {
	File     *File
	from, to int // bytes
	with     string
}

// Kept is what is known of what a statement keeps.
type Kept struct {
	Graph   bool // an autograd graph
	Scalar  bool // of a number, as a loss is
	One     bool // one tensor a step
	Object  bool // what an object such as an optimizer holds
	Forward bool // nothing is trained
	Part    bool // a part of a tensor, whose memory is kept whole
}

// Fix is the change of a statement whose form is known; why says what stands against one.
func (p Place) Fix(k Kept) (e Edit, why string) {
	toks := p.File.stmts[p.stmt].tokens
	switch {
	case p.Form == Cached:
		return p.unbounded(toks)
	case p.Form == Carried && k.Graph && k.Forward && !sums(toks):
		return p.noGrad()
	}
	value := p.what.value
	if p.Form == Carried {
		value = addend(assigned(toks))
	}
	if !k.Graph && !k.Part {
		if e, ok := p.bounded(); ok {
			return e, ""
		}
	}
	if why := p.unknown(k, toks, value); why != "" {
		return e, why
	}
	return p.cut(k, value)
}

// cut takes off a value what makes it keep more than itself.
func (p Place) cut(k Kept, value []token) (e Edit, why string) {
	switch {
	case k.Graph && k.Scalar && (p.Form == Carried || isNumber(value)):
		return p.append(value, ".item()"), ""
	case k.Graph && (k.Part || sliced(value)):
		return p.append(value, ".detach().clone()"), ""
	case k.Graph:
		return p.append(value, ".detach()"), ""
	case k.Part || sliced(value):
		return p.append(value, ".clone()"), ""
	case k.One:
		return p.append(value, ".detach().cpu()"), ""
	}
	return e, "each step keeps several tensors there"
}

// unknown says why a statement's form isn't one that is known, "" where it is.
func (p Place) unknown(k Kept, toks, value []token) string {
	switch {
	case k.Object:
		return "what is stored is an object that holds the tensors"
	case p.Form == Exception:
		return "what is kept of the exception isn't known: keep str(e), not the exception"
	case p.Form == Carried && !sums(toks):
		return "a state that is trained through can be cut in several places: detach it where a sequence ends"
	case !single(value):
		return "what is stored isn't one tensor"
	}
	if called := callOf(value); called != "" && (wrappers[called] || called[0] >= 'A' && called[0] <= 'Z') {
		return "what is stored is an object that holds the tensor"
	}
	if p.boxed || p.Form == Method && !storing[p.what.method] {
		return "what is stored is an object that holds the tensors"
	}
	return ""
}

// single reports whether an expression is one value, by its form.
func single(value []token) bool {
	if len(value) == 0 || value[0].kind == 's' || strings.ContainsAny(value[0].text, "[{*") {
		return false
	}
	comma := func(t token) bool { return t.text == "," }
	if value[0].text == "(" && mate(value, 0) == len(value)-1 && slices.ContainsFunc(value, comma) {
		return false
	}
	return !slices.ContainsFunc(value, func(t token) bool { return t.depth == value[0].depth && (comma(t) || choosing[t.text]) })
}

// append puts a method behind an expression.
func (p Place) append(value []token, method string) Edit {
	from, to := value[0].from, value[len(value)-1].to
	expression := p.File.text[from:to]
	if !primary(value) {
		expression = "(" + expression + ")"
	}
	return Edit{p.File, from, to, expression + method}
}

// primary reports whether an expression is a name with what follows it, which binds more closely than any operator.
func primary(value []token) bool {
	first, last := value[0], value[len(value)-1]
	return last.kind != 'o' && len(value) == 1 ||
		chainStart(value, len(value)) == 0 && first.kind == 'n' && first.text != "not" && first.text != "await"
}

// callOf is the function whose call an expression is, "" where it is none.
func callOf(value []token) string {
	if at := mate(value, len(value)-1); at > 0 && value[at].text == "(" && value[at-1].kind == 'n' {
		return value[at-1].text
	}
	return ""
}

// sliced reports whether an expression is a part of a tensor, which holds all of it.
func sliced(value []token) bool {
	at := mate(value, len(value)-1)
	return at > 0 && value[at].text == "[" && slices.ContainsFunc(value[at:], func(t token) bool { return t.text == ":" })
}

// IsPart reports whether what a statement stores is a part of a tensor, as it is written there.
func (p Place) IsPart() bool { return sliced(p.what.value) }

// sums reports whether a statement adds to a variable.
func sums(toks []token) bool {
	a := assigned(toks)
	return len(a.targets) == 1 && addend(a) != nil
}

// addend is what a statement adds to its variable, nil where it does something else.
func addend(a assignment) []token {
	switch {
	case a.operator == "+=":
		return a.value
	case a.operator == "=" && len(a.value) > 2 && a.value[1].text == "+" && text(a.targets[0]) == a.value[0].text:
		return a.value[2:]
	}
	return nil
}

// choosing are operators under which a value isn't one expression to put a method behind.
var choosing = words("if else and or not for lambda await")

// isNumber reports whether an expression gives a scalar, as far as its words tell.
func isNumber(value []token) bool {
	switch callOf(value) {
	case "mean", "sum", "norm", "loss":
		return callOf(value) != "sum" || mate(value, len(value)-1)+2 == len(value) // without a dimension
	case "":
		return strings.HasSuffix(value[len(value)-1].text, "loss")
	}
	return false
}

// unbounded bounds a cache of results.
func (p Place) unbounded(toks []token) (e Edit, why string) {
	for i, t := range toks {
		if t.text == "maxsize" && i+2 < len(toks) && toks[i+1].text == "=" && toks[i+2].text == "None" {
			return Edit{p.File, toks[i+2].from, toks[i+2].to, "16"}, ""
		}
	}
	return e, "the cache's bound isn't written there"
}

// noGrad puts a statement of one line under torch.no_grad().
func (p Place) noGrad() (e Edit, why string) {
	x := p.File.stmts[p.stmt]
	from := x.tokens[0].from
	begin := strings.LastIndexByte(p.File.text[:from], '\n') + 1
	indent := p.File.text[begin:from]
	end := len(p.File.text)
	if n := strings.IndexByte(p.File.text[from:], '\n'); n >= 0 {
		end = from + n
	}
	if x.first != x.last || strings.TrimSpace(indent) != "" || !strings.Contains(p.File.text, "import torch") {
		return e, "the statement stands in several lines, or beside another"
	}
	deeper, newline := "    ", "\n"
	if strings.HasPrefix(indent, "\t") {
		deeper = "\t"
	}
	if strings.HasSuffix(p.File.text[:end], "\r") {
		newline = "\r\n"
	}
	return Edit{p.File, from, from, "with torch.no_grad():" + newline + indent + deeper}, ""
}
