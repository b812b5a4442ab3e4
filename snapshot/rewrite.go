package snapshot

import "slices"

// Rewriter says what takes the place of every text that a program, a user or a
// machine brought into a snapshot. Every field must be set.
type Rewriter struct {
	// Frame is asked for every frame while its old texts are still there.
	Frame func(FrameID) (function, file string)

	FX func(fields [5]string) [5]string // op, name, target, info, trace

	Annotation     func(string) string // name of a record_function range
	Metadata       func(string) string // user_metadata and internal_metadata
	CompileContext func(string) string
	Category       func(string) string // of CategoryNames
	Action         func(string) string // that this package doesn't know
	Setting        func(Setting) Setting
	Unknown        func(Unknown) Unknown
	Damage         func(string) string
}

// Rewrite replaces all texts of the snapshot in place: no old one is left in it.
// Ids of frames and stacks stay what they are, ids of strings don't. It looks
// at every frame once and at every distinct text of an event once.
func (s *Snapshot) Rewrite(r Rewriter) {
	n := newTexts()
	for i := range s.Frames {
		f := &s.Frames[i]
		function, file := r.Frame(FrameID(i))
		f.Function, f.File = n.id(function), n.id(file)
	}
	for i := range s.FX {
		f := &s.FX[i]
		to := r.FX([5]string{s.Strings[f.Op], s.Strings[f.Name], s.Strings[f.Target], s.Strings[f.Info], s.Strings[f.Trace]})
		*f = FX{n.id(to[0]), n.id(to[1]), n.id(to[2]), n.id(to[3]), n.id(to[4])}
	}
	annotation := n.column(s, r.Annotation)
	for i := range s.Annotations {
		s.Annotations[i].Name = annotation(s.Annotations[i].Name)
	}
	metadata, internal, context := n.column(s, r.Metadata), n.column(s, r.Metadata), n.column(s, r.CompileContext)
	devices := make([]*Device, 0, len(s.Devices)+1)
	for i := range s.Devices {
		devices = append(devices, &s.Devices[i])
	}
	if s.Host != nil {
		devices = append(devices, s.Host)
	}
	for _, d := range devices {
		replace(d.Events.Metadata, metadata)
		replace(d.Events.Internal, internal)
		replace(d.Events.CompileContext, context)
	}
	s.Strings = n.list
	each(s.CategoryNames, r.Category)
	each(s.otherActions, func(name string) string {
		if slices.Contains(actionNames[:], name) {
			return name
		}
		return r.Action(name)
	})
	each(s.Settings, r.Setting)
	each(s.Unknown, r.Unknown)
	each(s.Damage, r.Damage)
}

// texts is a table of strings in the making.
type texts struct {
	list []string
	ids  map[string]StringID
}

func newTexts() *texts { return &texts{list: []string{""}, ids: map[string]StringID{"": 0}} }

func (n *texts) id(text string) StringID {
	id, ok := n.ids[text]
	if !ok {
		id = StringID(len(n.list))
		n.list = append(n.list, text)
		n.ids[text] = id
	}
	return id
}

// column translates the ids of one kind of text, each distinct one once.
func (n *texts) column(s *Snapshot, rewrite func(string) string) func(StringID) StringID {
	old, done := s.Strings, map[StringID]StringID{0: 0}
	return func(id StringID) StringID {
		to, ok := done[id]
		if !ok {
			to = n.id(rewrite(old[id]))
			done[id] = to
		}
		return to
	}
}

func replace(column []StringID, rewrite func(StringID) StringID) {
	last, to := StringID(0), StringID(0)
	for i, id := range column {
		if id != last { // runs of one value are the rule
			last, to = id, rewrite(id)
		}
		column[i] = to
	}
}

func each[T any](list []T, rewrite func(T) T) {
	for i := range list {
		list[i] = rewrite(list[i])
	}
}
