package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	vocabulary "github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/report"
)

// How much the short form shows of each.
const (
	shortCategories = 5
	shortChanges    = 4
	shortAlso       = 4
	shortRows       = 8
	barWidth        = 44
)

// short is a report in a screen: what fills the GPU, what to change, who made it, what else
// matters. The verdict stands above.
func (s *sheet) short() {
	shown := Shown(s.doc)
	main := Main(s.doc)
	s.ranks()
	if main >= 0 {
		d := &s.doc.Devices[main]
		s.holds(d, main)
		s.shortChanges(d)
		s.madeBy(d, "MADE BY")
		s.variables(d)
		s.also(d)
	}
	s.deviceList(shown, main)
	s.shortTrends()
	s.shortLogs(main)
	s.comparison(s.doc.Comparison)
	s.lines("SIMULATED", SimulatedLines(s.doc), shortRows)
	s.more(main)
}

// Main is the device to show first: the one that failed, first of all ranks, or that the verdict is about; else the
// fullest. It is -1 without devices.
func Main(doc *report.Document) int {
	if doc.Ranks != nil && doc.Ranks.FirstOOM != nil {
		return doc.Ranks.Rows[doc.Ranks.FirstOOM.Row].Index
	}
	shown, main := Shown(doc), -1
	if a := doc.Verdict.About; a != nil && slices.Contains(shown, a.Device) {
		return a.Device
	}
	for _, i := range shown {
		if main < 0 || cmp.Or(cmp.Compare(min(1, len(doc.Devices[i].OOMs)), min(1, len(doc.Devices[main].OOMs))),
			cmp.Compare(doc.Devices[i].Peaks.Allocated.Bytes, doc.Devices[main].Peaks.Allocated.Bytes)) > 0 {
			main = i
		}
	}
	return main
}

// holds is what fills the device, as bars of one scale, with what was asked for.
func (s *sheet) holds(d *report.Device, index int) {
	_, m, head := shownMoment(d)
	if head = strings.ToUpper(strings.TrimSuffix(head, " of allocated memory")); d.AtEvent != nil {
		head += "  event " + units.Count(evidence.Or(m.Event, 0)) + ", " + units.Size(m.AllocatedBytes) + " allocated"
	}
	if m.AllocatedBytes == 0 {
		return
	}
	p := Part{Heading: s.holdsHead(d, index, m, head), Table: bars(d, m)}
	if x := d.Projection; x != nil && len(x.Missing) > 0 && d.AtEvent == nil {
		p.Rest = "still to come: " + Missing(x, kind)
	}
	s.add(p)
}

// Missing is what was still to come, and what that rests on.
func Missing(x *report.Projection, kind func(string) string) string {
	var parts []string
	for _, k := range x.Missing {
		parts = append(parts, kind(k.Category)+" "+units.Size(k.Bytes))
	}
	return fmt.Sprintf("%s (%s)", strings.Join(parts, ", "), x.Basis)
}

// bars are what a device holds, by kind, with what was asked for and what lies beside it.
func bars(d *report.Device, m *report.Moment) Table {
	whole := max(1, m.AllocatedBytes)
	var failed *report.OOM // at that moment
	if n := len(d.OOMs); n > 0 && d.AtEvent == nil {
		failed = &d.OOMs[n-1]
		whole = max(whole, failed.AllocatedBytes+failed.RequestedBytes)
	}
	t := Table{NoHead: true, Columns: []Column{figureColumn("GPU memory", 9), {Name: "Category", Gap: 1, Width: 16},
		{Gap: 1, Bar: true}}}
	names, rest, others := largestCategories(m)
	for _, name := range names {
		t.add(units.Size(m.Categories[name]), kind(name), Bar(m.Categories[name], whole, barWidth))
	}
	if rest*200 > whole {
		t.add(units.Size(rest), units.Plural(others, "other kind"), Bar(rest, whole, barWidth))
	}
	if failed != nil {
		t.add(units.Size(failed.RequestedBytes), "asked for", strings.Repeat("▒", int(max(1,
			failed.RequestedBytes*barWidth/whole))))
	}
	for i, part := range Besides(m) {
		if bytes := evidence.Or(part, 0); bytes > whole/50 {
			t.add(units.Size(bytes), Beside[i])
		}
	}
	return t
}

