package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// trim is how much of a report an edition shows.
type trim struct {
	sites, ooms, pins, findings, evidence, leaks, gpus, groups, dumps, trends, messages, inputs, devices int

	page bool // draws curves, and has devices to choose from
}

const all = 1 << 30

// brief is a screen's.
var brief = trim{sites: 5, gpus: 6, trends: 3, messages: 3, groups: 8, inputs: 3}

var trims = [...]trim{
	Terminal: {sites: 12, ooms: 3, pins: 5, findings: all, evidence: all, gpus: 8, groups: 12, dumps: 12, trends: 3, messages: 5,
		inputs: 24, devices: 16},
	Ticket: {sites: 10, ooms: 5, findings: 8, evidence: 3, leaks: 5, gpus: 8, groups: 10, dumps: 10, trends: 3, messages: 5,
		inputs: 20, devices: 8},
	Brief: brief, Web: brief,
}

// sheet is a document's sheet while it is made.
type sheet struct {
	doc *report.Document
	Edition
	trim
	parts   []Part
	changes bool // they tell of the verdict's change
	web     bool // who reads has buttons instead of flags
}

// Document is a report as a sheet.
func Document(doc *report.Document, e Edition) *Sheet {
	s := &sheet{doc: doc, Edition: e, trim: trims[e]}
	if doc.Top > 0 {
		s.sites = doc.Top
	}
	if e == Brief || e == Web {
		s.Edition, s.web = Terminal, e == Web
		s.short()
		return s.done()
	}
	folded := 0
	if e == Ticket {
		s.ticket()
		folded = len(s.parts)
	}
	s.ranks()
	s.trends()
	shown := shownOf(doc, s.devices)
	for _, i := range shown {
		s.device(i)
	}
	if rest := MoreDevices(doc, len(shown)); rest != "" {
		s.add(Part{Bare: true, Rest: rest + ", less full"})
	}
	s.findings("Findings in logs, monitors and traces", doc.Findings)
	s.evidenceFacts()
	s.trials(doc.Trials)
	s.comparison(doc.Comparison)
	if lines := SimulatedLines(doc); len(lines) > 0 {
		s.add(Part{Heading: "Simulated", Level: 3, Text: append([]string{simulatedCard(doc)}, lines...), List: true})
	}
	if e == Terminal {
		s.host(doc.Host)
		s.read()
	} else {
		s.made()
	}
	sheet := s.done()
	sheet.Folded = folded
	return sheet
}

func (s *sheet) done() *Sheet {
	if omitted := s.doc.OmittedText(); omitted != "" && s.evidence > 0 {
		s.add(Part{Bare: true, Text: []string{omitted}})
	}
	return &Sheet{Title: s.doc.Title, Above: Simulated(s.doc), Verdict: s.doc.Verdict, Notes: s.doc.Notes, Parts: s.parts,
		Tool: s.doc.Tool, Changes: s.changes}
}

// add adds a part that says anything.
func (s *sheet) add(p Part) {
	if p.Heading != "" || p.Bare || p.said() > 0 {
		s.parts = append(s.parts, p)
	}
}

// device is one device of the recording.
func (s *sheet) device(index int) {
	d := &s.doc.Devices[index]
	s.add(Part{Heading: deviceTitle(s.doc, index), Level: 3})
	in := &s.doc.Inputs[d.Input]
	events, history, stacks := units.Plural(d.Events, "event"), Histories[d.History], Stacks[d.Stacks]
	if s.Edition == Terminal {
		s.add(Part{Facts: []Fact{{"recorded", list(era(in), events, units.Plural(d.Allocations, "allocation"), stacks, history) +
			": " + d.HistoryReason}}})
	}
	t := s.peaks(d)
	if s.Edition == Ticket {
		if n := len(d.Steps); n > 0 {
			t.add("Steps", units.Count(n), "")
		}
		t.add("Recorded", events, list(history, stacks, era(in)))
	}
	s.add(Part{Table: t})
	if s.Edition == Terminal && d.History != "none" {
		s.add(Part{Plot: d})
	}
	if s.Edition == Terminal {
		s.failures(d)
	}
	s.held(d)
	s.said(d)
	s.variables(d)
	if s.Edition == Terminal {
		s.segments(d)
	} else {
		s.failed(d)
	}
	s.findings("Findings", d.Findings)
	if s.Edition == Ticket {
		s.leaks(d.Leaks)
	}
}

