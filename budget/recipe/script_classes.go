package recipe

import (
	"slices"
	"strings"

	"github.com/vramscope/vramscope/source"
)

// A program may keep its settings in a class of its own, whose fields have values in its body, and read them from an object of
// it, or from the class. A field counts where nothing in the program gives it another value.

// pyClasses are the fields of a program's classes, and of which class its names are.
type pyClasses struct {
	fields map[string]map[string]pyValue // by class
	given  map[string]map[string]bool    // fields that calls or lines give other values; "" is all of them
	of     map[string]string             // names of objects, and of the classes themselves
}

// classesOf finds a program's classes and their objects, and what gives fields other values.
func (p *python) classesOf() *pyClasses {
	c := &pyClasses{fields: map[string]map[string]pyValue{}, given: map[string]map[string]bool{}, of: map[string]string{}}
	for _, s := range p.statements {
		if s.Word == "class" && len(s.Bound) > 0 {
			c.fields[s.Bound[0]], c.given[s.Bound[0]], c.of[s.Bound[0]] = map[string]pyValue{}, map[string]bool{}, s.Bound[0]
		}
	}
	if len(c.fields) == 0 {
		return c
	}
	for i := range p.statements {
		if s := &p.statements[i]; s.Word != "class" {
			p.words = s.Words
			for k := range s.Words {
				p.namesClass(c, s, k)
			}
		}
	}
	for _, s := range p.statements {
		if s.Value > 3 && s.Words[1].Text == "." { // cfg.batch = 8
			if class := c.of[s.Words[0].Text]; class != "" {
				c.given[class][s.Words[2].Text] = true
			}
		}
	}
	return c
}

// namesClass looks at a word that may be a class's: a call gives fields values, a type beside a name tells of which class that
// is, and elsewhere nobody knows what becomes of the class.
func (p *python) namesClass(c *pyClasses, s *source.Statement, k int) {
	class, before, after := s.Words[k].Text, "", ""
	if c.fields[class] == nil || s.Words[k].Kind != 'n' {
		return
	}
	if k > 0 {
		before = s.Words[k-1].Text
	}
	if k+1 < len(s.Words) {
		after = s.Words[k+1].Text
	}
	switch {
	case after == "." || before == "->":
	case before == ":" && k > 1:
		c.of[s.Words[k-2].Text] = class
	case after == "(" && s.Words[k+1].Mate > k:
		for _, x := range p.parts(k+2, s.Words[k+1].Mate) {
			c.given[class][x.key] = true
		}
		if k == s.Value && k == 2 {
			c.of[s.Words[0].Text] = class
		}
	default:
		c.given[class][""] = true
	}
}

// field takes the value that the body of a class gives a field.
func (c *pyClasses) field(p *python, s *source.Statement) {
	if s.Parent < 0 || p.statements[s.Parent].Word != "class" || s.Value < 2 || len(p.statements[s.Parent].Bound) == 0 {
		return
	}
	v := p.value(part{from: s.Value, to: len(s.Words)})
	if v.call != nil && strings.HasSuffix(v.call.name, "field") { // dataclasses.field(default=…)
		v = v.call.by["default"]
	}
	if fields := c.fields[p.statements[s.Parent].Bound[0]]; fields != nil && len(fields) < maxFields {
		fields[s.Words[0].Text] = v
	}
}

// value is that of an object's field, or of a class's.
func (c *pyClasses) value(name string) (v pyValue, ok bool) {
	at := strings.IndexByte(name, '.')
	if at < 0 {
		return v, false
	}
	class, field := c.of[name[:at]], name[at+1:]
	if class == "" || c.given[class][""] || c.given[class][field] {
		return v, false
	}
	v, ok = c.fields[class][field]
	return v, ok
}

// element is that of a dictionary, as in CONFIG["batch"], and where the expression ends.
func (p *python) element(v pyValue, end, to int) (pyValue, int) {
	if end+2 < to && p.words[end].Text == "[" && p.words[end].Mate == end+2 && p.words[end+1].Kind == 's' && v.call.isDict() {
		if i := slices.Index(v.call.names, p.words[end+1].Text); i >= 0 {
			return v.call.by[v.call.names[i]], end + 3
		}
	}
	return v, end
}
