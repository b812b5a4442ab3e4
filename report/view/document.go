package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// trim is how much of a report an edition shows.
type trim struct {
	sites, ooms, pins, findings, evidence, leaks, gpus, groups, dumps, trends, messages, inputs, devices int

	page bool // draws curves, and has devices to choose from
}

const all = 1 << 30

// screen is how much a screen shows.
var screen = trim{sites: 5, gpus: 6, trends: 3, messages: 3, groups: 8, inputs: 3}

var trims = [...]trim{
	Terminal: {sites: 12, ooms: 3, pins: 5, findings: all, evidence: all, gpus: 8, groups: 12, dumps: 12, trends: 3, messages: 5,
		inputs: 24, devices: 16},
	Ticket: {sites: 10, ooms: 5, findings: 8, evidence: 3, leaks: 5, gpus: 8, groups: 10, dumps: 10, trends: 3, messages: 5,
		inputs: 20, devices: 8},
	Brief: screen, Web: screen,
}

// sheet is a document's sheet while it is made.
type sheet struct {
	doc *report.Document
	Edition
	trim
	parts   []Part
	changes bool // they tell of the verdict's change
	brief   bool // it's a screen of it
	web     bool // who reads has buttons instead of flags
}

// Document is a report as a sheet.
func Document(doc *report.Document, e Edition) *Sheet {
	s := &sheet{doc: doc, Edition: e, trim: trims[e]}
	if doc.Top > 0 {
		s.sites = doc.Top
	}
	if e == Brief || e == Web {
		s.Edition, s.brief, s.web = Terminal, true, e == Web
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
	s.host(doc.Host)
	s.made()
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

// add adds a part that says anything; facts without a text are none.
func (s *sheet) add(p Part) {
	p.Facts = slices.DeleteFunc(p.Facts, func(f Fact) bool { return f.Text == "" })
	if p.Heading != "" || p.Bare || p.said() > 0 {
		s.parts = append(s.parts, p)
	}
}

// device is one device of the recording.
func (s *sheet) device(index int) {
	d := &s.doc.Devices[index]
	s.add(Part{Heading: deviceTitle(s.doc, index), Level: 3})
	s.add(Part{Table: s.figures(d)})
	if s.Edition == Terminal && d.History != "none" {
		s.add(Part{Plot: d})
	}
	s.failures(d)
	s.held(d)
	s.said(d)
	s.variables(d)
	s.segments(d)
	s.findings("Findings", d.Findings)
	s.leaks(d.Leaks)
}

// figures are the key figures of a device, each with its name: "peak" alone means four different things.
func (s *sheet) figures(d *report.Device) Table {
	t := Table{NoHead: true, Wrap: true, Columns: []Column{{}, figureColumn("", 12), {Gap: 2}}}
	add := func(name, value, note string) {
		if value != "" {
			t.add(name, value, note)
		}
	}
	peak := func(name string, p report.Peak, notes ...string) {
		share := ""
		if d.CapacityBytes != nil {
			share = units.Percent(p.Bytes, *d.CapacityBytes) + " of capacity"
		}
		add("Peak "+name, s.size(p.Bytes), list(append([]string{share, atEvent(d, p.Event)}, notes...)...))
	}
	if d.History != "none" || s.page {
		peak("allocated", d.Peaks.Allocated, when(d.Before(), "before the recording it may have been more"))
		peak("reserved", d.Peaks.Reserved)
		add("Peak requested", s.size(d.Peaks.Requested.Bytes), "what the program asked for, until really freed")
		if d.Peaks.Active.Bytes != d.Peaks.Allocated.Bytes && !s.page {
			peak("active", d.Peaks.Active, "with blocks whose free is pending")
		}
	}
	if note := CapacityNote(d); d.CapacityBytes != nil {
		add("Capacity", s.size(*d.CapacityBytes), note)
	} else if note != "" {
		add("Capacity", "?", note)
	}
	if lacks := Lacks(&d.AtPeak); lacks != "" {
		add("Free in the cache at the peak", "none", lacks)
	} else if d.AtPeak.ReservedBytes > 0 {
		add("Free in the cache at the peak", s.size(d.AtPeak.CacheBytes), units.Percent(d.AtPeak.CacheBytes,
			d.AtPeak.ReservedBytes)+" of what was reserved")
	}
	add(outside(d, s.size))
	recorded := []string{units.Plural(d.Allocations, "allocation"), Histories[d.History], Stacks[d.Stacks], duration(d)}
	if n := len(d.Steps) + d.StepsLeftOut; n > 0 && !s.page {
		recorded = append(recorded, units.Plural(n, "step"))
	}
	if !s.page {
		recorded = append(recorded, era(&s.doc.Inputs[d.Input]), d.HistoryReason)
	}
	add("Recorded", units.Plural(d.Events, "event"), list(recorded...))
	return t
}

// size is one for people: of three digits in a picture's words, of more in tables.
func (s *sheet) size(n int64) string {
	if s.page {
		return units.Size(n)
	}
	return units.Bytes(n)
}

// outside is what the GPU holds outside of PyTorch's allocator, where anything tells.
func outside(d *report.Device, size func(int64) string) (name, value, note string) {
	var sum int64
	var told []string
	parts := Besides(&d.AtPeak)
	for i := range parts {
		if bytes := evidence.Or(parts[i], 0); bytes > 0 {
			sum += bytes
			told = append(told, units.Size(bytes)+" "+Outsiders[i])
		}
	}
	if parts != [...]*int64{nil, nil, nil} {
		return "Outside PyTorch", size(sum), list(told...)
	}
	if bytes, ok := Outside(d); ok {
		return "Outside PyTorch", size(bytes), "CUDA context, libraries and other processes when the request failed"
	}
	return "", "", ""
}

// Outside is what others held when a request failed.
func Outside(d *report.Device) (int64, bool) {
	if n := len(d.OOMs); n > 0 && d.CapacityBytes != nil && evidence.Or(d.CapacitySource, "oom_entry") != "oom_entry" &&
		d.OOMs[n-1].DeviceFreeBytes != nil {
		o := &d.OOMs[n-1]
		rest := *d.CapacityBytes - o.ReservedBytes - *o.DeviceFreeBytes
		return rest, rest >= 0
	}
	return 0, false
}

// duration is how long the recording ran, where it has a clock.
func duration(d *report.Device) string {
	if d.FirstTime == nil || d.LastTime == nil || *d.LastTime < *d.FirstTime {
		return ""
	}
	return "over " + units.Duration(float64(*d.LastTime-*d.FirstTime)/1e6)
}

// failures are the requests that failed, with what kept free memory from them.
func (s *sheet) failures(d *report.Device) {
	for i := range d.OOMs[:min(len(d.OOMs), s.ooms)] {
		o := &d.OOMs[i]
		s.add(Part{Heading: fmt.Sprintf("Request failed at event %s (%s)", units.Count(o.Event), Plain(o.Verdict)), Level: 4,
			Facts: failureFacts(o, 0)})
		t := Table{Wrap: true, Columns: []Column{figureColumn("Pinned by", 12), {Name: "Address", Gap: 1},
			{Name: "Made by", Gap: 1}}}
		for _, p := range o.PinnedBy[:min(len(o.PinnedBy), s.pins)] {
			where := "no stack"
			if p.Function != nil {
				where = place(*p.Function, text(p.File), p.Line)
			}
			t.add(units.Bytes(p.Bytes), Code(fmt.Sprintf("%#x", p.Address)), Code(where))
		}
		s.add(Part{Table: t})
	}
	s.add(Part{Rest: more(d.Failed()-min(len(d.OOMs), s.ooms), "failed request")})
}

// failureFacts are what a request met that failed; pending is what was given back and not free yet.
func failureFacts(o *report.OOM, pending int64) []Fact {
	asked := units.Bytes(o.RequestedBytes)
	if o.Site != nil {
		asked += " by " + siteCell(o.Site).String()
	}
	missing := evidence.Or(o.MissingBytes, 0)
	return []Fact{{"asked for", list(asked, inPhase(o.Phase))},
		{"allocated", fmt.Sprintf("%s of %s reserved", units.Bytes(o.AllocatedBytes), units.Bytes(o.ReservedBytes))},
		{"free", fmt.Sprintf("%s in the cache, the largest block %s; %s on the device",
			units.Bytes(o.ReservedBytes-o.AllocatedBytes-pending), Known(o.LargestFreeBlock), Known(o.DeviceFreeBytes))},
		{"pending", when(pending > 0, units.Bytes(pending)+" were given back, but a stream may still use them")},
		{"missing", when(missing > 0, units.Bytes(missing))}}
}

func inPhase(phase *string) string {
	if phase == nil {
		return ""
	}
	return "in " + cmp.Or(report.PhaseText[*phase], Plain(*phase))
}

// table is a part that is nothing without rows.
func (s *sheet) table(heading string, level int, t Table, rest string) {
	if len(t.Rows) > 0 {
		s.add(Part{Heading: heading, Level: level, Table: t, Rest: rest})
	}
}

// held is what was alive at the moment that matters, by category and by call site.
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
		units.Plural(m.Blocks, "block"), units.Bytes(m.ReservedBytes), free), Table: s.categories(m, &d.AtEnd)})
	rest := report.Site{}
	for i := min(len(sites), s.sites); i < len(sites); i++ {
		rest.Bytes, rest.Blocks = rest.Bytes+sites[i].Bytes, rest.Blocks+sites[i].Blocks
	}
	t := siteTable(sites[:min(len(sites), s.sites)], m.AllocatedBytes)
	if n := len(sites) - s.sites; n > 0 {
		t.add(units.Bytes(rest.Bytes), units.Percent(rest.Bytes, m.AllocatedBytes), units.Count(rest.Blocks)+"x", "",
			"in "+units.Plural(n, "other call site"))
	}
	s.add(Part{Table: t})
}