// holdsHead says of when the bars are, and where a request failed, of how much.
func (s *sheet) holdsHead(d *report.Device, index int, m *report.Moment, head string) string {
	if len(s.doc.Devices) > 1 {
		words, file, in := strings.Cut(deviceTitle(s.doc, index), " in ")
		if words = strings.ToUpper(words); in {
			words += " IN " + file // a name stays as it is
		}
		head = words + " " + head
	}
	about := s.doc.Verdict.About
	switch {
	case d.AtEvent != nil:
	case len(d.OOMs) > 0:
		head += fmt.Sprintf("  %s allocated, %s reserved", units.Size(m.AllocatedBytes), units.Size(m.ReservedBytes))
		if d.CapacityBytes != nil {
			head += ", of " + units.Size(*d.CapacityBytes)
		}
	case about != nil && about.Finding >= 0: // else the verdict says it
		head += fmt.Sprintf("  %s allocated", units.Size(m.AllocatedBytes))
	}
	return head
}

// kind is a category in a table or a sentence.
func kind(category string) string {
	if category == budget.KVCache.String() {
		return report.CategoryTitle(category)
	}
	return Plain(category)
}

// largestCategories are the categories worth a line, the largest first, and the sum of the
// rest.
func largestCategories(m *report.Moment) (names []string, rest int64, others int) {
	for _, name := range report.Shown {
		if m.Categories[name] > 0 {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return int(m.Categories[b]>>10 - m.Categories[a]>>10) })
	cut := len(names)
	for cut > 0 && (cut > shortCategories || m.Categories[names[cut-1]]*200 < m.AllocatedBytes) {
		cut--
		rest += m.Categories[names[cut]]
		others++
	}
	return names[:cut], rest, others
}

// shortChanges are what to change, with the peak that comes of it and whether it fits.
func (s *sheet) shortChanges(d *report.Device) {
	failed := len(d.OOMs) > 0
	t := Table{NoHead: true, Wrap: true, Columns: []Column{figureColumn("", 3), {Gap: 1}}}
	rows, rest := d.Priced()
	for i, c := range rows[:min(len(rows), shortChanges)] {
		row := t.add(fmt.Sprint(i+1), units.Rounded(c.Text)+Effect(c, failed))
		if i > 0 {
			continue
		}
		if c.Code != "" && s.doc.Verdict.Severity != report.Info {
			for _, line := range codeLines(c.Code) {
				row.Notes = append(row.Notes, Fact{"   | ", line})
			}
		}
		row.Notes = append(row.Notes, s.source(c.At)...)
	}
	if len(rows) == 0 && rest == "" {
		return
	}
	if failed {
		rest = SettingsText(d, s.doc.Trials)
	}
	s.add(Part{Heading: "CHANGE", Table: t, Rest: rest})
	s.changes = true
}

// isSetting reports whether a change is of the allocator's settings alone.
func isSetting(c *report.Change) bool { return c.FixID != nil && strings.Contains(*c.FixID, ":") }

// Effect is what comes of a change: the peak, and whether the run goes through.
func Effect(c *report.Change, failed bool) string {
	what := "peak "
	if c.Reserved {
		what = "reserved "
	}
	text := list(when(c.Saves() > 0, what+c.Falls()), when(failed, answers[c.Answer]))
	return when(text != "", " ("+text+")")
}

// answers are what becomes of a run that failed.
var answers = map[vocabulary.Answer]string{vocabulary.Fits: "fits", vocabulary.Fails: "doesn't fit",
	vocabulary.Meets:          "the failed request fits; what follows isn't recorded",
	vocabulary.MeetsThenFails: "the failed request fits, what follows doesn't"}

// SettingsText says of a failed run what became of it under all settings of the allocator that were replayed, "" where one
// of them is among the changes.
func SettingsText(d *report.Device, x *report.Trials) string {
	if n := len(d.OOMs); n > 0 && d.OOMs[n-1].Verdict != report.TrueShortage && d.OOMs[n-1].Verdict != report.Fragmentation {
		return "" // other settings meet no limit, and leave other processes alone
	}
	if x == nil || slices.ContainsFunc(d.Changes, func(c report.Change) bool { return isSetting(&c) }) {
		return ""
	}
	text := "no allocator setting meets the request (replayed)"
	for i := range x.Rows {
		switch r := &x.Rows[i]; {
		case r.Settings == "":
		case r.Answer == vocabulary.Meets || r.Answer == vocabulary.Fits:
			return fmt.Sprintf("%s would have met the request (replayed); %s", r.Settings,
				map[bool]string{true: "the run goes on", false: "what follows isn't recorded"}[r.Answer == vocabulary.Fits])
		case r.Answer == vocabulary.MeetsThenFails:
			text = "no allocator setting carries the run through (replayed): " + r.Settings + " meets the request, " +
				"what follows doesn't fit"
		}
	}
	return text
}

