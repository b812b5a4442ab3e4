package snapshot

import (
	"maps"
	"slices"

	"github.com/vramscope/vramscope/internal/pages"
)

// maxDevices bounds the devices of one file; the largest machines have 16.
const maxDevices = 1024

// assemble makes a Snapshot of the one value that the file holds.
func (d *decoder) assemble(v value) (*Snapshot, error) {
	s := d.out
	var top map[StringID]value // of keys that are there twice Python keeps the last
	switch v.kind() {
	case kList:
		s.BareSegments = true
		top = map[StringID]value{sSegments: v}
	case kDict:
		top = d.byKey(v)
	}
	_, hasSegments := top[sSegments]
	traces, hasTraces := top[sDeviceTraces]
	if old, ok := top[sTraces]; ok && !hasTraces {
		traces, hasTraces = old, true
	}
	s.HasTraces = hasTraces
	if !hasSegments && !hasTraces {
		return nil, errNoSnapshot()
	}
	devices := deviceTable{d: d, byOrdinal: map[int64]*Device{}}
	if err := d.assembleSegments(top[sSegments], devices.get); err != nil {
		return nil, err
	}
	if s.BareSegments && d.lists[v.index()].length() > 0 && len(devices.byOrdinal) == 0 {
		return nil, errNoSnapshot()
	}
	if err := d.assembleTraces(traces, devices.get); err != nil {
		return nil, err
	}
	if err := d.assembleHost(top[sHostSegments], top[sHostTraces]); err != nil {
		return nil, err
	}
	if err := d.assembleAnnotations(top[sExternalAnnotations]); err != nil {
		return nil, err
	}
	_ = d.each(top[sCategories], func(name value) error {
		s.CategoryNames = append(s.CategoryNames, d.brief(name))
		return nil
	})
	d.flatten(top[sAllocatorSettings], "", 0)
	limits := d.assembleLimits(top, devices)
	d.countKeys(v)
	s.Devices, s.Histories = devices.list(), d.histories
	for i := range s.Devices {
		d.setUnpairedAside(&s.Devices[i])
	}
	s.Era = d.era(func(key StringID) bool { _, ok := limits[key]; return ok })
	err := d.readTracebacks()
	d.report()
	return s, err
}

// assembleLimits reads what the recorder says of its ring buffers, and gives the
// settings and what stands beside them by key.
func (d *decoder) assembleLimits(top map[StringID]value, devices deviceTable) map[StringID]value {
	limits := d.byKey(top[sAllocatorSettings]) // some writers put them there
	maps.Copy(limits, top)
	if x, ok := limits[sTraceMax]; ok {
		d.perDevice(x, devices, func(dev *Device, x value) { dev.TraceMax = max(d.int(x), 0) })
	}
	if x, ok := limits[sTraceOverflowed]; ok {
		d.perDevice(x, devices, func(dev *Device, x value) { dev.Overflowed = d.known(x) })
	}
	return limits
}

func errNoSnapshot() error {
	return &Error{Offset: -1, Cause: "a pickle, but not of a memory snapshot: it has neither segments nor device_traces",
		Err: ErrNotSnapshot}
}

// byKey is a dictionary's values by known key.
func (o *objects) byKey(v value) map[StringID]value {
	m := map[StringID]value{}
	if v.kind() == kDict {
		items := o.dicts[v.index()].items
		for i := 0; i+1 < len(items); i += 2 {
			if k := items[i]; k.kind() == kString && StringID(k.index()) < numKeys {
				m[StringID(k.index())] = items[i+1]
			}
		}
	}
	return m
}

// countKeys counts the unknown keys of the whole file's dictionary.
func (d *decoder) countKeys(v value) {
	if v.kind() == kDict {
		items := d.dicts[v.index()].items
		for i := 0; i+1 < len(items); i += 2 {
			d.key(sEmpty, items, i)
		}
	}
}

// deviceTable is the devices by their ordinals.
type deviceTable struct {
	d         *decoder
	byOrdinal map[int64]*Device
}

// get is the device of an ordinal, made when it is new.
func (t *deviceTable) get(ordinal int64) (*Device, error) {
	if ordinal < 0 || ordinal > 1<<20 {
		t.d.note("device ordinal that can't be right, taken as 0")
		ordinal = 0
	}
	if t.byOrdinal[ordinal] == nil {
		if len(t.byOrdinal) >= maxDevices {
			return nil, t.d.fail(t.d.p, "more than %d devices", maxDevices)
		}
		t.byOrdinal[ordinal] = &Device{Ordinal: int(ordinal)}
	}
	return t.byOrdinal[ordinal], nil
}

