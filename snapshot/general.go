package snapshot

import (
	"bytes"
	"fmt"
	mathbig "math/big"

	"github.com/nlpodyssey/gopickle/pickle"
	"github.com/nlpodyssey/gopickle/types"
)

// DecodeGeneral reads one uncompressed pickle with a general unpickler. It is
// the second opinion on Decode, and the reader of harmless pickles that are
// laid out in ways Decode doesn't know; it takes ten times the file in memory.
func DecodeGeneral(b []byte) (s *Snapshot, err error) {
	if err := scan(b); err != nil {
		return nil, err
	}
	root, err := unpickle(b)
	if err != nil {
		return nil, err
	}
	g := general{d: newDecoder(), stacks: map[*types.List]StackID{}, active: map[*types.List]bool{}}
	g.d.p = len(b)
	if len(b) > 1 && b[0] == opProto {
		g.d.out.Protocol = int(b[1])
	}
	if err := g.snapshot(root); err != nil {
		return nil, err
	}
	g.d.out.Fast = false
	return g.d.out, nil
}

// unpickle builds the objects of a pickle that scan has accepted.
func unpickle(b []byte) (root any, err error) {
	r := bytes.NewReader(b)
	defer func() {
		if p := recover(); p != nil {
			err = &Error{Offset: int64(len(b) - r.Len()), Cause: fmt.Sprintf("not a valid pickle: %v", p)}
		}
	}()
	u := pickle.NewUnpickler(r)
	u.FindClass = func(module, name string) (any, error) { return nil, fmt.Errorf("%s.%s refused", module, name) }
	u.PersistentLoad = func(any) (any, error) { return nil, fmt.Errorf("persistent object refused") }
	if root, err = u.Load(); err != nil {
		return nil, &Error{Offset: int64(len(b) - r.Len()), Cause: "not a valid pickle: " + err.Error()}
	}
	return root, nil
}

// general turns Python objects into the rows of a Snapshot. Strings, frames
// and stacks are interned by the same tables as the decoder's.
type general struct {
	d      *decoder
	stacks map[*types.List]StackID
	active map[*types.List]bool // lists used as tables, once each
}

// fields are the items of a dictionary by key; keys that are no strings are left out.
func fields(v any) map[string]any {
	d, ok := v.(*types.Dict)
	if !ok {
		return nil
	}
	m := make(map[string]any, len(*d))
	for _, e := range *d {
		if k, ok := e.Key.(string); ok {
			m[k] = e.Value
		}
	}
	return m
}

// rows are the elements of a list that stands for a table.
func (g *general) rows(v any) ([]any, error) {
	l, ok := v.(*types.List)
	if !ok || len(*l) == 0 {
		return nil, nil
	}
	if g.active[l] {
		return nil, &Error{Offset: -1, Cause: "a list is used twice as a table"}
	}
	g.active[l] = true
	return *l, nil
}

func (g *general) snapshot(root any) error {
	d := g.d
	top := fields(root)
	if l, ok := root.(*types.List); ok {
		top = map[string]any{"segments": l}
		d.out.BareSegments = true
	}
	_, hasSegments := top["segments"]
	traces, hasTraces := top["device_traces"]
	if other, ok := top["traces"]; ok && !hasTraces {
		traces, hasTraces = other, true
	}
	if !hasSegments && !hasTraces {
		return &Error{Offset: -1, Cause: "a pickle, but not of a memory snapshot: it has neither segments nor device_traces", Err: ErrNotSnapshot}
	}
	d.out.HasTraces = hasTraces
	byDevice := map[int]*Device{}
	device := func(i int) *Device {
		if byDevice[i] == nil {
			byDevice[i] = &Device{Ordinal: i}
		}
		return byDevice[i]
	}
	if err := g.segments(top["segments"], device); err != nil {
		return err
	}
	lists, err := g.rows(traces)
	if err != nil {
		return err
	}
	for i, trace := range lists {
		first := d.rows
		if err := g.events(trace); err != nil {
			return err
		}
		if d.rows > first {
			dev := device(i)
			dev.Events, dev.FirstEvent = d.events.slice(first, d.rows), first
			for _, o := range d.ooms {
				if o.Event >= first {
					dev.OOMs = append(dev.OOMs, OutOfMemory{o.Event - first, o.DeviceFree})
				}
			}
		}
	}
	for i := 0; i < maxDevices; i++ {
		if dev := byDevice[i]; dev != nil {
			d.out.Devices = append(d.out.Devices, *dev)
		}
	}
	for _, a := range elements(top["external_annotations"]) {
		f := fields(a)
		d.out.Annotations = append(d.out.Annotations, Annotation{Start: f["stage"] == "START", Name: g.text(f["name"]), Device: int(number(f["device"])), TimeUS: number(f["time_us"])})
	}
	g.settings(top["allocator_settings"], "", 0)
	d.report()
	return nil
}

func elements(v any) []any {
	switch l := v.(type) {
	case *types.List:
		return *l
	case *types.Tuple:
		return *l
	}
	return nil
}

func (g *general) settings(v any, prefix string, depth int) {
	d, ok := v.(*types.Dict)
	if !ok || depth > 4 {
		return
	}
	for _, e := range *d {
		key := prefix + show(e.Key)
		if _, nested := e.Value.(*types.Dict); nested {
			g.settings(e.Value, key+".", depth+1)
			continue
		}
		g.d.out.Settings = append(g.d.out.Settings, Setting{key, show(e.Value)})
	}
}

// show is a value as Python prints it.
func show(v any) string {
	switch x := v.(type) {
	case nil:
		return "None"
	case bool:
		if x {
			return "True"
		}
		return "False"
	}
	return fmt.Sprint(v)
}

