// Package families lists the weights of parts of models, such as encoders of images, as data: weights.txt
// says in a line what a weight is called and which shape it has, in terms of a configuration's fields.
package families

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed weights.txt
var text string

// Weight is one tensor of a part.
type Weight struct {
	Name  string
	Shape []int64
	Layer int64 // that it is in, -1 outside of them
	Fixed bool  // nothing trains it
}

// parts are the lines of each part of weights.txt.
var parts = sync.OnceValue(func() map[string][][]string {
	m, part := map[string][][]string{}, ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			part = strings.Trim(line, "[]")
			m[part] = nil
		default:
			m[part] = append(m[part], strings.Fields(line))
		}
	}
	return m
})

// most bounds the weights that a configuration's counts can ask for, deepest how many parts are in each other.
const (
	most    = 1 << 16
	deepest = 8
)

// eyes are the parts that are encoders of images by themselves, as a configuration may name one.
var eyes = []string{"clip_vision_model", "siglip_vision_model", "siglip2_vision_model", "pixtral"}

// Sees says whether a part is such an encoder.
func Sees(part string) bool { return slices.Contains(eyes, part) }

// Weights lists those of a part, whose sizes field looks up, with an encoder of images that may be of several kinds.
func Weights(part, eyes string, field func(name string) int64) ([]Weight, error) {
	l := &list{field: field, eyes: eyes, sizes: map[string]int64{}}
	l.part(part, "")
	return l.all, l.err
}

// Value works out sums, differences, products and quotients of numbers and of sizes that field looks up.
func Value(s string, field func(name string) int64) int64 { return (&list{field: field}).value(s) }

// list is what was made of a part so far.
type list struct {
	field func(name string) int64
	eyes  string
	depth int
	sizes map[string]int64
	all   []Weight
	err   error
}

func (l *list) part(part, prefix string) {
	if part == "eyes" {
		part = l.eyes
	}
	lines, known := parts()[part]
	if l.depth++; !known || l.depth > deepest {
		l.err = fmt.Errorf("no part is called %q", part)
	}
	defer func() { l.depth-- }()
	for _, words := range lines {
		switch {
		case l.err != nil:
			return
		case words[0] == "use":
			l.part(words[1], prefix+strings.TrimPrefix(words[2], "."))
		case words[1] == "=" && len(words) == 3 && !strings.Contains(words[0], "."):
			l.sizes[words[0]] = l.value(words[2])
		default:
			l.weight(prefix, words)
		}
	}
}

// weight is a line's: a name, what belongs to it, a shape and perhaps a condition.
func (l *list) weight(prefix string, words []string) {
	name, kind, shape := prefix+words[0], words[1], words[2:]
	if n := len(shape); n > 2 && shape[n-2] == "if" {
		if l.value(shape[n-1]) == 0 {
			return
		}
		shape = shape[:n-2]
	}
	dims := make([]int64, len(shape))
	for i, s := range shape {
		dims[i] = l.value(s)
	}
	switch {
	case kind == "=":
		l.each(name, -1, dims)
	default:
		from := len(l.all)
		l.each(name+".weight", -1, dims)
		for i := range l.all[from:] {
			l.all[from+i].Fixed = kind == "~"
		}
		if kind == "+" || len(kind) > 1 && l.value(kind[1:]) != 0 {
			l.each(name+".bias", -1, dims[:1])
		}
	}
}

// each puts every number in the place of what is in braces.
func (l *list) each(name string, layer int64, shape []int64) {
	before, rest, found := strings.Cut(name, "{")
	count, after, _ := strings.Cut(rest, "}")
	if !found {
		if len(l.all) >= most && l.err == nil {
			l.err = fmt.Errorf("more than %d weights", most)
		}
		if l.err == nil {
			l.all = append(l.all, Weight{Name: name, Shape: shape, Layer: layer})
		}
		return
	}
	from, to, by := int64(0), count, int64(1)
	if some := strings.Split(count, ":"); len(some) == 3 {
		from, to, by = l.value(some[0]), some[1], max(l.value(some[2]), 1)
	}
	for i := from; i < min(l.value(to), most); i += by {
		in := layer
		if in < 0 && to == count {
			in = i
		}
		l.each(before+strconv.FormatInt(i, 10)+after, in, shape)
	}
}

// value works out sums, differences, products and quotients of sizes and numbers.
func (l *list) value(s string) int64 {
	for _, ops := range []string{"+-", "*/"} { // what binds least is worked out last
		if i := last(s, ops); i > 0 {
			a, b := l.value(s[:i]), l.value(s[i+1:])
			switch s[i] {
			case '+':
				return a + b
			case '-':
				return a - b
			case '*':
				return product(a, b)
			}
			return a / max(b, 1)
		}
	}
	if strings.HasPrefix(s, "(") && strings.HasSuffix(s, ")") {
		return l.value(s[1 : len(s)-1])
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return n
	}
	if n, named := l.sizes[s]; named {
		return n
	}
	return l.field(s)
}

// product is 0, a size that nothing has, where a number wouldn't hold it.
func product(a, b int64) int64 {
	if a < 0 || b < 0 || b > 0 && a > (1<<62)/b {
		return 0
	}
	return a * b
}

// last is where an operator stands last outside of parentheses, -1 where none does.
func last(s, ops string) int {
	depth := 0
	for i := len(s) - 1; i >= 0; i-- {
		switch {
		case s[i] == ')':
			depth++
		case s[i] == '(':
			depth--
		case depth == 0 && strings.IndexByte(ops, s[i]) >= 0:
			return i
		}
	}
	return -1
}
