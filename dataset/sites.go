package dataset

import (
	"github.com/vramscope/vramscope/report"
)

// calledFrom writes the user's line that led to a site.
func calledFrom(r *rows, s *report.Site) {
	if s.CalledFrom == nil {
		r.null()
		r.null()
		r.null()
		return
	}
	r.textOrNull(s.CalledFrom.Function)
	r.textOrNull(s.CalledFrom.File)
	r.intAt(s.CalledFrom.Line)
}

func siteRows(r *rows, begin func(), _ *report.Document, d *report.Device) {
	for i := range d.Sites {
		s := &d.Sites[i]
		begin()
		r.int(int64(i))
		r.textAt(s.Category)
		r.textOrNull(s.Function)
		r.textOrNull(s.File)
		r.intAt(s.Line)
		calledFrom(r, s)
		r.textOrNull(s.Op)
		r.int(s.Bytes)
		r.int(int64(s.Blocks))
		r.bool(len(d.OOMs) > 0)
		r.end()
	}
}

// tried is what the tables hold of a report's replays.
type tried struct {
	Device    int        `json:"device"`
	Scenarios []scenario `json:"scenarios"`
}

type scenario struct {
	Name      string   `json:"name"`
	Settings  string   `json:"settings"`
	Changes   []string `json:"changes"`
	Allocated int64    `json:"peak_allocated_bytes"`
	Reserved  int64    `json:"peak_reserved_bytes"`
	Saves     int64    `json:"saves_bytes"`
	OOM       bool     `json:"oom"`
	Survived  bool     `json:"survived"`
	Complete  bool     `json:"complete"`
	Retries   int64    `json:"retries"`
}

func settingRows(r *rows, run string, doc *report.Document) {
	var t tried
	readPart(doc.WhatIf, &t)
	for _, s := range t.Scenarios {
		r.text(run)
		r.int(int64(t.Device))
		r.text(s.Name)
		r.textOrNull(s.Settings)
		r.texts(s.Changes)
		r.int(s.Allocated)
		r.int(s.Reserved)
		r.int(s.Saves)
		r.bool(s.OOM)
		r.bool(s.Survived)
		r.bool(s.Complete)
		r.int(s.Retries)
		r.end()
	}
}
