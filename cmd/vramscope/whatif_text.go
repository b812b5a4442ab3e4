package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/vramscope/vramscope/replay"
	"github.com/vramscope/vramscope/report"
)

// whatifText writes what was tried as a table, what gains most first.
func whatifText(w io.Writer, doc *replay.Document, style report.Style) error {
	width := style.Width
	if width <= 0 {
		width = 100
	}
	var b strings.Builder
	paragraph(&b, "", doc.Verdict, width)
	verdict := strings.TrimSuffix(b.String(), "\n")
	b.Reset()
	b.WriteString(bold(style, verdict) + "\n")
	if !style.Quiet {
		whatifFailures(&b, doc, width)
		whatifTable(&b, doc)
		whatifNotes(&b, doc, width)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// whatifFailures tells why requests failed, and which blocks keep free memory
// from being used.
func whatifFailures(b *strings.Builder, doc *replay.Document, width int) {
	for i := range doc.Failures {
		f := &doc.Failures[i]
		b.WriteString("\n")
		paragraph(b, "  ", fmt.Sprintf("At event %s: %s", report.Count(f.Event), f.Text), width)
		if len(f.Pins) == 0 {
			continue
		}
		b.WriteString("  Whole segments would be free for any request without these blocks, or if they lay elsewhere:\n")
		rows := [][]string{{"", "frees", "segments", "blocks", "of"}}
		for k := range f.Pins {
			p := &f.Pins[k]
			rows = append(rows, []string{p.Category, report.Bytes(p.Frees), strconv.Itoa(p.Segments), strconv.Itoa(p.Blocks), report.Bytes(p.Bytes), pinPlace(p)})
		}
		rows[0] = append(rows[0], "made at")
		writeTable(b, rows)
	}
}

// pinPlace is where blocks were made.
func pinPlace(p *replay.Pin) string {
	text := ""
	if p.File != nil {
		text = report.ShortFile(*p.File)
		if p.Line != nil {
			text += ":" + strconv.Itoa(*p.Line)
		}
	}
	if p.Function != nil && *p.Function != "" {
		text = strings.TrimSpace(text + " " + *p.Function)
	}
	return text
}

func whatifTable(b *strings.Builder, doc *replay.Document) {
	if len(doc.Scenarios) == 0 {
		return
	}
	gains := "gains"
	if doc.Scenarios[0].OOM {
		gains = "leaves" // what peaks gain counts for nothing where more is allocated
	}
	rows := [][]string{{"", "peak reserved", gains, "peak allocated", "segments", "retries", "out of memory"}}
	for i := range doc.Scenarios {
		rows = append(rows, whatifRow(&doc.Scenarios[i], i == 0, doc.Scenarios[0].OOM))
	}
	b.WriteString("\n")
	writeTable(b, rows)
}

// writeTable writes rows under a head; all but the first and the last column
// are numbers.
func writeTable(b *strings.Builder, rows [][]string) {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i > 0 && i < len(row)-1 { // numbers
				line += pad + cell + "  "
			} else {
				line += cell + pad + "  "
			}
		}
		b.WriteString(strings.TrimRight("  "+line, " ") + "\n")
	}
}

func whatifRow(o *replay.Outcome, first, failed bool) []string {
	most := ""
	if !o.Complete && !first {
		most = "≥ "
	}
	gain := ""
	if !first {
		gain = report.Bytes(o.SavesBytes)
		if o.OOM || !o.Complete {
			gain = ""
		}
	}
	if failed {
		gain = ""
		if o.LeftBytes != nil {
			gain = report.Bytes(*o.LeftBytes)
		}
	}
	fails := ""
	switch {
	case o.OOM:
		fails = fmt.Sprintf("at event %s, a segment lacks %s", report.Count(*o.OOMEvent), report.Bytes(o.ShortBytes))
	case o.Survived:
		fails = "no, as far as recorded"
	default:
		fails = "no"
	}
	return []string{o.Name, most + report.Bytes(o.PeakReservedBytes), gain, most + report.Bytes(o.PeakAllocatedBytes),
		strconv.Itoa(o.Segments), strconv.Itoa(o.Retries), fails}
}

func whatifNotes(b *strings.Builder, doc *replay.Document, width int) {
	b.WriteString("\n")
	if doc.MatchRate != nil {
		paragraph(b, "  ", fmt.Sprintf("Replayed under the recorded settings, %s of the addresses and %s of the segment calls come out as recorded (history: %s).",
			rate(*doc.MatchRate), rate(*doc.SegmentCallRate), doc.History), width)
	}
	seen := map[string]bool{}
	for i := range doc.Scenarios {
		o := &doc.Scenarios[i]
		for k, text := range o.Assumptions {
			if line := o.Changes[k] + ": " + text; !seen[line] {
				seen[line] = true
				paragraph(b, "  ", line, width)
			}
		}
	}
	for _, note := range doc.Notes {
		if !seen[note] {
			seen[note] = true
			paragraph(b, "  ", "Note: "+note+".", width)
		}
	}
}

// rate is a share that is 100 % only when nothing is missing.
func rate(share float64) string {
	if share < 1 && share > 0.9995 {
		return "more than 99.9 %"
	}
	return fmt.Sprintf("%.1f %%", 100*share)
}

// paragraph breaks text at spaces, later lines two columns further in.
func paragraph(b *strings.Builder, indent, text string, width int) {
	line := indent
	for _, word := range strings.Fields(text) {
		if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width && strings.TrimSpace(line) != "" {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = indent + "  "
		}
		if strings.TrimSpace(line) != "" {
			line += " "
		}
		line += word
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}