// siteTable are call sites with what they hold of so many bytes.
func siteTable(sites []report.Site, whole int64) Table {
	t := Table{Wrap: true, Columns: []Column{figureColumn("Bytes", 12), figureColumn("Share", 7), figureColumn("Blocks", 7),
		{Name: "Category", Gap: 2, Width: 15}, {Name: "Held by", Gap: 1, Leads: true}}}
	for i := range sites {
		x := &sites[i]
		row := t.add(units.Bytes(x.Bytes), units.Percent(x.Bytes, whole), units.Count(x.Blocks)+"x", kind(x.CategoryWord()),
			siteCell(x))
		row.Category = text(x.Category)
	}
	return t
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

// categories say what the memory was for, then and at the end, and what the GPU holds besides.
func (s *sheet) categories(m, end *report.Moment) Table {
	t := Table{Columns: []Column{{Name: "Category"}, figureColumn("Bytes", 12), figureColumn("Share", 8),
		figureColumn("At the end", 13), {Gap: 1, Bar: true}}}
	if s.page {
		t.Columns[1].Name = "At the peak"
	}
	add := func(name string, bytes, end int64, category string) {
		if bytes > 0 || end > 0 {
			t.add(name, units.Bytes(bytes), units.Percent(bytes, m.AllocatedBytes), units.Bytes(end),
				Bar(bytes, m.AllocatedBytes, 20)).Category = category
		}
	}
	if len(m.Categories) > 0 {
		names := slices.Clone(report.Shown)
		slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(m.Categories[b], m.Categories[a]) })
		for _, name := range names {
			add(report.CategoryTitle(name), m.Categories[name], end.Categories[name], name)
		}
	}
	t.add("Allocated", units.Bytes(m.AllocatedBytes), "", units.Bytes(end.AllocatedBytes))
	t.add("Cache (reserved, not allocated)", cache(m), "", cache(end)).Category = "cache"
	at := Besides(end)
	for i, bytes := range Besides(m) {
		if bytes != nil && *bytes > 0 {
			t.add(Beside[i], units.Bytes(*bytes), "", or(at[i], ""))
		}
	}
	return t
}

