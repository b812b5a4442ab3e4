package snapshot

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// maxDevices bounds the devices of one file; the largest machines have 16.
const maxDevices = 1024

// fold closes every container that a truncated file left open, innermost
// first, so that what was read up to the cut can be used.
func (d *decoder) fold() (value, error) {
	for len(d.marks) > 0 {
		m := d.marks[len(d.marks)-1]
		d.marks = d.marks[:len(d.marks)-1]
		if m == 0 {
			break
		}
		op := byte(opAppends)
		switch d.stack[m-1].kind() {
		case kDict:
			op = opSetItems
			if (len(d.stack)-m)%2 != 0 { // a key whose value was still being read
				d.stack = d.stack[:len(d.stack)-1]
			}
		case kList:
		default:
			d.stack = d.stack[:m]
			continue
		}
		if err := d.extend(op, d.p, d.stack[m-1], m); err != nil {
			return 0, err
		}
		d.stack = d.stack[:m]
	}
	// Containers that were being filled without a mark: each is the value of
	// the key, or the element of the list, below it.
	for n := len(d.stack); n > 1; n = len(d.stack) {
		switch {
		case n >= 3 && d.stack[n-3].kind() == kDict && d.stack[n-2].kind() == kString:
			if err := d.extend(opSetItem, d.p, d.stack[n-3], n-2); err != nil {
				return 0, err
			}
			d.stack = d.stack[:n-2]
		case d.stack[n-2].kind() == kList:
			if err := d.extend(opAppend, d.p, d.stack[n-2], n-1); err != nil {
				return 0, err
			}
			d.stack = d.stack[:n-1]
		default:
			d.stack = d.stack[:n-1]
		}
	}
	if len(d.stack) == 0 {
		return 0, d.cut()
	}
	return d.stack[0], nil
}

// assemble makes a Snapshot of the one value that the file holds.
func (d *decoder) assemble(v value) (*Snapshot, error) {
	s := d.out
	byDevice := map[int64]*Device{}
	device := func(ordinal int64) (*Device, error) {
		if ordinal < 0 || ordinal > 1<<20 {
			d.note("device ordinal that can't be right, taken as 0")
			ordinal = 0
		}
		if byDevice[ordinal] == nil {
			if len(byDevice) >= maxDevices {
				return nil, d.fail(d.p, "more than %d devices", maxDevices)
			}
			byDevice[ordinal] = &Device{Ordinal: int(ordinal)}
		}
		return byDevice[ordinal], nil
	}
	var items []value
	switch v.kind() {
	case kList:
		s.BareSegments = true
		items = []value{newValue(kString, uint64(sSegments)), v}
	case kDict:
		items = d.dicts[v.index()].items
	}
	found := false
	var host value
	for i := 0; i+1 < len(items); i += 2 {
		x := items[i+1]
		var err error
		switch d.key(sEmpty, items, i) {
		case sSegments:
			found = true
			err = d.assembleSegments(x, device)
		case sDeviceTraces, sTraces:
			found, s.HasTraces = true, true
			err = d.assembleTraces(x, device)
		case sAllocatorSettings:
			d.flatten(x, "", 0)
		case sExternalAnnotations:
			err = d.assembleAnnotations(x)
		case sCategories:
			err = d.each(x, func(name value) error {
				s.CategoryNames = append(s.CategoryNames, d.brief(name))
				return nil
			})
		case sHostSegments:
			h := &Device{Ordinal: -1}
			err = d.assembleSegments(x, func(int64) (*Device, error) { return h, nil })
			s.Host = mergeHost(s.Host, h)
		case sHostTraces:
			host = x
		}
		if err != nil {
			return nil, err
		}
	}
	if !found || s.BareSegments && d.lists[v.index()].length() > 0 && len(d.segments) == 0 {
		return nil, &Error{Offset: -1, Cause: "a pickle, but not of a memory snapshot: it has neither segments nor device_traces", Err: ErrNotSnapshot}
	}
	if err := d.assembleHost(host); err != nil {
		return nil, err
	}
	for i := 0; i+1 < len(items); i += 2 { // these name devices, which are all known now
		switch d.key(sSegments, items, i) {
		case sTraceMax:
			d.perDevice(items[i+1], byDevice, func(dev *Device, x value) { dev.TraceMax = max(d.int(x), 0) })
		case sTraceOverflowed:
			d.perDevice(items[i+1], byDevice, func(dev *Device, x value) { dev.Overflowed = d.known(x) })
		}
	}
	for _, ordinal := range slices.Sorted(maps.Keys(byDevice)) {
		if dev := byDevice[ordinal]; dev.Events.Len() > 0 || len(dev.Segments) > 0 {
			s.Devices = append(s.Devices, *dev)
		}
	}
	s.Annotations, s.Histories = d.annotations, d.histories
	s.Era = d.era(items)
	d.report()
	return s, nil
}

// known is a boolean that may be missing.
func (d *decoder) known(v value) Known {
	if d.int(v) != 0 {
		return Yes
	}
	return No
}

// perDevice applies a scalar to every device, or a list by ordinal.
func (d *decoder) perDevice(v value, devices map[int64]*Device, set func(*Device, value)) {
	if v.kind() != kList && v.kind() != kTuple {
		for _, dev := range devices {
			set(dev, v)
		}
		return
	}
	i := int64(0)
	_ = d.each(v, func(x value) error {
		if dev := devices[i]; dev != nil {
			set(dev, x)
		}
		i++
		return nil
	})
}

