package view

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// ticket is what stands in a ticket before all that is folded: what fills the GPU, the
// change's code, who made it, and where it ran.
func (s *sheet) ticket() {
	main := Main(s.doc)
	if main < 0 {
		if lines := s.beyond(); len(lines) > 0 {
			s.add(Part{List: true, Text: lines[:min(len(lines), shortRows)]})
		}
		s.environment(nil)
		return
	}
	d := &s.doc.Devices[main]
	_, m, _ := shownMoment(d)
	if len(d.Changes) > 0 && d.Changes[0].Code != "" && s.doc.Verdict.Fix != nil && d.Changes[0].Text == *s.doc.Verdict.Fix {
		s.add(Part{Command: strings.Join(codeLines(d.Changes[0].Code), "\n"), Python: true})
	}
	t := bars(d, m)
	if d.CapacityBytes != nil {
		t.add(units.Size(*d.CapacityBytes), "capacity")
	}
	s.add(Part{Table: t})
	s.madeBy(d, "")
	for i := range d.Findings {
		if f := &d.Findings[i]; f.ID == "recipe_contradicted" {
			s.add(Part{Text: []string{units.Rounded(f.Title)}})
		}
	}
	s.environment(d)
}

// environment is where the run ran, in a line.
func (s *sheet) environment(d *report.Device) {
	x := &s.doc.Environment
	parts := append([]string{simulatedCard(s.doc)}, Where(s.doc)...)
	for i, value := range []string{text(x.Python), text(x.Command), fmt.Sprintf("%.12s", text(x.GitCommit))} {
		parts = append(parts, when(value != "", [...]string{"Python ", "command ", "commit "}[i]+value))
	}
	if d != nil {
		parts = append(parts, list(units.Plural(d.Events, "event"), Stacks[d.Stacks], Histories[d.History]))
	}
	if parts = said(parts...); len(parts) > 0 {
		s.add(Part{Text: []string{strings.Join(parts, " · ")}})
	}
}

// Where says on what the run ran, as far as any evidence tells.
func Where(doc *report.Document) (out []string) {
	e := &doc.Environment
	for i, value := range []*string{e.Torch, e.CUDA, e.Driver, e.GPU, e.Settings} {
		if text(value) != "" {
			out = append(out, [...]string{"torch ", "CUDA ", "driver ", "", "settings "}[i]+*value)
		}
	}
	if n := evidence.Or(e.WorldSize, 0); n > 1 {
		out = append(out, units.Plural(n, "rank"))
	}
	return out
}