// cache is what is reserved and not allocated.
func cache(m *report.Moment) string {
	if lacks := Lacks(m); lacks != "" {
		return "none: " + lacks
	}
	return units.Bytes(m.CacheBytes)
}

// segments are how the memory lies at the end.
func (s *sheet) segments(d *report.Device) {
	x := &d.Segments
	if x.Count == 0 {
		return
	}
	told := []string{fmt.Sprintf("%s, %s reserved, %s of it free%s", units.Plural(x.Count, "segment"), units.Bytes(x.Bytes),
		units.Bytes(x.FreeBytes), when(x.Expandable > 0, fmt.Sprintf(", %d of them expandable", x.Expandable)))}
	if x.Empty > 0 {
		told = append(told, units.Bytes(x.EmptyBytes)+" in "+units.Plural(x.Empty, "empty segment")+
			when(len(d.OOMs) == 0, " that torch.cuda.empty_cache() would return"))
	}
	if x.PinnedSegments > 0 {
		told = append(told, units.Bytes(x.PinnedFreeBytes)+" in "+units.Plural(x.PinnedSegments, "segment")+
			" mostly free but pinned by a live block")
	}
	s.add(Part{Heading: "Segments at the end", Level: 4, Text: []string{strings.Join(told, "; ") + ". Largest free block " +
		units.Bytes(x.LargestFree) + "." + when(len(d.OOMs) > 0, " This is what was left after the failed request.")}})
	t := Table{Columns: slices.Concat([]Column{{Name: "Private pool"}, {Name: "Kind", Gap: 1}}, numbers("Segments", "Reserved",
		"In use", "Free, for this pool alone"))}
	for _, p := range report.LargestPools(d.Pools) {
		t.add(p.Pool, cmp.Or(poolKinds[p.Kind], Plain(p.Kind)), units.Count(p.Segments), units.Bytes(p.Bytes),
			units.Bytes(p.Used), units.Bytes(p.Bytes-p.Used))
	}
	s.add(Part{Table: t})
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
		x := findingOf(&findings[i], s.evidence)
		if !code[x.Code] || s.page {
			code[x.Code] = true
		} else {
			x.Code = ""
		}
		p.Findings = append(p.Findings, x)
	}
	s.add(p)
}