// list is the devices that hold anything, by ordinal.
func (t *deviceTable) list() []Device {
	var devices []Device
	for _, ordinal := range slices.Sorted(maps.Keys(t.byOrdinal)) {
		if dev := t.byOrdinal[ordinal]; dev.Events.Len() > 0 || len(dev.Segments) > 0 {
			devices = append(devices, *dev)
		}
	}
	return devices
}

// known is a boolean that may be missing.
func (o *objects) known(v value) Known {
	if o.int(v) != 0 {
		return Yes
	}
	return No
}

// perDevice applies a scalar to every device, or a list by ordinal.
func (d *decoder) perDevice(v value, devices deviceTable, set func(*Device, value)) {
	switch v.kind() {
	case kNone:
		return
	case kPool: // a tuple of two integers
		p := d.out.Pools[v.index()]
		for i, n := range p {
			if dev := devices.byOrdinal[int64(i)]; dev != nil {
				set(dev, d.number(n))
			}
		}
		return
	case kList, kTuple:
	default:
		for _, ordinal := range slices.Sorted(maps.Keys(devices.byOrdinal)) {
			set(devices.byOrdinal[ordinal], v)
		}
		return
	}
	i := int64(0)
	_ = d.each(v, func(x value) error {
		if dev := devices.byOrdinal[i]; dev != nil {
			set(dev, x)
		}
		i++
		return nil
	})
}

func (d *decoder) assembleSegments(v value, device func(int64) (*Device, error)) error {
	if v.kind() != kList {
		if v.kind() != kNone {
			d.note("segments that are no list")
		}
		return nil
	}
	left := d.lists[v.index()].length()
	return d.each(v, func(x value) error {
		left--
		if x.kind() != kSegment {
			d.note("segment that is no dictionary")
			return nil
		}
		row := &d.segments[x.index()]
		if row.placed { // two bytes can name it again
			d.note("segment that is listed twice, counted once")
			return nil
		}
		row.placed = true
		dev, err := device(row.device)
		if err != nil {
			return err
		}
		if len(dev.Segments) == cap(dev.Segments) {
			dev.Segments = pages.Grown(dev.Segments, min(left+1, 4*len(dev.Segments)+64))
		}
		s := row.Segment
		s.Blocks = d.blocks[row.firstBlock : row.firstBlock+row.numBlocks : row.firstBlock+row.numBlocks]
		placeBlocks(&s)
		dev.Segments = append(dev.Segments, s)
		return nil
	})
}

// placeBlocks gives blocks their addresses, which were not recorded before
// 2.1: they lie one after the other.
func placeBlocks(s *Segment) {
	at := s.Address
	for i := range s.Blocks {
		b := &s.Blocks[i]
		if b.Address == 0 {
			b.Address = at
		}
		at = b.Address + uint64(b.Size)
	}
}

// assembleTraces gives each device its events, as a view on the columns.
func (d *decoder) assembleTraces(v value, device func(int64) (*Device, error)) error {
	if v.kind() != kList {
		if v.kind() != kNone {
			d.note("device_traces that are no list")
		}
		return nil
	}
	ordinal := int64(-1)
	return d.each(v, func(x value) error {
		ordinal++
		if x.kind() != kList {
			d.note("trace that is no list")
			return nil
		}
		l := &d.lists[x.index()]
		if l.length() == 0 {
			return nil
		}
		if l.expanded {
			return d.shape(d.p, "two devices share one trace")
		}
		l.expanded = true
		dev, err := device(ordinal)
		if err != nil {
			return err
		}
		return d.setEvents(dev, l)
	})
}

func (d *decoder) setEvents(dev *Device, l *list) error {
	if l.count > 0 && l.run.kind() == kEvent {
		first := l.run.index()
		dev.Events, dev.FirstEvent = d.events.Slice(first, first+l.count), first
		for _, o := range d.ooms {
			if o.Event >= first && o.Event < first+l.count {
				dev.OOMs = append(dev.OOMs, OutOfMemory{o.Event - first, o.DeviceFree})
			}
		}
		return nil
	}
	var rows []int // entries out of order, or the same one several times
	for _, x := range l.items {
		if x = d.closed(x); x.kind() == kEvent {
			rows = append(rows, x.index())
		} else {
			d.note("trace entry that is no event")
		}
	}
	if err := d.take(int64(len(rows)) * (eventBytes + 40)); err != nil {
		return err
	}
	free := map[int]int64{}
	for _, o := range d.ooms {
		free[o.Event] = o.DeviceFree
	}
	dev.Events = d.events.gather(rows)
	for i, row := range rows {
		if f, ok := free[row]; ok {
			if err := d.take(failureBytes); err != nil {
				return err
			}
			dev.OOMs = append(dev.OOMs, OutOfMemory{i, f})
		}
	}
	return nil
}

