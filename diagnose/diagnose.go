// Package diagnose joins what is known about a run into one Document: what was
// recorded, what the memory held and when, what went wrong, and what to do
// about it.
//
//	doc, err := diagnose.Run(sources, evidence.New(), diagnose.Options{})
//	fmt.Println(doc.Verdict.Text)
package diagnose

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/diagnose/logs"
	"github.com/vramscope/vramscope/diagnose/ranks"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/source"
	"github.com/vramscope/vramscope/timeline"
)

// Options are what the user says about the run.
type Options struct {
	Tool     string // name and version of the program
	Title    string
	Notes    []report.Note
	Device   *int  // only this device
	Capacity int64 // bytes of the GPU, 0 when not given
	// Names gives the labels and tensors that name a device's allocations; nil: none.
	Names    func(*timeline.Timeline) classify.Options
	Theory   *compare.Theory // nil: no comparison with a budget
	Pictures bool            // also work out what the HTML page draws
	// EveryBand has Pictures hold far more allocations one by one than a file should.
	EveryBand bool
	// Code gives the text of a file of the program as the recording names it, false where it isn't at
	// hand; nil: no line of code is looked at.
	Code  func(file string) (text string, ok bool)
	Patch *source.Patch // gathers what to change in the program; nil: nobody asks
	At    *Asked        // a moment to look at besides the peak and the end; nil: none
}

// Run makes the Document of one run. Its recordings are decoded one after
// another, and only what a report needs is kept of each. The error is about a
// recording that can't be read, a device that isn't there, or a theory that
// can't be.
func Run(sources []Source, ev *evidence.Evidence, o Options) (*report.Document, error) {
	j := &job{sources: slices.Clone(sources), evidence: ev, options: o, ranks: ranks.Job{OneDevice: o.Device != nil}}
	if err := j.examineAll(); err != nil {
		return nil, err
	}
	doc := &report.Document{Schema: report.Schema, Tool: o.Tool, Title: o.Title, Notes: []report.Note{}, Command: []string{},
		Inputs:  []report.Input{},
		Devices: []report.Device{}, Trend: []report.Trend{}, Findings: []report.Finding{}, Clocks: []report.Clock{}, Evidence: ev}
	doc.Notes = append(doc.Notes, o.Notes...)
	j.arrange(doc)
	j.disown(doc)
	if o.Device != nil && len(doc.Devices) == 0 && len(j.ranks.Recorded) > 0 {
		return nil, j.noSuchDevice()
	}
	main := j.mainDevice(doc)
	e, err := j.complete(doc, main)
	if err != nil {
		return nil, err
	}
	for i := range j.sources {
		doc.Inputs = append(doc.Inputs, j.sources[i].input())
	}
	one := *doc // the device that matters most, alone
	if main >= 0 {
		one.Devices = doc.Devices[main : main+1]
	}
	if e != nil {
		if d := &one.Devices[0]; len(d.OOMs) > 0 {
			e.Dev = d
			e.tryOthers(&one, d)
			if doc.WhatIf, doc.Trials = one.WhatIf, one.Trials; doc.Trials != nil {
				doc.Trials.Index = main
			}
		}
	}
	logs.Add(doc, o.Capacity, j.logRanks())
	doc.Ended = logs.Ended(doc)
	doc.Environment = j.environment(doc)
	if err := o.unanswered(doc); err != nil {
		return nil, err
	}
	if e == nil {
		j.noteUncompared(doc)
	} else if o.Theory != nil {
		err = j.compare(doc, &one, e, main)
	}
	doc.Verdict = j.verdict(doc, &one)
	doc.Verdict.Text = units.Rounded(doc.Verdict.Text)
	doc.Bound()
	return doc, err
}

// unread are the inputs that could not be got at, as the verdict begins: what they hold may say otherwise. "" for none.
func (j *job) unread() string {
	var unread []string
	for i := range j.sources {
		if j.sources[i].Unread {
			unread = append(unread, j.sources[i].Failed)
		}
	}
	switch len(unread) {
	case 0:
		return ""
	case 1:
		return "Judged without " + unread[0] + "."
	}
	return fmt.Sprintf("Judged without %s and %s more that can't be read.", unread[0], units.Count(len(unread)-1))
}

// noteUncompared says of a model's configuration why nothing is compared with it:
// logs don't tell which part of the memory is the model's.
func (j *job) noteUncompared(doc *report.Document) {
	for i := range j.sources {
		if t := j.options.Theory; t != nil && j.sources[i].Config != nil && j.sources[i].Config == t.Config {
			in := &doc.Inputs[i]
			in.Notes = append(in.Notes, "not used: only a recording is compared with it; "+j.sources[i].budgetCommand()+
				" works out what the model needs")
		}
	}
}

// examination is the work on one device.
type examination struct {
	*facts.Pass
	source   Source
	evidence *evidence.Evidence
	options  Options
	files    map[string]*source.File        // of the program, by the recording's names
	messages map[int64]*evidence.OOMMessage // about failed requests, by what those asked of the driver
}

// eventOf is an event for the report, nil for the instant before the first.
func eventOf(event int) *int {
	if event == timeline.NoEvent {
		return nil
	}
	return &event
}
