package snapshot

import (
	"maps"
	"slices"

	"github.com/nlpodyssey/gopickle/types"
)

// snapshot reads the one object that a file holds.
func (g *general) snapshot(root any) error {
	d := g.d
	top, _ := g.row(sEmpty, kDict, root)
	if l, ok := root.(*types.List); ok {
		top = dictRow{values: map[StringID]any{sSegments: l}, mask: 1 << sSegments}
		d.out.BareSegments = true
	}
	traces := top.values[sDeviceTraces]
	if !top.has(sDeviceTraces) {
		traces = top.values[sTraces]
	}
	d.out.HasTraces = top.has(sDeviceTraces) || top.has(sTraces)
	if !top.has(sSegments) && !d.out.HasTraces {
		return errNoSnapshot()
	}
	devices := deviceTable{d: d, byOrdinal: map[int64]*Device{}}
	if err := g.segments(top.values[sSegments], devices.get); err != nil {
		return err
	}
	if d.out.BareSegments && len(elements(root)) > 0 && len(devices.byOrdinal) == 0 {
		return errNoSnapshot()
	}
	if err := g.traces(traces, devices.get); err != nil {
		return err
	}
	if err := g.host(top); err != nil {
		return err
	}
	if err := g.annotations(top.values[sExternalAnnotations]); err != nil {
		return err
	}
	for _, name := range elements(top.values[sCategories]) {
		d.out.CategoryNames = append(d.out.CategoryNames, g.brief(name))
	}
	g.settings(top.values[sAllocatorSettings], "", 0)
	settings, _ := top.values[sAllocatorSettings].(*types.Dict)
	limits := dictRow{values: map[StringID]any{}}
	if settings != nil {
		for _, e := range *settings {
			if s, ok := e.Key.(string); ok {
				limits.values[g.intern(s)] = e.Value
			}
		}
	}
	maps.Copy(limits.values, top.values)
	g.perDevice(limits.values[sTraceMax], devices, func(dev *Device, v any) { dev.TraceMax = max(g.int(v), 0) })
	g.perDevice(limits.values[sTraceOverflowed], devices, func(dev *Device, v any) { dev.Overflowed = d.known(g.value(v)) })
	d.out.Devices = devices.list()
	for i := range d.out.Devices {
		d.setUnpairedAside(&d.out.Devices[i])
	}
	d.out.Era = d.era(func(key StringID) bool { _, ok := limits.values[key]; return ok })
	err := d.readTracebacks()
	d.report()
	return err
}

// perDevice applies a scalar to every device, or a list by ordinal.
func (g *general) perDevice(v any, devices deviceTable, set func(*Device, any)) {
	switch v.(type) {
	case nil:
	case *types.List, *types.Tuple:
		for i, x := range elements(v) {
			if dev := devices.byOrdinal[int64(i)]; dev != nil {
				set(dev, x)
			}
		}
	default:
		for _, ordinal := range slices.Sorted(maps.Keys(devices.byOrdinal)) {
			set(devices.byOrdinal[ordinal], v)
		}
	}
}

func (g *general) settings(v any, prefix string, depth int) {
	dict, ok := v.(*types.Dict)
	if !ok && v != nil {
		g.note(oddSettings)
	}
	if !ok || depth > 4 || g.shape(dict) != kDict {
		return
	}
	for _, e := range *dict {
		if !g.d.roomForSetting() {
			return
		}
		key := prefix + short(g.brief(e.Key))
		if inner, nested := e.Value.(*types.Dict); nested && g.shape(inner) == kDict {
			g.settings(e.Value, key+".", depth+1)
			continue
		}
		g.d.out.Settings = append(g.d.out.Settings, Setting{key, short(g.brief(e.Value))})
	}
}

func (g *general) annotations(v any) error {
	rows, err := g.table(v)
	for _, x := range rows {
		r, ok := g.row(sExternalAnnotations, kNote, x)
		if !ok {
			g.note("annotation that is no dictionary")
			continue
		}
		g.d.out.Annotations = append(g.d.out.Annotations, Annotation{Start: g.d.starts(g.text(r.values[sStage])),
			Name:   g.text(r.values[sName]),
			Device: int(g.int(r.values[sDevice])), TimeUS: g.int(r.values[sTimeUS])})
	}
	return err
}