// peaks are the four quantities that circulate as peak, and the capacity.
func (s *sheet) peaks(d *report.Device) Table {
	t := Table{NoHead: true, Columns: []Column{{Width: 16}, {Number: true, Width: 12}, {Width: 14, Gap: 2}}}
	reports, note := "what torch.cuda.max_memory_allocated() reports", ""
	if d.Before() {
		reports = "in what was recorded; max_memory_allocated() may be more"
		note = "; before the recording it may have been more"
	}
	peak := func(kind string, p report.Peak, what, note string) {
		if s.Edition == Ticket {
			t.add("Peak "+kind, units.Bytes(p.Bytes), EventOf(p.Event)+note)
		} else {
			t.add("peak "+kind, units.Bytes(p.Bytes), EventOf(p.Event), what)
		}
	}
	if s.Edition == Terminal {
		t.Columns = append(t.Columns, Column{Gap: 1, Spare: true})
	}
	if d.History != "none" {
		peak("allocated", d.Peaks.Allocated, reports, note)
		peak("requested", d.Peaks.Requested, "what the program asked for; pytorch.org/memory_viz draws it", "")
		peak("active", d.Peaks.Active, "with blocks whose free is pending", "")
		peak("reserved", d.Peaks.Reserved, "held from the driver", "")
	}
	if d.CapacityBytes != nil || d.CapacityDisproved != nil {
		t.add(map[Edition]string{Terminal: "capacity", Ticket: "Capacity"}[s.Edition], Known(d.CapacityBytes), CapacityNote(d))
	}
	return t
}

// failures are the requests that failed, one after the other.
func (s *sheet) failures(d *report.Device) {
	ooms := d.OOMs
	for i := range ooms[:min(len(ooms), s.ooms)] {
		o := &ooms[i]
		t := Table{NoHead: true, Columns: []Column{{Width: 16}, {Number: true, Width: 12}, {Gap: 2}}}
		t.add("asked for", units.Bytes(o.RequestedBytes))
		t.add("allocated", units.Bytes(o.AllocatedBytes))
		t.add("reserved", units.Bytes(o.ReservedBytes))
		largest := ""
		if o.LargestFreeBlock != nil {
			largest = "largest free block " + units.Bytes(*o.LargestFreeBlock)
		}
		t.add("free in cache", units.Bytes(o.ReservedBytes-o.AllocatedBytes), largest)
		if o.DeviceFreeBytes != nil {
			t.add("left on device", units.Bytes(*o.DeviceFreeBytes))
		}
		var facts []Fact
		if o.Phase != nil {
			facts = append(facts, Fact{"during", *o.Phase})
		}
		if o.Site != nil {
			facts = append(facts, Fact{"asked by", siteText(o.Site)})
		}
		s.add(Part{Heading: fmt.Sprintf("Request failed at event %s (%s)", units.Count(o.Event), Plain(o.Verdict)), Table: t})
		pins := Table{NoHead: true, Wrap: true, Columns: t.Columns}
		for _, p := range o.PinnedBy[:min(len(o.PinnedBy), s.pins)] {
			where := "no stack"
			if p.Function != nil {
				where = place(*p.Function, text(p.File), p.Line)
			}
			pins.add("pinned by", units.Bytes(p.Bytes), where)
		}
		s.add(Part{Facts: facts})
		s.add(Part{Table: pins})
	}
	if rest := more(d.Failed()-min(len(ooms), s.ooms), "failed request"); rest != "" {
		s.add(Part{Lines: []string{rest}})
	}
}

// failed is a table of them.
func (s *sheet) failed(d *report.Device) {
	ooms := d.OOMs
	t := Table{Columns: slices.Concat(numbers("Event", "Asked for"), words("Why"), numbers("Allocated", "Reserved",
		"Largest free block", "Left on device"), words("Phase", "Asked by"))}
	for i := range ooms[:min(len(ooms), s.ooms)] {
		o := &ooms[i]
		var by Cell
		if o.Site != nil {
			by = siteCell(o.Site)
		}
		t.add(units.Count(o.Event), units.Bytes(o.RequestedBytes), Plain(o.Verdict), units.Bytes(o.AllocatedBytes),
			units.Bytes(o.ReservedBytes), Known(o.LargestFreeBlock), Known(o.DeviceFreeBytes), Plain(text(o.Phase)), by)
	}
	s.table("Failed requests", 4, t, more(d.Failed()-min(len(ooms), s.ooms), ""))
}