func (g *general) text(v any) StringID {
	s, _ := v.(string)
	id, _ := g.d.intern([]byte(s))
	return id
}

// number is an integer of up to 64 bits; anything else is 0.
func number(v any) int64 {
	switch x := v.(type) {
	case int:
		return int64(x)
	case *mathbig.Int:
		if x.IsInt64() {
			return x.Int64()
		}
	case bool:
		if x {
			return 1
		}
	}
	return 0
}

func size(v any) int64 {
	if n := number(v); 0 <= n && n <= maxBytes {
		return n
	}
	return 0
}

func optionalSize(f map[string]any, key string) int64 {
	if v, ok := f[key]; ok {
		return size(v)
	}
	return -1
}

func address(v any) uint64 {
	if x, ok := v.(*mathbig.Int); ok {
		return new(mathbig.Int).And(x, new(mathbig.Int).SetUint64(1<<64-1)).Uint64()
	}
	return uint64(number(v))
}

func (g *general) pool(v any) uint32 {
	if l := elements(v); len(l) == 2 {
		return g.d.pool(Pool{number(l[0]), number(l[1])})
	}
	return 0
}

func (g *general) stream(v any) uint32 {
	raw := address(v)
	id, ok := g.d.streams[raw]
	if !ok {
		id = uint32(len(g.d.out.Streams))
		g.d.out.Streams = append(g.d.out.Streams, raw)
		g.d.streams[raw] = id
	}
	return id
}

func (g *general) stack(v any) StackID {
	l, ok := v.(*types.List)
	if !ok {
		return 0
	}
	if id, ok := g.stacks[l]; ok {
		return id
	}
	var frames []FrameID
	for _, x := range *l {
		f := Frame{}
		if s, ok := x.(string); ok {
			f.Function = g.text(s)
		} else if m := fields(x); m != nil {
			f = Frame{Function: g.text(m["name"]), File: g.text(m["filename"])}
			if n, ok := m["line"].(int); ok && n >= 0 && n < 1<<31 {
				f.Line = int32(n)
			}
			fx := ""
			for _, key := range known[sFXNodeOp : sFXOriginalTrace+1] {
				if v, ok := m[key]; ok {
					fx += map[bool]string{true: " "}[fx != ""] + key + "=" + show(v)
				}
			}
			f.FX = g.text(fx)
		} else {
			continue
		}
		id, _ := g.d.frame(f)
		frames = append(frames, id)
	}
	id := g.d.out.stacks.intern(frames)
	g.stacks[l] = id
	return id
}

func (g *general) segments(v any, device func(int) *Device) error {
	rows, err := g.rows(v)
	if err != nil {
		return err
	}
	for _, row := range rows {
		f := fields(row)
		if f == nil {
			continue
		}
		s := Segment{Address: address(f["address"]), TotalSize: size(f["total_size"]), Allocated: optionalSize(f, "allocated_size"),
			Active: optionalSize(f, "active_size"), Requested: optionalSize(f, "requested_size"), Stream: g.stream(f["stream"]),
			Pool: g.pool(f["segment_pool_id"]), Small: f["segment_type"] == "small", Expandable: f["is_expandable"] == true,
			Stack: g.stack(f["frames"]), ForwardStack: g.stack(f["forward_frames"])}
		blocks, err := g.rows(f["blocks"])
		if err != nil {
			return err
		}
		at := s.Address
		for _, row := range blocks {
			b := g.block(fields(row))
			if b.Address == 0 {
				b.Address = at
			}
			at = b.Address + uint64(b.Size)
			s.Blocks = append(s.Blocks, b)
		}
		ordinal := number(f["device"])
		if ordinal < 0 || ordinal >= maxDevices {
			ordinal = 0
		}
		dev := device(int(ordinal))
		dev.Segments = append(dev.Segments, s)
	}
	return nil
}

func (g *general) block(f map[string]any) Block {
	b := Block{Address: address(f["address"]), Size: size(f["size"]), Requested: optionalSize(f, "requested_size"),
		Stack: g.stack(f["frames"]), ForwardStack: g.stack(f["forward_frames"])}
	switch f["state"] {
	case "active_allocated":
		b.State = ActiveAllocated
	case "active_pending_free", "active_awaiting_free":
		b.State = ActivePendingFree
	}
	for i, x := range elements(f["history"]) {
		m := fields(x)
		h := History{address(m["addr"]), size(m["real_size"]), g.stack(m["frames"])}
		if i == 0 {
			b.FirstHistory = int32(len(g.d.out.Histories))
			if b.State != Inactive {
				if b.Stack == 0 {
					b.Stack = h.Stack
				}
				if b.Requested < 0 {
					b.Requested = h.RealSize
				}
			}
		}
		b.History++
		g.d.out.Histories = append(g.d.out.Histories, h)
	}
	return b
}

func (g *general) events(v any) error {
	rows, err := g.rows(v)
	if err != nil {
		return err
	}
	for _, row := range rows {
		f := fields(row)
		if f == nil {
			continue
		}
		e := event{action: g.d.actionOf(g.text(f["action"])), stream: g.stream(f["stream"]), pool: g.pool(f["pool_id"]), address: address(f["addr"]),
			size: size(f["size"]), time: number(f["time_us"]), stack: g.stack(f["frames"]), forward: g.stack(f["forward_frames"]),
			compile: g.text(f["compile_context"]), metadata: g.text(f["user_metadata"]), internal: g.text(f["internal_metadata"]), deviceFree: optionalSize(f, "device_free")}
		if e.compile == sNA {
			e.compile = 0
		}
		if n, ok := f["category"]; ok {
			e.category = int32(number(n)) + 1
		}
		if _, err := g.d.addEvent(&e); err != nil {
			return err
		}
	}
	return nil
}
