package report

import (
	"fmt"
	"io"
	"strings"

	"github.com/vramscope/vramscope/internal/units"
)

// How much of a report goes into a ticket.
const (
	ticketSites    = 10
	ticketOOMs     = 5
	ticketFindings = 8
	ticketLeaks    = 5
	ticketEvidence = 3 // lines of each finding
	ticketInputs   = 20
)

// Markdown writes a document short enough for a ticket, in GitHub's dialect:
// what is in a file's names never becomes markup, a mention or a reference.
func Markdown(w io.Writer, doc *Document) error {
	m := &markdownWriter{w: w}
	if doc.Title != "" {
		m.line("## %s\n", Prose(doc.Title))
	}
	m.verdict(&doc.Verdict)
	for _, n := range doc.Notes {
		m.line("- %s: %s", Prose(n.Key), Prose(n.Value))
	}
	m.ranks(doc)
	m.trends(doc)
	for _, i := range doc.shown() {
		m.device(doc, i)
	}
	m.findings("Findings in logs, nvidia-smi and traces", doc.Findings)
	m.trials(doc.Trials)
	m.comparison(doc.Comparison)
	m.messages(doc)
	m.evidence(doc)
	m.made(doc)
	return m.err
}

// markdownWriter writes lines and remembers the first error.
type markdownWriter struct {
	w   io.Writer
	err error
}

func (m *markdownWriter) line(format string, args ...any) {
	if m.err == nil {
		_, m.err = fmt.Fprintf(m.w, format+"\n", args...)
	}
}

// row writes one row of a table; the cells are Markdown already.
func (m *markdownWriter) row(cells ...string) { m.line("| %s |", strings.Join(cells, " | ")) }

func (m *markdownWriter) verdict(v *Verdict) {
	m.line("> [!%s]", map[Severity]string{Critical: "CAUTION", Warning: "WARNING", Info: "NOTE"}[v.Severity])
	m.line("> **%s**", Prose(v.Text))
	if v.Fix != nil {
		m.line(">\n> First change: %s%s", Prose(*v.Fix), saves(v.SavesBytes))
	}
	m.line("")
}

// saves is what a fix saves, in brackets; "" where that isn't known, or nothing.
func saves(bytes *int64) string {
	if bytes == nil || *bytes <= 0 {
		return ""
	}
	return " (saves " + units.Bytes(*bytes) + ")"
}

func (m *markdownWriter) device(doc *Document, index int) {
	d := &doc.Devices[index]
	m.line("\n### %s\n", Prose(doc.deviceTitle(index)))
	m.line("| | | |\n|---|---:|---|")
	if d.History != "none" {
		note := ""
		if d.Before() {
			note = "; before the recording it may have been more"
		}
		m.peak("Peak allocated", d.Peaks.Allocated, note)
		m.peak("Peak requested", d.Peaks.Requested, "")
		m.peak("Peak active", d.Peaks.Active, "")
		m.peak("Peak reserved", d.Peaks.Reserved, "")
	}
	if d.CapacityBytes != nil || d.CapacityDisproved != nil {
		m.row("Capacity", bytesOr(d.CapacityBytes), d.capacityNote(map[string]string{"flag": "as given",
			"oom_entry": "at the failed request",
			"message":   "from the error message", "nvidia_smi": "from nvidia-smi"}))
	}
	if n := len(d.Steps); n > 0 {
		m.row("Steps", units.Count(n), "")
	}
	m.row("Recorded", units.Plural(d.Events, "event"), Prose(recordedAs(doc, d)))
	m.held(d)
	m.failed(d.OOMs)
	m.findings("Findings", d.Findings)
	m.leaks(d.Leaks)
}

func (m *markdownWriter) peak(name string, p Peak, note string) {
	at := "before the first event"
	if p.Event != nil {
		at = "event " + units.Count(*p.Event)
	}
	m.row(name, units.Bytes(p.Bytes), at+note)
}

// recordedAs is how a device was recorded, without figures.
func recordedAs(doc *Document, d *Device) string {
	parts := []string{map[string]string{"complete": "history complete", "late": "recording began late",
		"overflowed": "oldest events lost", "none": "no history"}[d.History],
		map[string]string{"all": "C++ and Python stacks", "python": "Python stacks only", "none": "no stacks"}[d.Stacks]}
	if era := doc.Inputs[d.Input].Era; era != nil {
		parts = append(parts, "PyTorch "+*era+" style")
	}
	return strings.Join(parts, ", ")
}