// host reads pinned memory, whose trace is a list of events or of one such
// list for each device.
func (g *general) host(top dictRow) error {
	h, other := &Device{Ordinal: -1}, &Device{Ordinal: -1}
	if err := g.segments(top.values[sHostSegments], func(int64) (*Device, error) { return h, nil }); err != nil {
		return err
	}
	v := top.values[sHostTraces]
	if l := elements(v); len(l) > 0 {
		if _, nested := l[0].(*types.List); !nested {
			if err := g.events(other, v); err != nil {
				return err
			}
		} else if err := g.traces(v, func(int64) (*Device, error) { return firstTrace(g.d, other), nil }); err != nil {
			return err
		}
	}
	g.d.out.Host = mergeHost(h, other)
	return nil
}

func (g *general) traces(v any, device func(int64) (*Device, error)) error {
	if _, ok := v.(*types.List); !ok {
		if v != nil {
			g.note("device_traces that are no list")
		}
		return nil
	}
	lists, err := g.table(v)
	if err != nil {
		return err
	}
	for i, trace := range lists {
		if _, ok := trace.(*types.List); !ok {
			g.note("trace that is no list")
			continue
		}
		if len(elements(trace)) == 0 {
			continue
		}
		dev, err := device(int64(i))
		if err != nil {
			return err
		}
		if err := g.events(dev, trace); err != nil {
			return err
		}
	}
	return nil
}

func (g *general) events(dev *Device, v any) error {
	d := g.d
	rows, err := g.table(v)
	if err != nil {
		return err
	}
	first, firstOOM := d.rows, len(d.ooms)
	for _, x := range rows {
		r, ok := g.row(sDeviceTraces, kEvent, x)
		if !ok {
			g.note("trace entry that is no event")
			continue
		}
		d.eventKeys |= r.mask
		pool := r.values[sPoolID]
		if !r.has(sPoolID) {
			pool = r.values[sSegmentPoolID]
		}
		e := row{action: d.actionOf(g.text(r.values[sAction])), stream: g.stream(r.values[sStream]), pool: g.pool(pool),
			stack: g.stack(r.values[sFrames]), forward: g.stack(r.values[sForwardFrames]), deviceFree: g.optional(r, sDeviceFree) + 1}
		e.numbers[stepAddress], e.numbers[stepSize] = g.address(r.values[sAddr]), uint64(g.size(r, sSize))
		e.numbers[stepTime] = uint64(g.int(r.values[sTimeUS]))
		*e.text(stepCompile), *e.text(stepMetadata) = g.text(r.values[sCompileContext]), g.text(r.values[sUserMetadata])
		*e.text(stepInternal) = g.text(r.values[sInternalMetadata])
		if r.has(sCategory) {
			e.category = categoryOf(g.int(r.values[sCategory]))
		}
		if _, err := d.addEvent(&e); err != nil {
			return err
		}
	}
	if d.rows == first {
		return nil
	}
	dev.Events, dev.FirstEvent = d.events.Slice(first, d.rows), first
	for _, o := range d.ooms[firstOOM:] {
		dev.OOMs = append(dev.OOMs, OutOfMemory{o.Event - first, o.DeviceFree})
	}
	return nil
}

// pool is a pair; JSON makes a list of it.
func (g *general) pool(v any) uint32 {
	if p, ok := poolOf(v); ok {
		return g.d.pool(p)
	}
	if _, ok := v.(*types.List); ok && len(elements(v)) == 2 {
		return g.d.pool(Pool{g.int(elements(v)[0]), g.int(elements(v)[1])})
	}
	if v != nil {
		g.note(oddPool)
	}
	return 0
}

