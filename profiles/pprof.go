package profiles

import (
	"compress/gzip"
	"fmt"
	"io"
	"strconv"

	"github.com/google/pprof/profile"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/timeline"
)

// The values of a pprof sample, named like those of Go's heap profiles.
const (
	allocObjects = iota
	allocSpace
	inuseObjects
	inuseSpace
	numValues
)

// What samples take, in bytes: the sample with its key, the labels as they are
// written, and the place of each of its lines.
const (
	sampleBytes   = 400
	labelBytes    = 1000 // of labels that no sample had before
	locationBytes = 48
)

// sampleKey is what allocations of one pprof sample have in common. What was
// freed before the moment keeps only what there are few of, so that the
// profile's size doesn't grow with the number of steps.
type sampleKey struct {
	device     int
	stack      stackKey
	category   classify.Category
	detail     classify.Detail
	phase      classify.Phase
	inUse      bool
	step       int32
	confidence uint8
	bytes      int64
	name       uint32
}

// pprofBuilder makes the profile of one recording.
type pprofBuilder struct {
	budget
	p         *profile.Profile
	frames    *shownFrames
	functions map[place]*profile.Function // less the line
	locations map[*place]*profile.Location
	stacks    map[stackKey][]*profile.Location
	labels    map[sampleKey]*profile.Sample // with no stack: what samples share
	python    *profile.Mapping
	native    *profile.Mapping
}

// WritePprof writes what each stack has in use at a moment, and what it has
// allocated up to it, as a gzipped pprof profile. Sample labels: device,
// category, detail and phase, and on what is in use also step, confidence (in
// percent), bytes (of one block) and tensor, where known.
func WritePprof(w io.Writer, r Recording, at Moment) error {
	b := newBuilder(r)
	for _, d := range r.Devices {
		event, err := at.event(d.Timeline)
		if err != nil {
			return err
		}
		if err := b.device(d, at, event); err != nil {
			return err
		}
	}
	z := gzip.NewWriter(w) // its header has no time: the same bytes every time
	if err := b.p.WriteUncompressed(z); err != nil {
		return err
	}
	return z.Close()
}

// newBuilder begins an empty profile.
func newBuilder(r Recording) *pprofBuilder {
	b := &pprofBuilder{budget: budget{limit: r.MaxMemory}, frames: newFrames(r), functions: map[place]*profile.Function{},
		locations: map[*place]*profile.Location{},
		stacks:    map[stackKey][]*profile.Location{}, labels: map[sampleKey]*profile.Sample{},
		python: &profile.Mapping{ID: 1, File: "python", HasFunctions: true, HasFilenames: true, HasLineNumbers: true},
		native: &profile.Mapping{ID: 2, File: "c++", HasFunctions: true, HasFilenames: true, HasLineNumbers: true}}
	b.p = &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "alloc_objects", Unit: "count"}, {Type: "alloc_space", Unit: "bytes"},
			{Type: "inuse_objects", Unit: "count"}, {Type: "inuse_space", Unit: "bytes"}},
		DefaultSampleType: "inuse_space",
		Mapping:           []*profile.Mapping{b.python, b.native},
	}
	return b
}

// device adds the samples of one device.
func (b *pprofBuilder) device(d Device, at Moment, event int) error {
	t := d.Timeline
	b.p.Comments = append(b.p.Comments, fmt.Sprintf("device %d, %s", t.Device.Ordinal, at.name(event)))
	if t.Device.Events.Len() > 0 && b.p.TimeNanos == 0 {
		if now := t.Device.Events.TimeOf(max(event, 0)); now > 0 && now <= maxTimeUS {
			b.p.TimeNanos = now * 1000
		}
	}
	samples := map[sampleKey]*profile.Sample{}
	for i := range t.Len() {
		id := timeline.AllocationID(i)
		life := t.Life(id)
		inUse := life.Has(event)
		if !inUse && (life.Freed == timeline.NoEvent || life.Born > event) {
			continue // given back before the recording, or made after the moment
		}
		key := b.key(d, id, inUse)
		s := samples[key]
		if s == nil {
			s = b.sample(d, key)
			if err := b.take(sampleBytes + locationBytes*len(s.Location)); err != nil {
				return err
			}
			samples[key] = s
			b.p.Sample = append(b.p.Sample, s)
		}
		s.Value[allocObjects]++
		s.Value[allocSpace] += t.Allocated[i]
		if inUse {
			s.Value[inuseObjects]++
			s.Value[inuseSpace] += t.Allocated[i]
		}
	}
	return nil
}