// source is the line of code that a change is about, with those around it.
func (s *sheet) source(p *report.Place) (out []Fact) {
	for _, x := range s.code(p, 3) {
		mark := when(x.Number == evidence.Or(p.Line, -1), ">")
		out = append(out, Fact{fmt.Sprintf("%1s %4d  ", mark, x.Number), x.Text})
	}
	return out
}

// code is a line of code with so many around it, where the program's text is at hand.
func (s *sheet) code(p *report.Place, around int) []report.SourceLine {
	if s.doc.Source == nil || p == nil {
		return nil
	}
	return s.doc.Source(p, around)
}

// codeLines are the first lines of code to paste.
func codeLines(code string) []string {
	const most, wide = 3, 72
	lines := strings.Split(strings.TrimRight(code, "\n"), "\n")
	lines = lines[:min(len(lines), most)]
	for i, line := range lines {
		if bare, _, found := strings.Cut(line, "  #"); found && len(line) > wide {
			lines[i] = strings.TrimRight(bare, " ")
		}
	}
	return lines
}

// madeBy are the call sites that hold most.
func (s *sheet) madeBy(d *report.Device, heading string) {
	sites, m, _ := shownMoment(d)
	t := Table{NoHead: true, Wrap: true, Columns: []Column{figureColumn("GPU memory", 9), {Name: "Category", Gap: 1, Width: 16},
		{Name: "Made by", Gap: 1}}}
	most := s.sites
	if !s.brief {
		most = 5 // above what is folded
	}
	for _, r := range heldBy(sites, most) {
		if r.bytes*100 >= m.AllocatedBytes {
			row := t.add(units.Size(r.bytes), r.category, Code(r.site))
			for _, x := range s.code(r.at, 0) {
				row.Notes = append(row.Notes, Fact{strings.Repeat(" ", 24) + "| ", strings.TrimSpace(x.Text)})
			}
		}
	}
	if slices.ContainsFunc(sites, func(x report.Site) bool { return !x.Older }) { // else it says nothing
		s.table(heading, 4, t, "")
	}
}

// variables are those that hold most at the dump, of what has no name as a part of the model.
func (s *sheet) variables(d *report.Device) {
	t := Table{NoHead: true, Wrap: true, Columns: []Column{figureColumn("", 9), {Gap: 1}}}
	for i := range d.Holders[:min(len(d.Holders), s.sites)] {
		h := &d.Holders[i]
		if n := h.Bytes + h.GraphBytes; n*100 >= d.AtEnd.AllocatedBytes {
			t.add(units.Size(n), cell(Code(h.Path), "  ", holds(h)))
		}
	}
	s.table("VARIABLES", 4, t, "")
}

// holds says what a variable keeps alive.
func holds(h *report.Holder) string {
	cycle := when(h.Cycle, ", in reference cycles")
	switch {
	case h.Tensors == 0:
		return "the graph behind it" + cycle
	case h.IsPart():
		return units.Plural(h.Tensors, "tensor") + ", views that show " + units.Size(*h.ShownBytes) + cycle
	case h.GraphBytes == 0:
		return units.Plural(h.Tensors, "tensor") + cycle
	}
	return fmt.Sprintf("%s; %s in the graphs behind%s", units.Plural(h.Tensors, "tensor"), units.Size(h.GraphBytes), cycle)
}

// held is what call sites on one line hold of a category.
type held struct {
	category, site string
	bytes          int64
	at             *report.Place
}

// heldBy are so many of them, most bytes first.
func heldBy(sites []report.Site, most int) []held {
	index, rows := map[[2]string]int{}, []held{}
	for i := range sites {
		x := &sites[i]
		r := held{kind(x.CategoryWord()), shortSite(x), x.Bytes, x.CalledFrom}
		if r.at == nil {
			r.at = &report.Place{Function: x.Function, File: x.File, Line: x.Line}
		}
		key := [2]string{r.category, r.site}
		if at, ok := index[key]; ok {
			rows[at].bytes += r.bytes
			continue
		}
		index[key] = len(rows)
		rows = append(rows, r)
	}
	slices.SortStableFunc(rows, func(a, b held) int { return cmp.Compare(b.bytes, a.bytes) })
	return rows[:min(len(rows), most)]
}

// shortSite is a call site by its line and the user's that led there.
func shortSite(x *report.Site) string {
	if x.Function == "" && x.Op == "" {
		return "(" + siteName(x) + ")"
	}
	if x.Function == "" {
		return x.Op
	}
	out := x.Function + " " + baseName(x.File, x.Line)
	if x.CalledFrom != nil {
		out += " ← " + baseName(x.CalledFrom.File, x.CalledFrom.Line)
	}
	return out
}

