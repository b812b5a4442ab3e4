package recorder

import "math/rand/v2"

// objects builds the Python objects of a recording.
type objects struct {
	style  Style
	frames map[*Frame]*Dict
	stacks map[*Stack]*List
	orders map[string]uint64 // of keys, by kind of dictionary
}

// Objects is the recording as Python objects.
func (r *Recording) Objects(s Style) any {
	o := &objects{style: s, frames: map[*Frame]*Dict{}, stacks: map[*Stack]*List{}, orders: map[string]uint64{}}
	segments := o.segments(r.Segments)
	if s.Bare {
		return segments
	}
	top := &Dict{}
	add := func(key string, v any) { top.Items = append(top.Items, Item{key, v}) }
	add("segments", segments)
	if !s.NoTraces {
		traces := &List{}
		for _, t := range r.Traces {
			traces.Items = append(traces.Items, o.events(t))
		}
		add("device_traces", traces)
	}
	if s.Era >= V2_3 {
		add("allocator_settings", dictOf(r.Settings))
	}
	if s.Era >= V2_5 {
		notes := &List{}
		for _, a := range r.Annotations {
			notes.Items = append(notes.Items, o.dict("annotation", Item{"stage", a.Stage}, Item{"name", &Text{a.Name}},
				Item{"device", a.Device}, Item{"time_us", a.TimeUS}))
		}
		add("external_annotations", notes)
	}
	if s.Era >= V2_15 {
		add("host_segments", o.segments(r.HostSegments))
		add("host_traces", &List{Items: []any{o.events(r.HostTraces)}})
	}
	top.Items = append(top.Items, r.Extra...)
	return o.shuffled("snapshot", top)
}

// dictOf is a dictionary; values that are items are one in turn.
func dictOf(items []Item) *Dict {
	d := &Dict{}
	for _, x := range items {
		if nested, ok := x.Value.([]Item); ok {
			x.Value = dictOf(nested)
		}
		d.Items = append(d.Items, x)
	}
	return d
}

// dict makes a dictionary of the items, leaving out keys that are empty.
func (o *objects) dict(kind string, items ...Item) *Dict {
	d := &Dict{Items: make([]Item, 0, len(items))}
	for _, x := range items {
		if x.Key != "" {
			d.Items = append(d.Items, x)
		}
	}
	return o.shuffled(kind, d)
}

// shuffled changes the order of keys, in the same way for all dictionaries of
// one kind and size.
func (o *objects) shuffled(kind string, d *Dict) *Dict {
	if o.style.Shuffle == 0 {
		return d
	}
	seed, ok := o.orders[kind]
	if !ok {
		seed = uint64(len(o.orders))
		o.orders[kind] = seed
	}
	r := rand.New(rand.NewPCG(uint64(o.style.Shuffle), seed))
	r.Shuffle(len(d.Items), func(i, j int) { d.Items[i], d.Items[j] = d.Items[j], d.Items[i] })
	return d
}

// when is an item, or the empty one that dict leaves out.
func when(condition bool, key string, value any) Item {
	if !condition {
		return Item{"", nil}
	}
	return Item{key, value}
}

func (o *objects) frame(f *Frame) *Dict {
	if d := o.frames[f]; d != nil {
		return d
	}
	d := o.dict("frame", append([]Item{{"name", &Text{f.Name}}, {"filename", &Text{f.File}}, {"line", f.Line}}, f.FX...)...)
	o.frames[f] = d
	return d
}

// stack is a list of frames; nil is an empty list.
func (o *objects) stack(s *Stack) *List {
	if s == nil {
		return &List{}
	}
	if l := o.stacks[s]; l != nil && !o.style.OwnLists {
		return l
	}
	l := &List{Items: make([]any, 0, len(s.Frames))}
	for _, f := range s.Frames {
		l.Items = append(l.Items, o.frame(f))
	}
	o.stacks[s] = l
	return l
}

func pair(p [2]int64) *Tuple { return &Tuple{Items: []any{p[0], p[1]}} }

func (o *objects) events(events []Event) *List {
	l := &List{Items: make([]any, 0, len(events))}
	era := o.style.Era
	for i := range events {
		e := &events[i]
		compile := e.Compile
		if compile == "" {
			compile = "N/A"
		}
		forward := &List{}
		for _, line := range e.Forward {
			forward.Items = append(forward.Items, &Text{line})
		}
		address := "addr"
		if e.Action == "oom" {
			address = "device_free"
		}
		value := e.Address
		if e.Action == "oom" {
			value = e.DeviceFree
		}
		items := []Item{
			{"action", e.Action}, when(value != nil, address, value), {"size", e.Size}, {"stream", e.Stream},
			when(era >= V2_1 && e.TimeUS != nil, "time_us", e.TimeUS),
			when(era >= V2_8, "compile_context", &Text{compile}),
			when(era >= V2_10, "user_metadata", &Text{e.Metadata}),
			when(era >= V2_11, "pool_id", pair(e.Pool)),
			when(e.Internal != "", "internal_metadata", e.Internal),
		}
		if e.Stack != nil {
			items = append(items, Item{"frames", o.stack(e.Stack)})
		}
		items = append(items, when(len(e.Forward) > 0, "forward_frames", forward), when(e.Category != nil, "category",
			e.Category))
		l.Items = append(l.Items, o.dict("event", append(items, e.Extra...)...))
	}
	return l
}

func (o *objects) segments(segments []Segment) *List {
	l := &List{}
	era := o.style.Era
	for i := range segments {
		s := &segments[i]
		kind := map[bool]string{true: "small", false: "large"}[s.Small]
		blocks := &List{}
		for j := range s.Blocks {
			blocks.Items = append(blocks.Items, o.block(&s.Blocks[j]))
		}
		items := []Item{
			{"device", s.Device}, {"address", s.Address}, {"total_size", s.Total}, {"allocated_size", s.Allocated},
			{"active_size", s.Active},
			when(era > V2_0, "requested_size", s.Requested), {"stream", s.Stream}, {"segment_type", kind},
			when(era > V2_0, "segment_pool_id", pair(s.Pool)), when(era > V2_0, "is_expandable", s.Expandable),
		}
		if era > V2_0 {
			items = append(items, Item{"frames", o.stack(s.Stack)})
		}
		l.Items = append(l.Items, o.dict("segment", append(append(items, Item{"blocks", blocks}), s.Extra...)...))
	}
	return l
}

func (o *objects) block(b *Block) *Dict {
	if o.style.Era == V2_0 {
		uses := &List{}
		for _, u := range b.History {
			items := []Item{{"addr", u.Address}, {"real_size", u.RealSize}}
			if u.Stack != nil {
				items = append(items, Item{"frames", o.stack(u.Stack)})
			}
			uses.Items = append(uses.Items, o.dict("use", items...))
		}
		return o.dict("block", append([]Item{{"size", b.Size}, {"state", b.State}, when(len(b.History) > 0, "history", uses)},
			b.Extra...)...)
	}
	return o.dict("block", append([]Item{{"address", b.Address}, {"size", b.Size}, {"requested_size", b.Requested},
		{"state", b.State},
		{"frames", o.stack(b.Stack)}}, b.Extra...)...)
}
