package view

import (
	"strings"

	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// Page is what a report's page says in words and tables; pictures stand between them.
type Page struct {
	Ranks, List, Trends, Findings, Host, Said, Made []Part
	Devices                                         []OfDevice // those that are Shown
	More                                            string     // how many devices aren't, "" for none

	Above     string   // the verdict: that the GPU was simulated
	Simulated []string // what the answer of such a GPU rests on
	Effect    string   // what comes of the verdict's change
	Where     []string // on what the run ran
}

// OfDevice is what it says of a device.
type OfDevice struct {
	Proof   Part     // of the verdict; without bars: nothing is known
	Gaps    []string // what the recording can't show
	Figures []Row    // names, values and notes
	Changes *Part    // each with its code, and what became of a failed run under other settings; nil: none

	Categories, Failures, Findings, Leaks, Budget, Trials, Segments, Said, Variables []Part
}

// OnPage is a report's sheet for a page, which is longer than others.
func OnPage(doc *report.Document) *Page {
	s := &sheet{doc: doc, Edition: Ticket, trim: trim{sites: 100, ooms: 100, pins: 100, findings: all, evidence: all, leaks: all,
		gpus: 64, messages: 100, inputs: 100, devices: mostDevices, groups: 64, trends: 16, dumps: 64, page: true}}
	p := &Page{Ranks: s.all(s.ranks), Trends: s.all(s.trends), Host: s.take(func() { s.host(doc.Host) }), Made: s.take(s.made),
		More: strings.TrimPrefix(MoreDevices(doc, len(Shown(doc))), "and "), Above: Simulated(doc),
		Simulated: SimulatedLines(doc), Effect: VerdictEffect(&doc.Verdict), Where: Where(doc)}
	p.List = s.take(func() { s.deviceList(Shown(doc), -1) })
	p.Findings = s.take(func() { s.findings("", doc.Findings) })
	open(p.Findings, len(doc.Devices) == 0)
	if p.Said = s.take(s.evidenceFacts); len(p.Said) > 0 {
		p.Said = p.Said[1:] // below the page's own heading
	}
	for _, i := range Shown(doc) {
		d := &doc.Devices[i]
		x := OfDevice{Proof: proof(d), Figures: s.figures(d).Rows}
		x.Gaps = said(when(d.History == "none", "No history: the curves and the allocation timeline are missing ("+
			d.HistoryReason+")."), when(d.Stacks == "none", "No stacks: no line of code can be named."),
			when(d.CapacityBytes == nil, "The GPU's size isn't known: give it with --gpu, or add the log of the failure."))
		x.Categories = []Part{{Table: s.categories(&d.AtPeak, &d.AtEnd)}}
		x.Failures = s.all(func() { s.failures(d) })
		x.Findings = s.take(func() { s.findings("", d.Findings) })
		open(x.Findings, len(d.Changes) == 0)
		x.Leaks = s.take(func() { s.leaks(d.Leaks) })
		for _, p := range x.Leaks {
			for k := range p.Findings {
				p.Findings[k].Open = p.Findings[k].Severity != report.Info // a defect
			}
		}
		x.Segments = s.take(func() { s.segments(d) })
		x.Said = s.take(func() { s.said(d) })
		x.Variables = s.take(func() { s.variables(d) })
		if c := doc.Comparison; c != nil && c.Index == i {
			x.Budget = s.take(func() { s.comparison(c) })
		}
		trials := doc.Trials
		if trials != nil && trials.Index != i {
			trials = nil // they are another's
		}
		x.Trials = s.take(func() { s.trials(trials) })
		x.Changes = changes(d, trials)
		p.Devices = append(p.Devices, x)
	}
	return p
}

// changes are those of a device, nil without any.
func changes(d *report.Device, trials *report.Trials) *Part {
	if len(d.Changes) == 0 {
		return nil
	}
	p := &Part{}
	for i := range d.Changes {
		c := &d.Changes[i]
		p.Findings = append(p.Findings, Finding{Title: units.Rounded(c.Text), Gain: Effect(c, len(d.OOMs) > 0), Code: c.Code})
	}
	if len(d.OOMs) > 0 {
		p.Rest = SettingsText(d, trials)
	}
	return p
}

// take are the parts that something adds, without a first heading: the page has its own.
func (s *sheet) take(add func()) []Part {
	parts := s.all(add)
	if len(parts) > 0 {
		parts[0].Heading = ""
	}
	return parts
}

// all are the parts that something adds.
func (s *sheet) all(add func()) []Part {
	s.parts = nil
	add()
	return s.parts
}

// open opens the first finding, where nothing above it says what to change.
func open(parts []Part, bare bool) {
	for i := range parts {
		if f := parts[i].Findings; len(f) > 0 {
			f[0].Open = bare && f[0].Severity != report.Info
			return
		}
	}
}
