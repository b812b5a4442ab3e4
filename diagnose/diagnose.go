// Package diagnose joins what is known about a run into one Document: what was
// recorded, what the memory held and when, what went wrong, and what to do
// about it.
//
//	doc, err := diagnose.Run(sources, evidence.New(), diagnose.Options{})
//	fmt.Println(doc.Verdict.Text)
package diagnose

import (
	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/compare"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/stacks"
	"github.com/vramscope/vramscope/timeline"
)

// Source is one input after it was read.
type Source struct {
	Path     string
	Kind     string
	Contains []string
	Snapshot *snapshot.Snapshot
	Failed   string // why the input could not be read, "" when it could
	// Digest is the SHA-256 and the bytes of the input as given, before
	// decompression. It is asked for last: it may still be being worked out.
	Digest func() (sum string, bytes int64)
}

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
}

func (o *Options) names(t *timeline.Timeline) classify.Options {
	if o.Names == nil {
		return classify.Options{}
	}
	return o.Names(t)
}

// Run makes the Document of one run. The error is about a theory that can't be.
func Run(sources []Source, ev *evidence.Evidence, o Options) (*report.Document, error) {
	doc := &report.Document{Schema: report.Schema, Tool: o.Tool, Title: o.Title, Notes: []report.Note{}, Command: []string{}, Inputs: []report.Input{},
		Devices: []report.Device{}, Findings: []report.Finding{}, Clocks: []report.Clock{}, Evidence: ev}
	doc.Notes = append(doc.Notes, o.Notes...)
	var main *examination // of the fullest device
	for i, source := range sources {
		if source.Snapshot == nil {
			continue
		}
		view := stacks.New(source.Snapshot)
		for j := range source.Snapshot.Devices {
			d := &source.Snapshot.Devices[j]
			if o.Device != nil && *o.Device != d.Ordinal {
				continue
			}
			t := timeline.New(source.Snapshot, d)
			e := &examination{t: t, classes: classify.New(t, o.names(t)), view: view, source: source, evidence: ev, options: o}
			dev := e.device()
			dev.Input = i
			doc.Devices = append(doc.Devices, dev)
			if main == nil || t.Peaks.Allocated.Bytes > main.t.Peaks.Allocated.Bytes {
				main = e
			}
		}
		if h := source.Snapshot.Host; h != nil {
			doc.Host = hostOf(source.Snapshot, h)
		}
	}
	for _, source := range sources {
		doc.Inputs = append(doc.Inputs, inputOf(source))
	}
	if main != nil {
		for i := range doc.Devices {
			if d := &doc.Devices[i]; d.Device == main.t.Device.Ordinal && len(d.OOMs) > 0 {
				main.tryOthers(doc, d)
				break
			}
		}
	}
	outsideDocument(doc, o.Capacity)
	doc.Verdict = verdict(doc)
	if o.Theory != nil && main != nil {
		return doc, main.compare(doc)
	}
	return doc, nil
}

func inputOf(s Source) report.Input {
	in := report.Input{Path: s.Path, Kind: s.Kind, Contains: s.Contains, Damage: []string{}, Settings: []report.KeyValue{}, Unknown: []report.Unknown{}}
	if s.Failed != "" {
		in.Damage = append(in.Damage, s.Failed)
	}
	if s.Digest != nil {
		in.SHA256, in.Bytes = s.Digest()
	}
	if s.Contains == nil {
		in.Contains = []string{s.Kind}
	}
	if s.Snapshot == nil {
		return in
	}
	in.Era = &s.Snapshot.Era
	in.Partial = s.Snapshot.Cut >= 0
	in.Damage = append(in.Damage, s.Snapshot.Damage...)
	for _, x := range s.Snapshot.Settings {
		in.Settings = append(in.Settings, report.KeyValue{Key: x.Key, Value: x.Value})
	}
	for _, u := range s.Snapshot.Unknown {
		in.Unknown = append(in.Unknown, report.Unknown{Where: u.Where, Key: u.Key, Count: u.Count, Example: u.Example})
	}
	return in
}

// examination is the work on one device.
type examination struct {
	t        *timeline.Timeline
	classes  *classify.Classification
	view     *stacks.View
	source   Source
	evidence *evidence.Evidence
	options  Options
	memo
}

func hostOf(s *snapshot.Snapshot, d *snapshot.Device) *report.HostMemory {
	t := timeline.New(s, d)
	h := &report.HostMemory{Segments: len(d.Segments), Events: d.Events.Len(), PeakBytes: t.Peaks.Allocated.Bytes}
	for _, g := range d.Segments {
		h.Bytes += g.TotalSize
		for _, b := range g.Blocks {
			if b.State != snapshot.Inactive {
				h.Used += b.Size
			}
		}
	}
	return h
}

func ptr[T any](v T) *T { return &v }

// eventOf is an event for the report, nil for the instant before the first.
func eventOf(event int) *int {
	if event == timeline.NoEvent {
		return nil
	}
	return &event
}