// table is a part that is nothing without rows.
func (s *sheet) table(heading string, level int, t Table, rest string) {
	if len(t.Rows) > 0 {
		s.add(Part{Heading: heading, Level: level, Table: t, Rest: rest})
	}
}

// held is what was alive at the peak, by category and by call site.
func (s *sheet) held(d *report.Device) {
	sites, m, when := shownMoment(d)
	if len(sites) == 0 {
		return
	}
	if m.Event != nil {
		when += " (event " + units.Count(*m.Event) + ")"
	}
	free := "but " + Lacks(m)
	if m.CacheBytes >= 0 {
		free = units.Bytes(m.CacheBytes) + " of it free"
	}
	s.add(Part{Level: 4, Heading: fmt.Sprintf("%s: %s in %s; %s reserved, %s", when, units.Bytes(m.AllocatedBytes),
		units.Plural(m.Blocks, "block"), units.Bytes(m.ReservedBytes), free)})
	s.add(Part{Table: s.categories(m)})
	rest := report.Site{}
	for i := min(len(sites), s.sites); i < len(sites); i++ {
		rest.Bytes, rest.Blocks = rest.Bytes+sites[i].Bytes, rest.Blocks+sites[i].Blocks
	}
	others := units.Plural(len(sites)-s.sites, "other call site")
	sites = sites[:min(len(sites), s.sites)]
	share := func(x *report.Site) string { return units.Percent(x.Bytes, m.AllocatedBytes) }
	if s.Edition == Ticket {
		t := Table{Columns: slices.Concat(words("Held by", "Called from", "Category"), numbers("Blocks", "Bytes", "Share"))}
		for i := range sites {
			x := &sites[i]
			category := ""
			if x.Category != nil {
				category = report.CategoryTitle(x.CategoryWord())
			}
			t.add(siteCell(x), calledFrom(x.CalledFrom), category, units.Count(x.Blocks), units.Bytes(x.Bytes), share(x))
		}
		if rest.Blocks > 0 {
			t.add(others, "", "", units.Count(rest.Blocks), units.Bytes(rest.Bytes), share(&rest))
		}
		s.add(Part{Table: t})
		return
	}
	t := Table{NoHead: true, Wrap: true, Columns: []Column{figureColumn("", 12), figureColumn("", 7), figureColumn("", 7),
		{Gap: 2, Width: 15}, {}}}
	for i := range sites {
		x := &sites[i]
		cells := []any{units.Bytes(x.Bytes), share(x), units.Count(x.Blocks) + "x", siteText(x)}
		if x.Category != nil {
			cells = slices.Insert(cells, 3, any(Plain(x.CategoryWord())))
		}
		t.add(cells...)
	}
	if rest.Blocks > 0 {
		t.add(units.Bytes(rest.Bytes), share(&rest), units.Count(rest.Blocks)+"x", "in "+others)
	}
	s.add(Part{Lines: []string{"held by"}, Table: t})
}

// shownMoment is what is shown of what a device holds: the moment that was asked for, the
// last failure, the peak, or without a history the dump.
func shownMoment(d *report.Device) (sites []report.Site, m *report.Moment, when string) {
	if d.AtEvent != nil {
		return d.SitesAtEvent, d.AtEvent.Split(d.SitesAtEvent), "At the moment asked for" + momentIn(d)
	}
	m, sites = d.Shown()
	switch when = "At the peak of allocated memory"; m {
	case d.AtFailure:
		when = "At the failure"
	case &d.AtEnd:
		when = "At the dump"
	}
	return sites, m.Split(sites), when
}

// momentIn is the step and the phase of the moment that was asked for.
func momentIn(d *report.Device) string {
	if d.AtEvent.Event == nil {
		return ""
	}
	for _, s := range d.Steps {
		for _, p := range s.Phases {
			if p.FirstEvent <= *d.AtEvent.Event && *d.AtEvent.Event <= p.LastEvent {
				return fmt.Sprintf(", %s of step %d", report.PhaseText[p.Phase], s.Step)
			}
		}
	}
	return ""
}

