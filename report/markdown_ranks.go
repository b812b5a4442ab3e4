package report

import (
	"fmt"

	"github.com/vramscope/vramscope/internal/units"
)

// ticketGroups is how many groups of ranks, and dumps of a trend, go into a ticket.
const ticketGroups = 10

// ranks is the table of a job's processes.
func (m *markdownWriter) ranks(doc *Document) {
	r := doc.Ranks
	if r == nil {
		return
	}
	m.line("\n### %s\n", Prose(r.title()))
	m.line("| %s | Device | Peak allocated | Peak reserved | Capacity | Verdict |\n|---|---:|---:|---:|---:|---|",
		map[bool]string{true: "Ranks", false: "Recording"}[r.Sure])
	for k := range r.Groups {
		if k == ticketGroups {
			m.line("\nand %s", units.Plural(len(r.Groups)-k, "more group"))
			break
		}
		g := &r.Groups[k]
		row := &r.Rows[g.Shown]
		label := code(r.label(doc, g))
		if r.Sure {
			label = Prose(r.label(doc, g))
		}
		m.row(label, r.deviceOf(g), units.Bytes(row.PeakAllocated), units.Bytes(row.PeakReserved), orUnknown(row.Capacity),
			Prose(row.Verdict))
	}
	if s := r.sentences(); len(s) > 0 {
		m.line("")
		for _, x := range s {
			m.line("- %s", Prose(x))
		}
	}
}

// trends are what several dumps of one process show.
func (m *markdownWriter) trends(doc *Document) {
	shown := doc.shownTrends(textTrends)
	for _, x := range shown {
		m.line("\n### %s\n", Prose(x.title()))
		m.line("| Dump | Events | Peak allocated | At the end | Reserved | |\n|---|---:|---:|---:|---:|---|")
		for k := max(0, len(x.Dumps)-ticketGroups); k < len(x.Dumps); k++ {
			d := &x.Dumps[k]
			m.row(code(ShortFile(doc.Inputs[d.Input].Path)), units.Count(d.Events), units.Bytes(d.PeakAllocated),
				units.Bytes(d.AtEnd), units.Bytes(d.Reserved), Prose(d.words()))
		}
		m.line("\n%s", Prose(x.Text))
	}
	if rest := len(doc.Trend) - len(shown); rest > 0 && len(shown) > 0 {
		m.line("\n%s", fmt.Sprintf("and %s of other processes", units.Plural(rest, "trend")))
	}
}