func (g *general) stack(v any) StackID {
	l, ok := v.(*types.List)
	if !ok {
		_, tuple := v.(*types.Tuple)
		if _, pool := poolOf(v); v != nil && (!tuple || pool) {
			g.note("stack that is no list of frames")
			return 0
		}
	} else if id, ok := g.stacks[l]; ok {
		return id
	}
	var frames []FrameID
	for _, x := range elements(v) {
		f := Frame{}
		if s, ok := x.(string); ok {
			f.Function = g.intern(s)
		} else if r, ok := g.row(sFrames, kFrame, x); ok {
			f = g.frame(r)
		} else {
			g.note("frame that is neither a dictionary nor text")
			continue
		}
		id, _ := g.d.frame(f)
		frames = append(frames, id)
	}
	id := g.d.out.stacks.intern(frames)
	if ok {
		g.stacks[l] = id
	}
	return id
}

func (g *general) frame(r dictRow) Frame {
	f := Frame{Function: g.text(r.values[sName]), File: g.text(r.values[sFilename]), Line: lineOf(g.value(r.values[sLine]))}
	var fx [numFX]StringID
	for key := sFXNodeOp; key <= sFXOriginalTrace; key++ {
		if r.has(key) {
			fx[key-sFXNodeOp], _ = g.d.intern([]byte(g.brief(r.values[key])))
		}
	}
	f.FX, _ = g.d.fx(fxNotes(fx))
	return f
}

func (g *general) segments(v any, device func(int64) (*Device, error)) error {
	if _, ok := v.(*types.List); !ok && v != nil {
		g.note("segments that are no list")
	}
	rows, err := g.table(v)
	if err != nil {
		return err
	}
	for _, x := range rows {
		r, ok := g.row(sSegments, kSegment, x)
		if !ok {
			g.note("segment that is no dictionary")
			continue
		}
		dict, _ := x.(*types.Dict)
		if g.placed[dict] {
			g.note("segment that is listed twice, counted once")
			continue
		}
		g.placed[dict] = true
		s := Segment{Address: g.address(r.values[sAddress]), TotalSize: g.size(r, sTotalSize), Allocated: g.optional(r,
			sAllocatedSize),
			Active: g.optional(r, sActiveSize), Requested: g.optional(r, sRequestedSize), Stream: g.stream(r.values[sStream]),
			Pool: g.pool(r.values[sSegmentPoolID]), Small: g.is(r.values[sSegmentType], sSmall),
			Expandable: r.values[sIsExpandable] == true,
			Stack:      g.stack(r.values[sFrames]), ForwardStack: g.stack(r.values[sForwardFrames])}
		blocks, err := g.table(r.values[sBlocks])
		if err != nil {
			return err
		}
		for _, x := range blocks {
			r, ok := g.row(sBlocks, kBlock, x)
			if !ok {
				g.note("block that is no dictionary")
				continue
			}
			b, err := g.block(r)
			if err != nil {
				return err
			}
			s.Blocks = append(s.Blocks, b)
		}
		placeBlocks(&s)
		dev, err := device(g.int(r.values[sDevice]))
		if err != nil {
			return err
		}
		dev.Segments = append(dev.Segments, s)
	}
	return nil
}

func (g *general) block(r dictRow) (Block, error) {
	b := Block{Address: g.address(r.values[sAddress]), Size: g.size(r, sSize), Requested: g.optional(r, sRequestedSize),
		Stack: g.stack(r.values[sFrames]), ForwardStack: g.stack(r.values[sForwardFrames])}
	if r.has(sState) {
		b.State = g.d.stateOf(g.value(r.values[sState]))
	}
	uses, err := g.table(r.values[sHistory])
	b.FirstHistory = int32(len(g.d.histories))
	for _, x := range uses {
		r, ok := g.row(sHistory, kHistory, x)
		if !ok {
			g.note("block history that is no dictionary")
			continue
		}
		g.d.histories = append(g.d.histories, History{g.address(r.values[sAddr]), g.size(r, sRealSize),
			g.stack(r.values[sFrames])})
		b.History++
	}
	g.d.presentUse(&b)
	return b, err
}