// findingOf is a finding with so many lines of its evidence.
func findingOf(f *report.Finding, evidence int) Finding {
	x := Finding{Severity: f.Severity, Title: f.Title, Evidence: f.Evidence[:min(len(f.Evidence), evidence)],
		Rest: more(len(f.Evidence)-evidence, "line"), Code: f.Code, Gain: Gain(f)}
	if f.Fix != nil {
		x.Change = *f.Fix
	}
	if f.Confidence < 0.9 {
		x.Sure = fmt.Sprintf("Not certain: confidence %.0f %%.", 100*f.Confidence)
	}
	return x
}

func (s *sheet) leaks(leaks []report.Leak) {
	p := Part{Heading: "Growth and leaks", Level: 4, Rest: more(len(leaks)-s.trim.leaks, "")}
	for i := range leaks[:min(len(leaks), s.trim.leaks)] {
		p.Findings = append(p.Findings, leakOf(&leaks[i]))
	}
	if len(p.Findings) > 0 {
		s.add(p)
	}
}

// leakOf is a leak as a finding.
func leakOf(l *report.Leak) Finding {
	x := Finding{Severity: report.Critical, Tag: "leak", Title: Plain(l.Kind), Change: l.Fix}
	switch {
	case !l.Defect:
		x.Severity, x.Tag = report.Info, "no leak"
	case l.Suspected:
		x.Tag = "suspected leak"
	}
	if l.File != nil {
		x.Title += ": " + place(text(l.Function), *l.File, l.Line)
	}
	held := cmp.Or(map[string]string{"varying_shapes": " apart", "fragmentation_creep": " in pieces"}[l.Kind], " held")
	if l.BytesPerStep != nil && (l.Kind == "growing_list" || l.Kind == "retained_graph") {
		x.Title += ", " + units.Bytes(*l.BytesPerStep) + " a step"
	}
	category := ""
	if l.Category != nil {
		category = report.CategoryTitle(*l.Category)
	}
	x.Evidence = []string{list(units.Bytes(l.TotalBytes)+held+" over "+units.Plural(l.Steps, "step"), category,
		fmt.Sprintf("confidence %.0f %%", 100*l.Confidence))}
	if l.FullAtStep != nil {
		x.Evidence[0] += fmt.Sprintf("; at this rate the GPU is full at step %s", units.Count(*l.FullAtStep))
	}
	for i, p := range []*report.Place{l.MadeIn, l.CalledFrom} {
		if p != nil {
			x.Evidence = append(x.Evidence, [...]string{"made in ", "called from "}[i]+place(p.Function, p.File, p.Line))
		}
	}
	for _, site := range l.Sites {
		x.Evidence = append(x.Evidence, place(site.Function, site.File, site.Line)+"  "+units.Bytes(site.Bytes))
	}
	return x
}