func (d *decoder) assembleSegments(v value, device func(int64) (*Device, error)) error {
	if v.kind() != kList {
		d.note("segments that are no list")
		return nil
	}
	return d.each(v, func(x value) error {
		if x.kind() != kSegment {
			d.note("segment that is no dictionary")
			return nil
		}
		row := &d.segments[x.index()]
		dev, err := device(row.device)
		if err != nil {
			return err
		}
		s := row.Segment
		s.Blocks = d.blocks[row.firstBlock : row.firstBlock+row.numBlocks : row.firstBlock+row.numBlocks]
		at := s.Address
		for i := range s.Blocks {
			if b := &s.Blocks[i]; b.Address == 0 { // not recorded before 2.1: blocks lie one after the other
				b.Address = at
			}
			at = s.Blocks[i].Address + uint64(s.Blocks[i].Size)
		}
		dev.Segments = append(dev.Segments, s)
		return nil
	})
}

// assembleTraces gives each device its events, as a view on the columns.
func (d *decoder) assembleTraces(v value, device func(int64) (*Device, error)) error {
	if v.kind() != kList {
		d.note("device_traces that are no list")
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
		dev.Events, dev.FirstEvent = d.events.slice(first, first+l.count), first
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
			dev.OOMs = append(dev.OOMs, OutOfMemory{i, f})
		}
	}
	return nil
}

// gather is the events of the given rows.
func (e *Events) gather(rows []int) Events {
	return Events{
		Action: pick(e.Action, rows), Address: pick(e.Address, rows), Size: pick(e.Size, rows), TimeUS: pick(e.TimeUS, rows),
		Stack: pick(e.Stack, rows), Stream: pick(e.Stream, rows), Pool: pick(e.Pool, rows),
		CompileContext: pick(e.CompileContext, rows), Metadata: pick(e.Metadata, rows), Internal: pick(e.Internal, rows),
		ForwardStack: pick(e.ForwardStack, rows), Category: pick(e.Category, rows),
	}
}

func pick[T any](column []T, rows []int) []T {
	if column == nil {
		return nil
	}
	out := make([]T, len(rows))
	for i, row := range rows {
		out[i] = column[row]
	}
	return out
}

// assembleHost reads the pinned-memory trace, a list of events or of one such
// list for each device.
func (d *decoder) assembleHost(v value) error {
	if v.kind() != kList {
		return nil
	}
	h := &Device{Ordinal: -1}
	l := &d.lists[v.index()]
	if l.length() > 0 && (l.count > 0 || l.items[0].kind() != kList) {
		if err := d.setEvents(h, l); err != nil {
			return err
		}
	} else if err := d.assembleTraces(v, func(int64) (*Device, error) {
		if h.Events.Len() > 0 {
			d.note("second trace of pinned memory, left out")
			return &Device{}, nil
		}
		return h, nil
	}); err != nil {
		return err
	}
	d.out.Host = mergeHost(d.out.Host, h)
	return nil
}

// mergeHost joins the segments and the trace of pinned memory; nil for neither.
func mergeHost(a, b *Device) *Device {
	if a == nil {
		a = &Device{Ordinal: -1}
	}
	if len(b.Segments) > 0 {
		a.Segments = b.Segments
	}
	if b.Events.Len() > 0 {
		a.Events, a.OOMs, a.FirstEvent = b.Events, b.OOMs, b.FirstEvent
	}
	if len(a.Segments) == 0 && a.Events.Len() == 0 {
		return nil
	}
	return a
}

func (d *decoder) assembleAnnotations(v value) error {
	return d.each(v, func(x value) error {
		if x.kind() != kNote {
			d.note("annotation that is no dictionary")
		}
		return nil
	})
}

// flatten lists the allocator's settings, nested ones with a dot.
func (d *decoder) flatten(v value, prefix string, depth int) {
	if v.kind() != kDict || depth > 4 {
		return
	}
	e := d.dicts[v.index()]
	for i := 0; i+1 < len(e.items) && len(d.out.Settings) < 1000; i += 2 {
		key := prefix + d.brief(e.items[i])
		if e.items[i+1].kind() == kDict {
			d.flatten(e.items[i+1], key+".", depth+1)
			continue
		}
		d.out.Settings = append(d.out.Settings, Setting{key, d.brief(e.items[i+1])})
	}
}

// era tells which PyTorch wrote the file, by the fields that came and went.
func (d *decoder) era(items []value) string {
	has := func(key StringID) bool {
		for i := 0; i < len(items); i += 2 {
			if items[i] == newValue(kString, uint64(key)) {
				return true
			}
		}
		return false
	}
	in := func(key StringID) bool { return d.eventKeys&(1<<key) != 0 }
	settings := d.out.Settings
	switch {
	case d.out.BareSegments:
		return "list form (torch.cuda.memory_snapshot)"
	case len(d.histories) > 0:
		return "<=2.0 (history in blocks)"
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
	case d.rows > 0 && !in(sTimeUS):
		return "2.0/2.1-dev"
	}
	return "2.1/2.2"
}

// report turns the counts of damage and unknown keys into words.
func (d *decoder) report() {
	for _, x := range d.damage {
		text := fmt.Sprintf("%s, near offset %d", x.text, x.at)
		if x.count > 1 {
			text = fmt.Sprintf("%s, %d times, first near offset %d", x.text, x.count, x.at)
		}
		d.out.Damage = append(d.out.Damage, text)
	}
	for _, u := range d.unknown {
		d.out.Unknown = append(d.out.Unknown, *u)
	}
	slices.SortFunc(d.out.Unknown, func(a, b Unknown) int {
		return cmp.Or(cmp.Compare(a.Where, b.Where), cmp.Compare(a.Key, b.Key))
	})
}
