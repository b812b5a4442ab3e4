package html

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"github.com/klauspost/compress/gzip"
	"github.com/vramscope/vramscope/report"
)

// columnsVersion is that of the form that doc/page-columns.md describes, which
// templates/js/20-data.js reads in the same order.
const columnsVersion = 1

// header is the part of a device's data that is JSON; the columns follow it.
type header struct {
	Version    int               `json:"version"`
	Device     int               `json:"device"`
	Events     int               `json:"events"`
	Bands      int               `json:"bands"`
	Older      int               `json:"older"`
	HasIDs     bool              `json:"hasIDs"`
	TimeEvery  int               `json:"timeEvery"`
	Times      int               `json:"times"`
	FirstTime  int64             `json:"firstTime"`
	Categories []string          `json:"categories"`
	Titles     []string          `json:"titles"`
	PeakSites  []report.Site     `json:"peakSites,omitempty"` // where not every allocation is there to be summed up
	Kinds      []report.Kind     `json:"kinds"`
	Rules      map[string]string `json:"rules"`
	Sites      []report.Site     `json:"sites"`
	Frames     []report.Frame    `json:"frames"`
	Stacks     int               `json:"stacks"`
	Nodes      int               `json:"nodes"`
	Rest       int               `json:"rest"` // allocations that are not drawn one by one
	RestPoints int               `json:"restPoints"`
	Maps       []headerMap       `json:"maps"`
	Pools      []string          `json:"pools"`
	Spans      []report.Span     `json:"spans"`
	Steps      []report.Step     `json:"steps"`
	OOMs       []headerOOM       `json:"ooms"`
	Peak       *int              `json:"peak"`
	Capacity   *int64            `json:"capacity"`
}

type headerMap struct {
	Name     string `json:"name"`
	Event    int    `json:"event"`
	Segments int    `json:"segments"`
}

type headerOOM struct {
	Event     int   `json:"event"`
	Requested int64 `json:"requested"`
}

// maxPeakSites bounds the rows of the peak's table where they are in the page
// as such.
const maxPeakSites = 1000

// maxLaneSteps bounds the steps that are drawn above the timeline.
const maxLaneSteps = 5000

// pack writes a device's pictures: the length of the header, the header, and
// the columns as variable-length integers, gzipped and in base64.
func pack(d *report.Device) (string, error) {
	p := d.Pictures
	h := header{Version: columnsVersion, Device: d.Device, Events: p.Events, Bands: len(p.Bands.Born), Older: p.Bands.Older,
		HasIDs: p.Bands.ID != nil, TimeEvery: p.TimeEvery, Times: len(p.TimeUS), Categories: p.Categories, Kinds: p.Kinds,
		Rules: p.Rules, Sites: p.Sites, Frames: p.Frames,
		Stacks: len(p.Stacks), Nodes: len(p.Nodes), Spans: p.Spans, Steps: d.Steps, Peak: d.AtPeak.Event,
		Capacity: d.CapacityBytes}
	if len(d.Steps) > maxLaneSteps {
		h.Steps = nil
	}
	if p.Rest != nil {
		h.Rest, h.RestPoints = p.Rest.Allocations, len(p.Rest.Events)
		h.PeakSites = d.Sites[:min(len(d.Sites), maxPeakSites)]
	}
	for _, c := range p.Categories {
		h.Titles = append(h.Titles, report.CategoryTitle(c))
	}
	if len(p.TimeUS) > 0 {
		h.FirstTime = p.TimeUS[0]
	}
	for _, o := range d.OOMs {
		h.OOMs = append(h.OOMs, headerOOM{o.Event, o.RequestedBytes})
	}
	pools := map[string]uint64{}
	for _, m := range p.Maps {
		h.Maps = append(h.Maps, headerMap{m.Name, m.Event, len(m.Segments)})
		for _, s := range m.Segments {
			if _, ok := pools[s.Pool]; !ok {
				pools[s.Pool] = uint64(len(h.Pools))
				h.Pools = append(h.Pools, s.Pool)
			}
		}
	}
	h.Categories, h.Titles, h.Kinds, h.Sites, h.Frames = list(h.Categories), list(h.Titles), list(h.Kinds), list(h.Sites),
		list(h.Frames)
	h.Maps, h.Pools, h.Spans, h.Steps, h.OOMs = list(h.Maps), list(h.Pools), list(h.Spans), list(h.Steps), list(h.OOMs)
	if h.Rules == nil {
		h.Rules = map[string]string{}
	}
	text, err := json.Marshal(&h)
	if err != nil {
		return "", err
	}
	text = steady(text)
	b := make([]byte, 0, len(text)+12*len(p.Bands.Born)+1024)
	b = binary.AppendUvarint(b, uint64(len(text)))
	b = append(b, text...)
	b = appendBands(&p.Bands, b)
	b = appendClimb(b, p.TimeUS)
	b = appendStacks(p, b)
	if p.Rest != nil {
		b = appendRest(p.Rest, b)
	}
	for _, m := range p.Maps {
		b = appendLayout(&m, b, pools)
	}
	return compress(b)
}