// baseName is a file's name without its folders, and the line.
func baseName(file string, line *int) string {
	short := report.ShortPlace(file, line)
	return short[strings.LastIndexByte(short, '/')+1:]
}

// also are further findings that are worth a change, or say how far the rest can be trusted.
func (s *sheet) also(d *report.Device) {
	told := map[int]bool{}
	if a := s.doc.Verdict.About; a != nil && a.Finding >= 0 && &s.doc.Devices[max(a.Device, 0)] == d {
		told[a.Finding] = true
	}
	changed := map[string]bool{}
	for i := range d.Changes {
		told[d.Changes[i].Finding] = true
		changed[text(d.Changes[i].FixID)] = true
	}
	var lines []string
	for i := range d.Findings {
		if f := &d.Findings[i]; !told[i] && !changed[text(f.FixID)] && worthALine(d, f) {
			lines = append(lines, units.Rounded(f.Title))
		}
	}
	for i := range s.doc.Findings {
		if f := &s.doc.Findings[i]; f.Severity != report.Info && !strings.HasPrefix(f.ID, "oom_") {
			lines = append(lines, units.Rounded(f.Title))
		}
	}
	s.lines("ALSO", lines, shortAlso)
}

// worthALine reports whether a finding matters, or says how far the rest can be trusted; that
// there is no history is the verdict already.
func worthALine(d *report.Device, f *report.Finding) bool {
	if strings.HasPrefix(f.ID, "recording_") {
		return d.History != "none"
	}
	return f.Severity != report.Info || f.ID == "damage" || f.ID == "recipe_contradicted"
}

// lines is a part of some lines, of which the first are shown.
func (s *sheet) lines(heading string, lines []string, most int) {
	if len(lines) > 0 {
		s.add(Part{Heading: heading, Text: lines[:min(len(lines), most)], Rest: more(len(lines)-most, "")})
	}
}

// shortTrends are what several dumps of a process show, a line each.
func (s *sheet) shortTrends() {
	var trends []string
	for _, x := range shownTrends(s.doc, s.trim.trends) {
		if x.Text != "" {
			trends = append(trends, trendTitle(x)+": "+units.Rounded(x.Text))
		}
	}
	s.lines("DUMPS", trends, shortAlso)
}

// shortLogs is what logs, monitors and traces say: all of it where there is no recording.
func (s *sheet) shortLogs(main int) {
	if main >= 0 {
		return
	}
	s.lines("SAID", s.beyond(), shortRows)
	before := len(s.parts)
	s.evidenceFacts()
	for _, p := range s.parts[before:] {
		for i := range p.Facts {
			p.Facts[i].Text = units.Rounded(p.Facts[i].Text)
		}
	}
}

// beyond is what logs, monitors and traces say beyond the verdict.
func (s *sheet) beyond() (lines []string) {
	told := -1
	if a := s.doc.Verdict.About; a != nil && a.Device < 0 {
		told = max(a.Finding, 0)
	}
	for i := range s.doc.Findings {
		f := &s.doc.Findings[i]
		if i != told && (i > 0 || told < 0) {
			lines = append(lines, units.Rounded(f.Title))
		} else {
			for _, e := range f.Evidence[:min(len(f.Evidence), shortAlso)] {
				lines = append(lines, units.Rounded(e))
			}
		}
	}
	return lines
}

// more is how the recording was made, and how to see the rest.
func (s *sheet) more(main int) {
	p := Part{Bare: true, Text: []string{simulatedCard(s.doc)}}
	if main >= 0 {
		d := &s.doc.Devices[main]
		in := &s.doc.Inputs[d.Input]
		torch := strings.Replace(strings.TrimSuffix(era(in), " style"), "PyTorch ", "torch ", 1)
		if t := s.doc.Environment.Torch; t != nil && *t >= "0" && *t < ":" { // a version, not what the file's form tells
			torch = "torch " + *t
		}
		p.Text = append(p.Text, list(torch, units.Plural(d.Events, "event"), Stacks[d.Stacks], Histories[d.History]))
	}
	if !s.web {
		p.Text = append(p.Text, "more: -v   page: -o report.html   ticket: -o report.md")
	}
	if p.Text = said(p.Text...); len(p.Text) > 0 {
		s.add(p)
	}
	var notes []string
	for _, in := range s.doc.Inputs {
		for _, x := range in.Damage {
			notes = append(notes, report.ShortFile(in.Path)+": damage: "+x)
		}
		for _, x := range in.Notes {
			notes = append(notes, report.ShortFile(in.Path)+": "+x)
		}
	}
	s.lines("", notes, shortAlso)
}