// trials are what other settings would have done.
func (s *sheet) trials(x *report.Trials) {
	if x == nil {
		return
	}
	t := Table{Wrap: true, Columns: []Column{textColumn("Setting or change", 28), figureColumn("Peak reserved", 14),
		figureColumn("Peak allocated", 14), {Name: "Outcome", Gap: 2}}}
	for _, r := range x.Rows {
		least := when(r.AtLeast, "≥ ")
		t.Columns[0].Width = max(t.Columns[0].Width, min(width(r.Name), 40))
		t.add(Code(r.Name), least+units.Bytes(r.PeakReserved), least+units.Bytes(r.PeakAllocated), r.Outcome)
	}
	s.add(Part{Heading: fmt.Sprintf("The same requests under other settings (device %d, replayed)", x.Device), Level: 3,
		Text: []string{x.Verdict}})
	s.add(Part{Table: t})
}

// comparison is what was measured beside the budget: of a screen, the peak and where they differ.
func (s *sheet) comparison(c *report.Comparison) {
	if c == nil {
		return
	}
	t := Table{Wrap: true, Columns: []Column{textColumn("Of the peak, by phase, by category", 22), figureColumn("Budget", 12),
		figureColumn("Measured", 12), figureColumn("Difference", 13), {Name: "Reason", Gap: 1}}}
	rows := slices.Concat([]report.Compared{c.Peak}, c.Phases, c.Categories)
	if s.brief {
		rows = append([]report.Compared{c.Peak}, c.Categories[:min(len(c.Categories), shortCategories)]...)
	}
	for i, x := range rows {
		measured, difference, same := "not in the recording", "", false
		if x.Measured != nil {
			d := *x.Measured - x.Budget
			measured, difference, same = units.Bytes(*x.Measured), units.Signed(d), 200*max(d, -d) < c.Peak.Budget
		}
		if same {
			difference = "same"
		}
		if !s.brief || i == 0 || x.Measured != nil && !same {
			t.add(Plain(cmp.Or(phaseTitles[x.Name], x.Name)), units.Bytes(x.Budget), measured, difference, text(x.Reason))
		}
	}
	p := Part{Level: 3, Table: t,
		Heading: fmt.Sprintf("Against the budget of %s (device %d, requested bytes)", c.Model, c.Device)}
	if s.brief {
		p.Heading = "BUDGET  " + c.Model
	} else if len(c.Inferred) > 0 {
		p.Facts = []Fact{{"as recorded", "which a flag overrides:"}}
		for _, x := range c.Inferred {
			p.Facts = append(p.Facts, Fact{"", x})
		}
	}
	s.add(p)
}

