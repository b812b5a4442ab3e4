package report

import (
	"fmt"
	"strings"
)

// markdownSites is how many call sites go into a ticket.
const markdownSites = 10

// markdown is what the page's copy button gives: the report in a few lines for
// a ticket.
func markdown(doc *Document) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if doc.Title != "" {
		line("## %s\n", plainCell(doc.Title))
	}
	line("**%s**", plainCell(doc.Verdict.Text))
	if doc.Verdict.Fix != nil {
		line("\nFirst change: %s", plainCell(*doc.Verdict.Fix))
	}
	for _, n := range doc.Notes {
		line("- %s: %s", plainCell(n.Key), plainCell(n.Value))
	}
	for i := range doc.Devices {
		d := &doc.Devices[i]
		line("\n### Device %d\n\n| | |\n|---|---:|", d.Device)
		for _, f := range d.figures()[:6] {
			line("| %s | %s |", f.Label, plainCell(f.Value))
		}
		if len(d.Sites) > 0 {
			line("\nAllocated at the peak:\n\n| Call site | Called from | Category | Blocks | Bytes | Share |\n|---|---|---|---:|---:|---:|")
		}
		for k := range d.Sites[:min(len(d.Sites), markdownSites)] {
			s := &d.Sites[k]
			from, category := "", ""
			if s.CalledFrom != nil {
				from = s.CalledFrom.Function + " " + shortPlace(s.CalledFrom.File, s.CalledFrom.Line)
			}
			if s.Category != nil {
				category = CategoryTitle(*s.Category)
			}
			line("| %s | %s | %s | %s | %s | %s |", plainCell(s.Short()), plainCell(from), category, Count(s.Blocks), Bytes(s.Bytes), Percent(s.Bytes, d.AtPeak.AllocatedBytes))
		}
		for _, f := range d.Findings {
			fix := ""
			if f.Fix != nil {
				fix = " " + *f.Fix + "."
			}
			line("\n- **%s** (%s).%s", plainCell(f.Title), severityWord(f.Severity), plainCell(fix))
		}
	}
	line("\n<sub>%s</sub>", plainCell(doc.Tool))
	return b.String()
}

// plainCell makes a text safe for a cell of a GitHub table: no markup, no new lines.
func plainCell(s string) string {
	return strings.NewReplacer("\n", " ", "\r", " ", "|", `\|`, "<", "&lt;", ">", "&gt;", "`", "'", "*", `\*`, "_", `\_`, "[", `\[`).Replace(s)
}