// list is what a page can walk over: JSON has no nil slice.
func list[T any](s []T) []T {
	if s == nil {
		return []T{}
	}
	return s
}

// compress is gzip in base64. A fast level: the page must take less time to
// write than the recording took to read.
func compress(b []byte) (string, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed+1)
	if err != nil {
		return "", err
	}
	if _, err := w.Write(b); err != nil {
		return "", err
	}
	if err := w.Close(); err != nil {
		return "", err
	}
	return base64.StdEncoding.EncodeToString(out.Bytes()), nil
}

// appendTo writes one column after the other; what changes little from one
// allocation to the next then stands together.
func appendBands(c *report.Bands, b []byte) []byte {
	previous := uint32(0)
	for _, id := range c.ID {
		b = binary.AppendUvarint(b, uint64(id-previous))
		previous = id
	}
	previous = 0
	for _, born := range c.Born[c.Older:] {
		b = binary.AppendUvarint(b, uint64(born-previous))
		previous = born
	}
	for i, freed := range c.Freed { // 0: never; else how long after its birth
		switch {
		case freed == report.NotFreed:
			b = append(b, 0)
		case i < c.Older:
			b = binary.AppendUvarint(b, uint64(freed)+1)
		default:
			b = binary.AppendUvarint(b, uint64(freed-c.Born[i]))
		}
	}
	for _, n := range c.Bytes {
		b = appendBytes(b, n)
	}
	for _, k := range c.Kind {
		b = binary.AppendUvarint(b, uint64(k))
	}
	for _, s := range c.Stack {
		b = binary.AppendUvarint(b, uint64(s))
	}
	return b
}

// appendBytes writes a size: an even number of 512 byte units, or an odd one
// of bytes, since nearly all sizes are multiples of 512.
func appendBytes(b []byte, n int64) []byte {
	n = max(0, n)
	if n%512 == 0 {
		return binary.AppendUvarint(b, uint64(n/512)<<1)
	}
	return binary.AppendUvarint(b, uint64(n)<<1|1)
}

// appendClimb writes differences, which are seldom negative.
func appendClimb(b []byte, values []int64) []byte {
	for i, v := range values {
		if i == 0 {
			continue // in the header
		}
		b = binary.AppendVarint(b, v-values[i-1])
	}
	return b
}

func appendStacks(p *report.Pictures, b []byte) []byte {
	for _, s := range p.Stacks {
		b = binary.AppendUvarint(b, uint64(s.Site+1))
		b = binary.AppendUvarint(b, uint64(s.Node+1))
	}
	for i, n := range p.Nodes {
		if i > 0 {
			b = binary.AppendUvarint(b, uint64(n.Frame))
			b = binary.AppendUvarint(b, uint64(i-n.Parent))
		}
	}
	return b
}

func appendRest(r *report.Rest, b []byte) []byte {
	previous := -1
	for _, e := range r.Events {
		b = binary.AppendUvarint(b, uint64(e-previous))
		previous = e
	}
	for _, column := range r.Bytes {
		for _, n := range column {
			b = appendBytes(b, n)
		}
	}
	return b
}

func appendLayout(m *report.Layout, b []byte, pools map[string]uint64) []byte {
	end := uint64(0)
	for i := range m.Segments {
		s := &m.Segments[i]
		b = binary.AppendUvarint(b, (s.Address-end)>>9) // the gap before it
		end = s.Address + uint64(s.Bytes)
		b = appendBytes(b, s.Bytes)
		b = binary.AppendUvarint(b, pools[s.Pool])
		flags := byte(0)
		if s.Small {
			flags |= 1
		}
		if s.Expandable {
			flags |= 2
		}
		b = append(b, flags)
		b = binary.AppendUvarint(b, uint64(len(s.Blocks)))
		for _, k := range s.Blocks {
			b = append(b, byte(k.State))
			b = appendBytes(b, k.Bytes)
			if k.State != report.BlockFree {
				b = binary.AppendUvarint(b, uint64(k.Allocation))
				b = binary.AppendUvarint(b, uint64(k.Kind))
				b = binary.AppendUvarint(b, uint64(k.Stack))
			}
		}
	}
	return b
}