// phaseTitles say what a budget's phases are called where they are measured.
var phaseTitles = map[string]string{budget.Loss.String(): "forward and loss"}

func (s *sheet) host(h *report.HostMemory) {
	if h == nil {
		return
	}
	s.add(Part{Heading: "Pinned host memory", Level: 3, Text: []string{fmt.Sprintf(
		"%s in use of %s in %s at the end; at most %s in %s over %s.", units.Bytes(h.Used), units.Bytes(h.Bytes),
		units.Plural(h.Segments, "segment"), units.Bytes(h.PeakBytes), units.Plural(h.Allocations, "allocation"),
		units.Plural(h.Events, "event"))}, Table: siteTable(h.Sites[:min(len(h.Sites), s.sites)], h.PeakBytes)})
}

// said is what the program called what is allocated at the peak.
func (s *sheet) said(d *report.Device) {
	t := Table{NoHead: true, Wrap: true, Columns: []Column{figureColumn("", 12), figureColumn("", 7), figureColumn("", 7),
		{Gap: 2}}}
	for i := range d.UserMetadata[:min(len(d.UserMetadata), s.sites)] {
		x := &d.UserMetadata[i]
		t.add(units.Bytes(x.Bytes), units.Percent(x.Bytes, d.AtPeak.AllocatedBytes), times(x.Blocks), Code(x.Text))
	}
	s.table("User metadata of what is allocated at the peak", 4, t, "")
}

// made is how to make the report again, and how far it can be trusted.
func (s *sheet) made() {
	p := Part{Heading: "How this report was made", Level: 3, Rest: more(len(s.doc.Inputs)-s.inputs, "input")}
	if len(s.doc.Command) > 0 && s.Edition != Terminal {
		quoted := make([]string, len(s.doc.Command))
		for i, w := range s.doc.Command {
			quoted[i] = ShellWord(report.OffMachine(w))
		}
		p.Command = strings.Join(quoted, " ")
	}
	p.Columns = slices.Concat(words("Input", "Kind"), numbers("Size"), words("Written by", "SHA-256"))
	p.Columns[4].Paper = true
	for _, in := range s.doc.Inputs[:min(len(s.doc.Inputs), s.inputs)] {
		p.Table.add(Code(s.pathOf(&in)), Plain(in.Kind)+when(in.Partial, " (cut off)"), units.Bytes(in.Bytes), text(in.Era),
			Code(in.SHA256))
	}
	s.add(p)
	s.add(Part{Text: s.trust(), List: true})
}

// pathOf names an input, on paper without the folders of a machine.
func (s *sheet) pathOf(in *report.Input) string {
	if s.Edition == Terminal {
		return in.Path
	}
	return report.OffMachine(in.Path)
}

// trust says what is uncertain.
func (s *sheet) trust() (lines []string) {
	for _, i := range shownOf(s.doc, s.devices) {
		d := &s.doc.Devices[i]
		line := fmt.Sprintf("Device %d: %s. Capacity %s.%s", d.Device, list(Histories[d.History], d.HistoryReason),
			cmp.Or(Plain(given("from %s", d.CapacitySource)), "unknown"),
			when(d.Older > 0, fmt.Sprintf(" %s older than the recording.", units.Plural(d.Older, "block"))))
		lines = append(append(lines, line), d.Damage...)
	}
	for i := range s.doc.Inputs {
		in := &s.doc.Inputs[i]
		for _, x := range in.Damage {
			lines = append(lines, s.pathOf(in)+": damage: "+strings.TrimPrefix(x, in.Path+": "))
		}
		for _, u := range in.Unknown {
			lines = append(lines, fmt.Sprintf("%s: unknown key %q in %s, %s, e.g. %.60s", s.pathOf(in), u.Key,
				cmp.Or(u.Where, "the top level"), units.Plural(u.Count, "time"), u.Example))
		}
		for _, x := range in.Notes {
			lines = append(lines, s.pathOf(in)+": "+x)
		}
	}
	return lines[:min(len(lines), 4*s.inputs)]
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
