package source

import (
	"slices"
	"strings"
)

// Held sets the container from a holder's path, as self.log.handlers[*].buffer[*].pred: the names by which a program
// knows what grows, and that of an element's part.
func (s *Search) Held(holder string) {
	s.Containers, s.Element = nil, ""
	if raised, _, ok := strings.Cut(holder, ".__traceback__"); ok {
		if holder = raised; !strings.Contains(raised, ".") {
			return // it keeps itself
		}
	}
	before, after, parts := cutLast(holder, "[*]")
	if after = strings.TrimPrefix(after, "."); parts && after != "" {
		s.Element, holder = lastPart(after), before
	}
	for range 2 {
		holder = withoutIndex(holder)
		name := lastPart(holder)
		if name == "" {
			return
		}
		s.Containers = append(s.Containers, name)
		if !inner[name] {
			return
		}
		holder = strings.TrimSuffix(holder, "."+name)
	}
}

// inner are names of what a library's container keeps its elements in.
var inner = words("data queue _queue deque _data mapping")

func cutLast(s, sep string) (before, after string, ok bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// withoutIndex is a path without the keys at its end.
func withoutIndex(path string) string {
	for strings.HasSuffix(path, "]") {
		at := strings.LastIndexByte(path, '[')
		if at < 0 {
			break
		}
		path = path[:at]
	}
	return path
}

// lastPart is the last name of a path, "" where it has none that a program would write.
func lastPart(path string) string {
	path = withoutIndex(path)
	name := path[strings.LastIndexByte(path, '.')+1:]
	if strings.ContainsAny(name, "()[]<>{}'\" ") {
		return ""
	}
	return name
}

// fits reports whether a store is into the container that is known to hold it.
func (s *Search) fits(x store) bool {
	switch {
	case x.extra != nil:
		return s.Element != "" && slices.ContainsFunc(x.extra, func(t token) bool {
			return t.kind == 's' && strings.Trim(t.text, `"'`) == s.Element || t.text == s.Element && t.kind == 'n'
		})
	case x.hook:
		return slices.ContainsFunc(s.Containers, func(name string) bool { return strings.HasSuffix(name, "_hooks") })
	case x.method == "set":
		return slices.Contains(s.Containers, x.name)
	}
	return len(s.Containers) == 0 || slices.Contains(s.Containers, x.name)
}

// only is the one statement of the program's files that keeps something in the container, where it's known.
func (s *Search) only() (p Place, ok bool) {
	if len(s.Containers) == 0 {
		return p, false
	}
	for _, f := range s.opened {
		for i := range f.stmts {
			for _, x := range storesOf(f.stmts[i].tokens) {
				all := want{names: namesOf(x.value), graph: s.Graph, object: true}
				if x.isAttribute() || !s.fits(x) || valueLost(all, x.value) || !all.mentioned(x.value) {
					continue
				}
				if ok {
					return Place{}, false
				}
				st := &stand{s: s, f: f, i: i}
				p, ok = st.place(i, x), true
				p.boxed = true
			}
		}
	}
	return p, ok
}

// namesOf are the variables of an expression.
func namesOf(value []token) map[string]bool {
	names := map[string]bool{}
	for i, t := range value {
		if t.kind == 'n' && (i == 0 || value[i-1].text != ".") && !constant[t.text] {
			names[t.text] = true
		}
	}
	return names
}

var constant = words("None True False lambda not and or if else for in is await")