func (b *pprofBuilder) key(d Device, id timeline.AllocationID, inUse bool) sampleKey {
	t, c := d.Timeline, d.Classes
	k := sampleKey{device: t.Device.Ordinal, stack: d.stackOf(id), category: c.Category[id], detail: c.Detail[id],
		phase: c.Phase[id], inUse: inUse}
	if inUse {
		k.step, k.confidence, k.bytes = c.Step[id], c.Confidence[id], t.Allocated[id]
		if c.Name != nil {
			k.name = c.Name[id]
		}
	}
	return k
}

// sample is an empty sample with the labels of a key. Samples that differ in
// their stacks alone share the labels, which are most of a sample.
func (b *pprofBuilder) sample(d Device, k sampleKey) *profile.Sample {
	alike := k
	alike.stack = stackKey{}
	l := b.labels[alike]
	if l == nil {
		l = labelled(d, alike)
		b.labels[alike] = l
		b.used += labelBytes
	}
	return &profile.Sample{Value: make([]int64, numValues), Location: b.stack(k.stack), Label: l.Label, NumLabel: l.NumLabel,
		NumUnit: l.NumUnit}
}

// labelled is a sample of nothing but labels.
func labelled(d Device, k sampleKey) *profile.Sample {
	s := &profile.Sample{
		Label: map[string][]string{"device": {strconv.Itoa(k.device)}, "category": {k.category.String()},
			"phase": {k.phase.String()}}}
	if k.detail != classify.NoDetail {
		s.Label["detail"] = []string{k.detail.String()}
	}
	if !k.inUse {
		return s
	}
	s.NumLabel = map[string][]int64{"bytes": {k.bytes}, "confidence": {int64(k.confidence)}}
	s.NumUnit = map[string][]string{"bytes": {"bytes"}, "confidence": {"%"}}
	if k.step >= 0 {
		s.NumLabel["step"] = []int64{int64(k.step)}
		s.NumUnit["step"] = []string{"step"}
	}
	if k.name != 0 {
		s.Label["tensor"] = []string{valid(d.Classes.Names[k.name])}
	}
	return s
}

// stack is a stack's locations, innermost first; never none.
func (b *pprofBuilder) stack(k stackKey) []*profile.Location {
	out, ok := b.stacks[k]
	if ok {
		return out
	}
	for _, p := range b.frames.stack(k) {
		if b.locations[p] == nil {
			b.locations[p] = b.location(p)
		}
		out = append(out, b.locations[p])
	}
	b.stacks[k] = out
	return out
}

// location is a new location for a place.
func (b *pprofBuilder) location(p *place) *profile.Location {
	key := *p
	key.line = 0
	f := b.functions[key]
	if f == nil {
		f = &profile.Function{ID: uint64(len(b.p.Function) + 1), Name: p.name, SystemName: p.full, Filename: p.file}
		b.functions[key] = f
		b.p.Function = append(b.p.Function, f)
	}
	l := &profile.Location{ID: uint64(len(b.p.Location) + 1), Mapping: b.native,
		Line: []profile.Line{{Function: f, Line: int64(p.line)}}}
	if p.python {
		l.Mapping = b.python
	}
	b.p.Location = append(b.p.Location, l)
	return l
}