func categoryOf(category *string) string {
	if category == nil {
		return ""
	}
	return report.CategoryTitle(*category)
}

// categories say what the memory was for, and what the GPU holds besides.
func (s *sheet) categories(m *report.Moment) Table {
	names := slices.Clone(report.Shown)
	t := Table{Columns: slices.Concat(words("Category"), numbers("Bytes", "Share"), words(""))}
	if s.Edition == Terminal {
		t = Table{NoHead: true, Columns: []Column{{Number: true, Width: 12}, {Number: true, Width: 7}, {Width: 20}, {Gap: 1}}}
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(m.Categories[b], m.Categories[a]) })
	}
	add := func(name, bytes, share, bar string) {
		if s.Edition == Terminal {
			t.add(bytes, share, bar, name)
		} else {
			t.add(name, bytes, share, bar)
		}
	}
	for _, name := range names {
		if bytes := m.Categories[name]; bytes > 0 {
			title := report.CategoryTitle(name)
			if s.Edition == Terminal {
				title = Plain(name)
			}
			add(title, units.Bytes(bytes), units.Percent(bytes, m.AllocatedBytes), Bar(bytes, m.AllocatedBytes, 20))
		}
	}
	for i, bytes := range Besides(m) {
		if bytes != nil && *bytes > 0 && (s.Edition == Terminal || len(m.Categories) > 0) {
			add(Beside[i], units.Bytes(*bytes), "", "")
		}
	}
	return t
}

// segments are how the memory lies at the end.
func (s *sheet) segments(d *report.Device) {
	x := &d.Segments
	if x.Count == 0 {
		return
	}
	kind := ""
	if x.Expandable > 0 {
		kind = fmt.Sprintf(", %d of them expandable", x.Expandable)
	}
	s.add(Part{Heading: "Segments at the end", Lines: []string{fmt.Sprintf(
		"%s%s: %s reserved, %s in use, %s free (largest block %s)", units.Plural(x.Count, "segment"), kind, units.Bytes(x.Bytes),
		units.Bytes(x.Bytes-x.FreeBytes), units.Bytes(x.FreeBytes), units.Bytes(x.LargestFree))}})
	t := Table{NoHead: true, Columns: []Column{{Number: true, Width: 12}, {}}}
	if x.Empty > 0 {
		t.add(units.Bytes(x.EmptyBytes), "in "+units.Plural(x.Empty, "segment")+
			" that nothing uses: torch.cuda.empty_cache() would return it")
	}
	if x.PinnedSegments > 0 {
		t.add(units.Bytes(x.PinnedFreeBytes), "free in "+units.Plural(x.PinnedSegments, "segment")+
			" that a smaller part in use keeps")
	}
	pools, rest := report.LargestPools(d.Pools)
	for _, p := range pools {
		t.add(units.Bytes(p.Bytes), fmt.Sprintf("in private pool %s (%s), %s in use", p.Pool, poolKinds[p.Kind],
			units.Bytes(p.Used)))
	}
	s.add(Part{Table: t})
	if rest != nil {
		s.add(Part{Lines: []string{fmt.Sprintf("%s more: %s, %s in use", units.Plural(rest.Pools, "smaller pool"),
			units.Bytes(rest.Bytes), units.Bytes(rest.Used))}})
	}
}

// poolKinds are the kinds of private pools in words.
var poolKinds = map[string]string{"cuda_graph": "a CUDA graph's", "mem_pool": "shared by graphs, or a MemPool"}

func (s *sheet) findings(heading string, findings []report.Finding) {
	if len(findings) == 0 {
		return
	}
	p := Part{Heading: heading, Level: 4, Rest: more(len(findings)-s.trim.findings, "")}
	code := map[string]bool{}
	for i := range findings[:min(len(findings), s.trim.findings)] {
		f := &findings[i]
		x := Finding{Severity: f.Severity, Title: f.Title, Evidence: f.Evidence[:min(len(f.Evidence), s.evidence)],
			Rest: more(len(f.Evidence)-s.evidence, "line")}
		if f.Fix != nil {
			x.Change = *f.Fix + Gain(f)
		}
		if !code[f.Code] {
			x.Code, code[f.Code] = f.Code, true
		}
		p.Findings = append(p.Findings, x)
	}
	s.add(p)
}

