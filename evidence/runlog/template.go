package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/internal/units"
)

// template is a step line with holes where its numbers were. Most lines of a
// large log differ from one just before in nothing but numbers; for those, what
// the words mean and which kind of line it is need not be found out again.
type template struct {
	text  []byte // the line that it was made from
	holes []hole
	tail  int // where the text after the last number begins
	// unstamped tells that the line has no time, and nothing that other numbers
	// make one of.
	unstamped bool
}

// hole is where a number stood in the text, and what the words before it mean.
type hole struct {
	start, end int
	meaning    *meaning
}

// templates are the shapes of the last step lines, the one that matched last
// first: some trainers print several lines for a step.
type templates [4]template

// remember makes a template of a line, in place of the one that has not been
// of use for longest.
func (t *templates) remember(line []byte, pairs []pair) {
	if len(pairs) == maxPairs || len(line) > 1024 {
		return // the rest of the line was not looked at
	}
	last := t[len(t)-1]
	copy(t[1:], t[:len(t)-1])
	last.text = append(last.text[:0], line...)
	last.holes = last.holes[:0]
	_, at := timeStamp(line, len(line))
	last.tail, last.unstamped = 0, at == len(line) && !figures.MayBeTimed(line)
	for i := range pairs {
		p := &pairs[i]
		if !units.IsDigit(line[p.position]) { // nan, or inf: the next one may be a number
			last.holes = last.holes[:0]
			break
		}
		last.holes = append(last.holes, hole{p.position, p.end, p.meaning})
		last.tail = p.end
	}
	t[0] = last
}

// match reads the numbers of a line that is like one of the templates.
func (t *templates) match(pairs []pair, line []byte) ([]pair, bool) {
	for i := range t {
		if len(t[i].holes) == 0 {
			continue
		}
		if found, ok := t[i].match(pairs, line); ok {
			if i > 0 {
				t[0], t[i] = t[i], t[0]
			}
			return found, true
		}
	}
	return pairs, false
}

// match is exact: the same text between the numbers, and numbers that end
// where that text goes on. What it gives is what scanning would have given.
func (t *template) match(pairs []pair, line []byte) ([]pair, bool) {
	if cap(pairs) < maxPairs {
		pairs = make([]pair, 0, maxPairs)
	}
	pairs = pairs[:len(t.holes)]
	at, from := 0, 0
	for i := range t.holes {
		h := &t.holes[i]
		n := h.start - from
		if at+n >= len(line) || string(line[at:at+n]) != string(t.text[from:h.start]) {
			return pairs, false
		}
		if at += n; !units.IsDigit(line[at]) {
			return pairs, false
		}
		p := &pairs[i]
		p.reset(at, h.meaning)
		p.read(line, at)
		at, from = p.end, h.end
	}
	return pairs, bytes.Equal(line[at:], t.text[t.tail:])
}

// Again takes a line that differs from a step line just before in nothing but
// its numbers; false, and nothing done, for any other. Line takes those.
func (p *Parser) Again(number int, line []byte) bool {
	if len(p.steps.templates[0].holes) == 0 || p.oom.open || p.oom.cut > 0 || p.traces.Open || p.summary.open || p.steps.columns {
		return false
	}
	if p.coloured {
		if bytes.IndexByte(line, 0x1b) >= 0 {
			p.plain = StripColours(p.plain[:0], line)
			line = p.plain
		}
	}
	s := &p.steps
	s.whole = line
	line = p.labels.strip(line)
	pairs, ok := s.templates.match(s.pairs, line)
	s.pairs = pairs
	if !ok {
		return false
	}
	s.unstamped = s.templates[0].unstamped
	s.judge(p, number, line, new(readFacts(s.pairs, line, s.binary)))
	s.unstamped = false
	return true
}
