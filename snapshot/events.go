package snapshot

import "github.com/vramscope/vramscope/internal/pages"

// event is one trace entry while it is read.
type event struct {
	action         Action
	stream, pool   uint32
	address        uint64
	size           int64
	time           int64
	stack, forward StackID
	compile        StringID
	metadata       StringID
	internal       StringID
	category       int32
	deviceFree     int64 // -1: none
}

// eventBytes is what an event takes in the columns that every file has.
const eventBytes = 1 + 8 + 8 + 8 + 4

// addEvent fills the next row and gives its value. Columns are as long as the
// rows that are expected, so that a zero need not be written.
func (t *tables) addEvent(e *event) (value, error) {
	c, n := &t.events, t.rows
	if n == len(c.Action) {
		if err := t.growEvents(); err != nil {
			return 0, err
		}
	}
	c.Action[n] = e.action
	c.Address[n] = e.address
	c.Size[n] = e.size
	c.TimeUS[n] = e.time
	c.Stack[n] = e.stack
	if e.stream|e.pool|uint32(e.compile)|uint32(e.metadata)|uint32(e.internal)|uint32(e.forward)|uint32(e.category) != 0 {
		if err := t.addOptional(e, n); err != nil {
			return 0, err
		}
	}
	if e.deviceFree >= 0 || e.action == OOM {
		t.used += 16
		t.ooms = append(t.ooms, OutOfMemory{Event: n, DeviceFree: e.deviceFree})
	}
	if e.action >= ActionOther {
		t.unknownAction(e.action)
	}
	t.rows = n + 1
	return newValue(kEvent, uint64(n)), nil
}

// addOptional fills the columns that most files leave at zero; such a column
// is only made for its first value that isn't.
func (t *tables) addOptional(e *event, n int) error {
	c := &t.events
	if put(t, &c.Stream, n, e.stream) && put(t, &c.Pool, n, e.pool) && put(t, &c.CompileContext, n, e.compile) &&
		put(t, &c.Metadata, n, e.metadata) && put(t, &c.Internal, n, e.internal) &&
		put(t, &c.ForwardStack, n, e.forward) && put(t, &c.Category, n, e.category) {
		return nil
	}
	return t.take(0)
}

// put is false where there is no memory for a column, as take then says.
func put[T uint32 | int32 | StringID | StackID](t *tables, column *[]T, n int, v T) bool {
	if v == 0 {
		return true
	}
	if *column == nil {
		if t.take(int64(len(t.events.Action))*4) != nil {
			return false
		}
		*column = pages.Make[T](len(t.events.Action))
	}
	(*column)[n] = v
	return true
}

// growEvents makes all columns as long as the file is likely to need; memory
// that isn't touched costs nothing.
func (t *tables) growEvents() error {
	c := &t.events
	old := len(c.Action)
	size := t.estimate(old+1, old, &t.eventGrowth)
	if err := t.take(int64(size-old) * eventBytes); err != nil {
		return err
	}
	resize(&c.Action, size)
	resize(&c.Address, size)
	resize(&c.Size, size)
	resize(&c.TimeUS, size)
	resize(&c.Stack, size)
	resizeOptional(&c.Stream, size)
	resizeOptional(&c.Pool, size)
	resizeOptional(&c.CompileContext, size)
	resizeOptional(&c.Metadata, size)
	resizeOptional(&c.Internal, size)
	resizeOptional(&c.ForwardStack, size)
	resizeOptional(&c.Category, size)
	t.readyRows = old
	return nil
}

func resize[T any](column *[]T, size int) {
	grown := pages.Make[T](size)
	copy(grown, *column)
	*column = grown
}

func resizeOptional[T any](column *[]T, size int) {
	if *column != nil {
		resize(column, size)
	}
}

// lastAction is that of all words for which no number is left.
const lastAction = Action(255)

// actionOf is the action for a word in the file; new words get numbers of
// their own as long as there are any.
func (t *tables) actionOf(word StringID) Action {
	if a, ok := t.actions[word]; ok {
		return a
	}
	a := ActionOther + Action(len(t.out.otherActions))
	if a == lastAction {
		return a
	}
	t.out.otherActions = append(t.out.otherActions, t.out.Strings[word])
	t.actions[word] = a
	return a
}

// unknownAction counts an event whose action this package doesn't know.
func (t *tables) unknownAction(a Action) {
	id := [2]StringID{sAction, StringID(a)}
	if t.unknown[id] == nil {
		t.unknown[id] = &Unknown{Where: known[sAction], Key: t.out.ActionName(a)}
	}
	t.unknown[id].Count++
}

// categoryOf is an index into Snapshot.CategoryNames plus one.
func categoryOf(n int64) int32 {
	if 0 <= n && n < 1<<20 {
		return int32(n) + 1
	}
	return 0
}

// closeEvent is the general way to an event: any keys, any order, any values.
func (d *decoder) closeEvent(items []value) (value, bool, error) {
	e := event{deviceFree: -1, action: 255}
	var err error
	for i := 0; i < len(items) && err == nil; i += 2 {
		v := items[i+1]
		key := d.key(sDeviceTraces, items, i)
		d.eventKeys |= 1 << key
		switch key {
		case sAction:
			e.action = d.actionOf(d.str(v))
		case sAddr:
			e.address = d.address(v)
		case sSize:
			e.size = d.bytes(v)
		case sStream:
			e.stream = d.stream(v)
		case sTimeUS:
			e.time = d.int(v)
		case sFrames:
			e.stack, err = d.stackOf(v)
		case sForwardFrames:
			e.forward, err = d.stackOf(v)
		case sPoolID, sSegmentPoolID:
			e.pool = d.poolOf(v)
		case sCompileContext:
			if e.compile = d.str(v); e.compile == sNA {
				e.compile = 0
			}
		case sUserMetadata:
			e.metadata = d.str(v)
		case sInternalMetadata:
			e.internal = d.str(v)
		case sCategory:
			e.category = categoryOf(d.int(v))
		case sDeviceFree:
			e.deviceFree = d.optional(v)
		}
	}
	if err != nil {
		return 0, false, err
	}
	row, err := d.addEvent(&e)
	return row, true, err
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
