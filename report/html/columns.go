package html

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"

	"github.com/klauspost/compress/gzip"
	"github.com/vramscope/vramscope/report"
)

// columnsVersion is that of the form that doc/page-columns.md describes, which
// templates/js/20-data.js reads in the same order.
const columnsVersion = 2

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
	Names      []string          `json:"names"`               // a column of them follows unless there are none
	HasForward bool              `json:"hasForward"`          // a column of forward stacks follows
	Kinds      []report.Kind     `json:"kinds"`
	Rules      map[string]string `json:"rules"`
	Sites      []report.Site     `json:"sites"`
	Frames     []report.Frame    `json:"frames"`
	Stacks     int               `json:"stacks"`
	Nodes      int               `json:"nodes"`
	Rest       int               `json:"rest"` // allocations that are not drawn one by one
	RestPoints int               `json:"restPoints"`
	HasEvents  bool              `json:"hasEvents"` // addresses, other events and segments follow
	Addresses  int               `json:"addresses"`
	Others     int               `json:"others"`
	Segments   int               `json:"segments"`
	Moments    []int             `json:"moments"`
	Actions    []string          `json:"actions"`
	Completes  bool              `json:"completes"` // a free's only event completes it
	Streams    []string          `json:"streams"`
	Pools      []string          `json:"pools"`
	Spans      []report.Span     `json:"spans"`
	Steps      []report.Step     `json:"steps"`
	OOMs       []headerOOM       `json:"ooms"`
	Peak       *int              `json:"peak"`
	Capacity   *int64            `json:"capacity"`
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
// the columns as variable-length integers, gzipped.
func pack(d *report.Device) ([]byte, error) {
	p := d.Pictures
	h := header{Version: columnsVersion, Device: d.Device, Events: p.Events, Bands: len(p.Bands.Born), Older: p.Bands.Older,
		HasIDs: p.Bands.ID != nil, TimeEvery: p.TimeEvery, Times: len(p.TimeUS), Categories: p.Categories, Kinds: p.Kinds,
		Rules: p.Rules, Sites: p.Sites, Frames: p.Frames, Names: list(p.Names), HasForward: p.Bands.Forward != nil,
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
	h.Categories, h.Titles, h.Kinds, h.Sites, h.Frames = list(h.Categories), list(h.Titles), list(h.Kinds), list(h.Sites),
		list(h.Frames)
	h.Spans, h.Steps, h.OOMs = list(h.Spans), list(h.Steps), list(h.OOMs)
	h.Moments, h.Actions, h.Streams, h.Pools = list(p.Moments), list(p.Actions), list(p.Streams), list(p.Pools)
	if h.Rules == nil {
		h.Rules = map[string]string{}
	}
	var addresses []uint64
	if h.HasEvents = p.Bands.Address != nil; h.HasEvents {
		addresses = slices.Compact(slices.Sorted(slices.Values(p.Bands.Address)))
		h.Addresses, h.Others, h.Segments, h.Completes = len(addresses), len(p.Others), len(p.Segments), p.Completions
	}
	text, err := json.Marshal(&h)
	if err != nil {
		return nil, err
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
	if h.HasEvents {
		b = appendPlaces(&p.Bands, addresses, b)
		b = appendOthers(p, b)
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

// compress is gzip. A fast level: the page must take less time to write than the
// recording took to read.
func compress(b []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed+1)
	if err != nil {
		return nil, err
	}
	_, err = w.Write(b)
	err = errors.Join(err, w.Close())
	return out.Bytes(), err
}

// appendNumbers writes one column after the other.
func appendNumbers[T uint16 | uint32](b []byte, columns ...[]T) []byte {
	for _, column := range columns {
		for _, n := range column {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return b
}

// appendRising writes how much each of rising numbers is above the one before.
func appendRising[T uint32 | int](b []byte, before T, column []T) []byte {
	for _, n := range column {
		b = binary.AppendUvarint(b, uint64(n-before))
		before = n
	}
	return b
}

// appendBands writes one column after the other; what changes little from one
// allocation to the next then stands together.
func appendBands(c *report.Bands, b []byte) []byte {
	b = appendRising(b, 0, c.ID)
	b = appendRising(b, 0, c.Born[c.Older:])
	for i, freed := range c.Freed { // 0: never; else how long after its birth
		switch {
		case freed == report.NotFreed:
			b = append(b, 0)
		case freed == report.FreedBefore:
			b = append(b, 1)
		case i < c.Older:
			b = binary.AppendUvarint(b, uint64(freed)+2)
		default:
			b = binary.AppendUvarint(b, uint64(freed-c.Born[i]))
		}
	}
	for _, n := range c.Bytes {
		b = appendBytes(b, n)
	}
	return appendNumbers(appendNumbers(b, c.Kind), c.Stack, c.Name, c.Forward)
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

// appendClimb writes differences, which are seldom negative; the first value is in the header.
func appendClimb(b []byte, values []int64) []byte {
	for i := 1; i < len(values); i++ {
		b = binary.AppendVarint(b, values[i]-values[i-1])
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
	b = appendRising(b, -1, r.Events)
	for _, column := range r.Bytes {
		for _, n := range column {
			b = appendBytes(b, n)
		}
	}
	return b
}

// appendPlaces writes where allocations lie and what only their events tell.
func appendPlaces(c *report.Bands, addresses []uint64, b []byte) []byte {
	index := make(map[uint64]uint64, len(addresses))
	previous := uint64(0)
	for i, a := range addresses {
		index[a] = uint64(i)
		b = appendAddress(b, a-previous)
		previous = a
	}
	for _, a := range c.Address {
		b = binary.AppendUvarint(b, index[a])
	}
	for i, n := range c.Requested { // as much as the block, mostly
		b = binary.AppendVarint(b, c.Bytes[i]-n)
	}
	for i, completed := range c.Completed { // 0: never; else how long after its free was requested
		switch freed := c.Freed[i]; {
		case completed == report.NotFreed:
			b = append(b, 0)
		case freed == report.FreedBefore:
			b = binary.AppendUvarint(b, uint64(completed)+2)
		default:
			b = binary.AppendUvarint(b, uint64(completed-freed)+1)
		}
	}
	return appendNumbers(b, c.Stream, c.Pool, c.FreeStack)
}

// appendAddress is appendBytes for addresses, which have 64 bits: a page counts
// up to 2^53 of their units.
func appendAddress(b []byte, n uint64) []byte {
	if n%512 == 0 {
		return binary.AppendUvarint(b, n/512<<1)
	}
	return binary.AppendUvarint(b, min(n, 1<<52)<<1|1)
}

func appendOthers(p *report.Pictures, b []byte) []byte {
	previous := 0
	for _, o := range p.Others {
		b = binary.AppendUvarint(b, uint64(o.Event-previous))
		previous = o.Event
		b = append(b, byte(o.Action))
		b = appendBytes(appendAddress(b, o.Address), o.Bytes)
		b = appendNumbers(b, []uint32{o.Stream, o.Pool, o.Stack, uint32(o.Band + 1)})
	}
	for _, s := range p.Segments {
		b = appendBytes(appendAddress(b, s.Address), s.Bytes)
		b = appendNumbers(b, []uint32{s.Stream, s.Pool})
		flags := byte(0)
		if s.Small {
			flags |= 1
		}
		if s.Expandable {
			flags |= 2
		}
		b = append(b, flags)
	}
	return b
}