// held is what was alive at the peak, by category and by call site.
func (m *markdownWriter) held(d *Device) {
	sites, at, when := d.Sites, d.AtPeak, "At the peak"
	if d.History == "none" {
		sites, at, when = d.SitesAtEnd, d.AtEnd, "At the dump"
	}
	if len(sites) == 0 {
		return
	}
	if at.Event != nil && d.History != "none" {
		when += " (event " + units.Count(*at.Event) + ")"
	}
	reserved := units.Bytes(at.ReservedBytes) + " reserved"
	if lacks := at.lacks(); lacks != "" {
		reserved += ", but " + lacks
	}
	m.line("\n#### %s: %s allocated in %s, %s\n", when, units.Bytes(at.AllocatedBytes), units.Plural(at.Blocks, "block"),
		reserved)
	if len(at.Categories) > 0 {
		m.line("| Category | Bytes | Share | |\n|---|---:|---:|---|")
		for _, name := range Categories {
			if bytes := at.Categories[name]; bytes > 0 {
				m.row(words(CategoryTitle(name)), units.Bytes(bytes), units.Percent(bytes, at.AllocatedBytes),
					strings.TrimRight(bar(bytes, at.AllocatedBytes, 20), " "))
			}
		}
		for i, bytes := range at.beside() {
			if bytes != nil && *bytes > 0 {
				m.row(Prose(besideTitles[i]), units.Bytes(*bytes), "", "")
			}
		}
		m.line("")
	}
	m.line("| Held by | Called from | Category | Blocks | Bytes | Share |\n|---|---|---|---:|---:|---:|")
	var rest int64
	blocks := 0
	for i := range sites {
		s := &sites[i]
		if i >= ticketSites {
			rest, blocks = rest+s.Bytes, blocks+s.Blocks
			continue
		}
		m.row(siteCode(s), calledFrom(s), categoryOf(s.Category), units.Count(s.Blocks), units.Bytes(s.Bytes),
			units.Percent(s.Bytes, at.AllocatedBytes))
	}
	if blocks > 0 {
		m.row(units.Plural(len(sites)-ticketSites, "other call site"), "", "", units.Count(blocks), units.Bytes(rest),
			units.Percent(rest, at.AllocatedBytes))
	}
}

func categoryOf(category *string) string {
	if category == nil {
		return ""
	}
	return words(CategoryTitle(*category))
}

// siteCode is a call site: the line that allocated, and the operator.
func siteCode(s *Site) string {
	out := placeCode(s.Function, s.File, s.Line)
	switch {
	case out == "" && s.Op == "":
		return strings.Trim(siteText(s), "()")
	case out == "":
		return code(s.Op)
	case s.Op != "":
		return out + " " + code(s.Op)
	}
	return out
}

func calledFrom(s *Site) string {
	if s.CalledFrom == nil {
		return ""
	}
	return placeCode(s.CalledFrom.Function, s.CalledFrom.File, s.CalledFrom.Line)
}

// placeCode is a line of code with its file's last two folders.
func placeCode(function, file string, line *int) string {
	where := shortPlace(file, line)
	if function != "" && where != "" {
		where = function + "  " + where
	} else if where == "" {
		where = function
	}
	return code(where)
}

func (m *markdownWriter) failed(ooms []OOM) {
	if len(ooms) == 0 {
		return
	}
	m.line("\n#### Failed requests\n")
	m.line("| Event | Asked for | Why | Allocated | Reserved | Largest free block | Left on device | Phase | Asked by " +
		"|\n|---:|---:|---|---:|---:|---:|---:|---|---|")
	for i := range ooms {
		if i == ticketOOMs {
			m.line("\nand %s", units.Plural(len(ooms)-i, "more"))
			break
		}
		o := &ooms[i]
		phase, by := "", ""
		if o.Phase != nil {
			phase = words(*o.Phase)
		}
		if o.Site != nil {
			by = siteCode(o.Site)
		}
		m.row(units.Count(o.Event), units.Bytes(o.RequestedBytes), words(o.Verdict), units.Bytes(o.AllocatedBytes),
			units.Bytes(o.ReservedBytes),
			bytesOr(o.LargestFreeBlock), bytesOr(o.DeviceFreeBytes), phase, by)
	}
}

// bytesOr is a size, "?" for an unknown one.
func bytesOr(n *int64) string {
	if n == nil {
		return "?"
	}
	return units.Bytes(*n)
}

func (m *markdownWriter) findings(head string, findings []Finding) {
	if len(findings) == 0 {
		return
	}
	m.line("\n#### %s\n", head)
	for i, f := range findings {
		if i == ticketFindings {
			m.line("- and %s", units.Plural(len(findings)-i, "more"))
			break
		}
		m.line("- **%s** (%s)", Prose(f.Title), severityName[f.Severity])
		for k, e := range f.Evidence {
			if k == ticketEvidence {
				m.line("  - and %s", units.Plural(len(f.Evidence)-k, "more line"))
				break
			}
			m.line("  - %s", Prose(e))
		}
		if f.Fix != nil {
			m.line("  - Change: %s%s", Prose(*f.Fix), saves(f.SavesBytes))
		}
	}
}

var severityName = map[Severity]string{Critical: "critical", Warning: "warning", Info: "for information"}

func (m *markdownWriter) leaks(leaks []Leak) {
	if len(leaks) == 0 {
		return
	}
	m.line("\n#### Growth and leaks\n")
	m.line("| Kind | Where | Category | Per step | Steps | Total | Confidence |\n|---|---|---|---:|---:|---:|---:|")
	for i := range leaks {
		if i == ticketLeaks {
			m.line("\nand %s", units.Plural(len(leaks)-i, "more"))
			break
		}
		l := &leaks[i]
		kind := words(l.Kind)
		switch {
		case l.Defect && l.Suspected:
			kind += " (suspected)"
		case !l.Defect:
			kind += " (no defect)"
		}
		where := ""
		if l.File != nil {
			where = placeCode(text0(l.Function), *l.File, l.Line)
		}
		if c := l.CalledFrom; c != nil {
			where += " from " + placeCode(c.Function, c.File, c.Line)
		}
		m.row(kind, where, categoryOf(l.Category), bytesOr(l.BytesPerStep), units.Count(l.Steps), units.Bytes(l.TotalBytes),
			fmt.Sprintf("%.0f %%", 100*l.Confidence))
	}
}

// words are a fixed name in plain words.
func words(name string) string { return Prose(strings.ReplaceAll(name, "_", " ")) }

// text0 is a text, "" for none.
func text0(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