// assembleHost reads pinned memory, whose trace is a list of events or of one
// such list for each device.
func (d *decoder) assembleHost(segments, traces value) error {
	h, other := &Device{Ordinal: -1}, &Device{Ordinal: -1}
	if err := d.assembleSegments(segments, func(int64) (*Device, error) { return h, nil }); err != nil {
		return err
	}
	if traces.kind() == kList {
		l := &d.lists[traces.index()]
		if l.length() > 0 && (l.count > 0 || l.items[0].kind() != kList) {
			if err := d.setEvents(other, l); err != nil {
				return err
			}
		} else if err := d.assembleTraces(traces, func(int64) (*Device, error) { return firstTrace(d, other), nil }); err != nil {
			return err
		}
	}
	d.out.Host = mergeHost(h, other)
	return nil
}

// firstTrace is where a trace of pinned memory goes: all but the first are left out.
func firstTrace(d *decoder, h *Device) *Device {
	if h.Events.Len() > 0 {
		d.note("second trace of pinned memory, left out")
		return &Device{}
	}
	return h
}

// mergeHost joins the segments and the trace of pinned memory; nil for neither.
func mergeHost(h, traced *Device) *Device {
	if len(h.Segments) == 0 && traced.Events.Len() == 0 {
		return nil
	}
	h.Events, h.OOMs, h.FirstEvent = traced.Events, traced.OOMs, traced.FirstEvent
	return h
}

func (d *decoder) assembleAnnotations(v value) error {
	if v.kind() == kList {
		if l := &d.lists[v.index()]; l.count > 0 && l.run.kind() == kNote {
			first := l.run.index()
			d.out.Annotations = d.annotations[first : first+l.count : first+l.count]
			return nil
		}
	}
	return d.each(v, func(x value) error {
		if x.kind() != kNote {
			d.note("annotation that is no dictionary")
			return nil
		}
		d.out.Annotations = append(d.out.Annotations, d.annotations[x.index()])
		return d.take(64)
	})
}

// roomForSetting counts the settings looked at: dictionaries that refer to
// each other could otherwise be walked for ever.
func (d *decoder) roomForSetting() bool {
	if d.flattened++; d.flattened == 1001 {
		d.note("more than 1000 allocator_settings, of which the others are left out")
	}
	return d.flattened <= 1000
}

const oddSettings = "allocator_settings that are no dictionary"

// flatten lists the allocator's settings, nested ones with a dot.
func (d *decoder) flatten(v value, prefix string, depth int) {
	if v.kind() != kDict && v.kind() != kNone {
		d.note(oddSettings)
	}
	if v.kind() != kDict || depth > 4 {
		return
	}
	e := d.dicts[v.index()]
	for i := 0; i+1 < len(e.items) && d.roomForSetting(); i += 2 {
		key := prefix + short(d.brief(e.items[i]))
		if e.items[i+1].kind() == kDict {
			d.flatten(e.items[i+1], key+".", depth+1)
			continue
		}
		d.out.Settings = append(d.out.Settings, Setting{key, short(d.brief(e.items[i+1]))})
	}
}

// The eras of recorders that take other arguments than those of today.
const (
	eraOfHistories  = "<=2.0 (history in blocks)"
	eraWithoutTimes = "2.0/2.1-dev"
)

// OldRecorder reports whether it was PyTorch up to 2.0 that wrote the file, whose
// _record_memory_history takes other arguments.
func (s *Snapshot) OldRecorder() bool { return s.Era == eraOfHistories || s.Era == eraWithoutTimes }

// era tells which PyTorch wrote the file, by the fields that came and went.
func (t *tables) era(has func(StringID) bool) string {
	in := func(key StringID) bool { return t.eventKeys&(1<<key) != 0 }
	settings := t.out.Settings
	switch {
	case t.out.BareSegments:
		return "list form (torch.cuda.memory_snapshot)"
	case len(t.histories) > 0:
		return eraOfHistories
	case has(sHostSegments) || has(sHostTraces) || settings.Get("max_round_threshold") != "":
		return ">=2.15"
	case has(sTraceMax) || has(sTraceOverflowed) || in(sPoolID) || in(sInternalMetadata):
		return ">=2.11"
	case in(sUserMetadata) || settings.Get("graph_capture_record_stream_reuse") != "":
		return ">=2.9/2.10"
	case in(sCompileContext):
		return ">=2.8"
	case has(sExternalAnnotations):
		return "2.5-2.7"
	case has(sAllocatorSettings):
		return "2.1-2.4 (settings, no annotations)"
	case t.rows > 0 && !in(sTimeUS):
		return eraWithoutTimes
	}
	return "2.1/2.2"
}