func (s *sheet) leaks(leaks []report.Leak) {
	t := Table{Columns: slices.Concat(words("Kind", "Where", "Category"), numbers("Per step", "Steps", "Total", "Confidence"))}
	for i := range leaks[:min(len(leaks), s.trim.leaks)] {
		l := &leaks[i]
		kind := Plain(l.Kind)
		switch {
		case l.Defect && l.Suspected:
			kind += " (suspected)"
		case !l.Defect:
			kind += " (no defect)"
		}
		var where Cell
		if l.File != nil {
			where = cell(Code(place(text(l.Function), *l.File, l.Line)))
		}
		if l.CalledFrom != nil {
			where = cell(where, " from ", calledFrom(l.CalledFrom))
		}
		t.add(kind, where, categoryOf(l.Category), Known(l.BytesPerStep), units.Count(l.Steps), units.Bytes(l.TotalBytes),
			fmt.Sprintf("%.0f %%", 100*l.Confidence))
	}
	s.table("Growth and leaks", 4, t, more(len(leaks)-s.trim.leaks, ""))
}

// trials are what other settings would have done.
func (s *sheet) trials(x *report.Trials) {
	if x == nil {
		return
	}
	t := Table{Wrap: true, Columns: []Column{textColumn("", 28), figureColumn("Peak reserved", 14),
		figureColumn("Peak allocated", 14), {Gap: 2}}}
	for _, r := range x.Rows {
		least := ""
		if r.AtLeast {
			least = "≥ "
		}
		t.Columns[0].Width = max(t.Columns[0].Width, min(width(r.Name), 40))
		t.add(Code(r.Name), least+units.Bytes(r.PeakReserved), least+units.Bytes(r.PeakAllocated), r.Outcome)
	}
	s.add(Part{Heading: fmt.Sprintf("The same requests under other settings (device %d, replayed)", x.Device), Level: 3,
		Text: []string{x.Verdict}, Table: t})
}

// comparison is what was measured beside the budget.
func (s *sheet) comparison(c *report.Comparison) {
	if c == nil {
		return
	}
	t := Table{Columns: []Column{textColumn("", 22), figureColumn("Budget", 12), figureColumn("Measured", 12),
		figureColumn("Difference", 13), {}}}
	if s.Edition == Terminal {
		t.Columns[4] = figureColumn("Of peak", 7)
	}
	for _, x := range append([]report.Compared{c.Peak}, c.Phases...) {
		s.compared(&t, &x, c.Peak.Budget)
	}
	if s.Edition == Terminal {
		t.add()
	}
	for i := range c.Categories {
		s.compared(&t, &c.Categories[i], c.Peak.Budget)
	}
	s.add(Part{Heading: fmt.Sprintf("Against the budget of %s (device %d, requested bytes)", c.Model, c.Device), Level: 3,
		Table: t})
	if len(c.Inferred) > 0 && s.Edition == Terminal {
		p := Part{Bare: true, Table: Table{NoHead: true, Columns: words("")}}
		row := p.add("The setting as the recording shows it (a flag overrides each):")
		for _, x := range c.Inferred {
			row.Notes = append(row.Notes, Fact{"", x})
		}
		s.add(p)
	}
}

// phaseTitles say what a budget's phases are called where they are measured.
var phaseTitles = map[string]string{budget.Loss.String(): "forward and loss"}

// compared is a row of the table. On a terminal, what was not measured is left out
// (a phase of the budget that a recording does not tell from others), and
// differences below half a hundredth of the peak count as none.
func (s *sheet) compared(t *Table, c *report.Compared, peak int64) {
	title := Plain(cmp.Or(phaseTitles[c.Name], c.Name))
	switch {
	case c.Measured == nil && s.Edition == Ticket:
		t.add(title, units.Bytes(c.Budget), "?", "", text(c.Reason))
	case s.Edition == Ticket:
		t.add(title, units.Bytes(c.Budget), units.Bytes(*c.Measured), units.Signed(*c.Measured-c.Budget), text(c.Reason))
	case c.Measured != nil:
		d := *c.Measured - c.Budget
		difference, share := "same", ""
		if 200*float64(max(d, -d)) >= float64(peak) {
			difference = units.Signed(d)
			if peak > 0 {
				share = fmt.Sprintf("%+.0f %%", 100*float64(d)/float64(peak))
			}
		}
		row := t.add(title, units.Bytes(c.Budget), units.Bytes(*c.Measured), difference, share)
		if c.Reason != nil {
			row.Notes = []Fact{{"  ", *c.Reason}}
		}
	}
}

