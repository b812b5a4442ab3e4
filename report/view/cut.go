package view

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
)

// Cut is the first items of a sheet below its verdict: sentences, facts, lines, rows,
// findings and plots, in the order of reading, which is that of importance. What is left
// out is counted at the end, with how to ask for it.
func (s *Sheet) Cut(items int, ask string) *Sheet {
	short := *s
	short.Parts = nil
	var below []string // headings of what is left out
	left := 0
	for i := range s.Parts {
		p := s.Parts[i]
		n := p.items()
		if n <= items {
			short.Parts = append(short.Parts, p)
			items -= n
			continue
		}
		left += n - items
		heading, _, _ := strings.Cut(p.Heading, " (")
		heading, _, _ = strings.Cut(heading, ":")
		if heading != "" && !slices.Contains(below, heading) {
			below = append(below, heading)
		}
		if items > 0 {
			p.keep(items)
			short.Parts = append(short.Parts, p)
			items = 0
		}
	}
	if left == 0 {
		return s
	}
	text := "left out: " + units.Plural(left, "line")
	if len(below) > 0 {
		text += fmt.Sprintf(" (%s)", strings.Join(below[:min(len(below), 6)], "; "))
	}
	rest := Part{Bare: true, Text: []string{text + "; " + ask}}
	if f := short.Folded; f > 0 && f < len(short.Parts) {
		short.Parts = slices.Insert(short.Parts, f, rest)
		short.Folded++
	} else {
		short.Parts = append(short.Parts, rest)
	}
	if slices.ContainsFunc(below, func(h string) bool { return strings.EqualFold(h, "change") }) {
		short.Changes = false // they tell only of some, if of any
	}
	return &short
}

// Items is how many a sheet has.
func (s *Sheet) Items() int {
	n := 0
	for i := range s.Parts {
		n += s.Parts[i].items()
	}
	return n
}

// items counts what a part has; its heading comes with the first.
func (p *Part) items() int { return max(1, p.said()) }

// said is how much stands below its heading.
func (p Part) said() int { return p.keep(0) }

// keep drops all but the first items of a part, and says how many it had.
func (p *Part) keep(n int) (had int) {
	take := func(have int) (kept int) {
		kept = max(0, min(have, n-had))
		had += have
		return kept
	}
	if p.Command != "" {
		had++
	}
	p.Text = p.Text[:take(len(p.Text))]
	p.Facts = p.Facts[:take(len(p.Facts))]
	p.Rows = p.Rows[:take(len(p.Rows))]
	p.Findings = p.Findings[:take(len(p.Findings))]
	if p.Rest != "" && take(1) == 0 {
		p.Rest = ""
	}
	if p.Plot != nil && take(1) == 0 {
		p.Plot = nil
	}
	return had
}