func (s *sheet) host(h *report.HostMemory) {
	if h == nil {
		return
	}
	t := Table{NoHead: true, Wrap: true, Columns: []Column{figureColumn("", 12), figureColumn("", 7), {Gap: 2}}}
	for i := range h.Sites[:min(len(h.Sites), s.sites)] {
		x := &h.Sites[i]
		t.add(units.Bytes(x.Bytes), units.Count(x.Blocks)+"x", siteText(x))
	}
	s.add(Part{Heading: "Pinned host memory", Lines: []string{fmt.Sprintf("%s reserved, %s in use, %s at its peak; %s",
		units.Bytes(h.Bytes), units.Bytes(h.Used), units.Bytes(h.PeakBytes), units.Plural(h.Events, "event"))}, Table: t})
}

// said is what the program called what is allocated at the peak.
func (s *sheet) said(d *report.Device) {
	t := Table{NoHead: true, Wrap: true, Columns: []Column{figureColumn("", 12), figureColumn("", 7), figureColumn("", 7),
		{Gap: 2}}}
	for i := range d.UserMetadata[:min(len(d.UserMetadata), s.sites)] {
		x := &d.UserMetadata[i]
		t.add(units.Bytes(x.Bytes), units.Percent(x.Bytes, d.AtPeak.AllocatedBytes), units.Count(x.Blocks)+"x", Code(x.Text))
	}
	if len(t.Rows) > 0 {
		s.add(Part{Level: 4, Heading: "User metadata of what is allocated at the peak"})
		s.add(Part{Table: t})
	}
}

// read lists the inputs, all that have a word beside them.
func (s *sheet) read() {
	p := Part{Heading: "Read"}
	p.NoHead, p.Columns = true, words("")
	rest := 0
	for i, in := range s.doc.Inputs {
		if i >= s.inputs && len(in.Damage) == 0 && len(in.Notes) == 0 || i >= 4*s.inputs {
			rest++
			continue
		}
		row := p.Table.add(fmt.Sprintf("%s  (%s, %s)", in.Path, in.Kind, units.Bytes(in.Bytes)))
		for _, u := range in.Unknown {
			row.Notes = append(row.Notes, Fact{"", fmt.Sprintf("unknown key %q in %s, %s, e.g. %.60s", u.Key, cmp.Or(u.Where,
				"the top level"), units.Plural(u.Count, "time"), u.Example)})
		}
		for _, x := range in.Damage {
			row.Notes = append(row.Notes, Fact{"damage: ", x})
		}
		for _, x := range in.Notes {
			row.Notes = append(row.Notes, Fact{"", x})
		}
	}
	p.Rest = more(rest, "file")
	s.add(p)
}

// made is how to make the report again.
func (s *sheet) made() {
	p := Part{Heading: "How this report was made", Level: 3, Rest: more(len(s.doc.Inputs)-s.inputs, "input")}
	if len(s.doc.Command) > 0 {
		quoted := make([]string, len(s.doc.Command))
		for i, w := range s.doc.Command {
			quoted[i] = ShellWord(report.OffMachine(w))
		}
		p.Command = strings.Join(quoted, " ")
	}
	p.Columns = slices.Concat(words("Input", "Kind"), numbers("Size"), words("SHA-256"))
	for _, in := range s.doc.Inputs[:min(len(s.doc.Inputs), s.inputs)] {
		kind := Plain(in.Kind)
		if len(in.Damage) > 0 {
			kind += ", damaged"
		}
		p.Table.add(Code(report.OffMachine(in.Path)), kind, units.Bytes(in.Bytes), Code(in.SHA256))
	}
	s.add(p)
}

// ShellWord quotes a word for a shell where it needs that.
func ShellWord(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./=:,+@%", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(Printable(s), "'", `'\''`) + "'"
}
