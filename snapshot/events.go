package snapshot

import "github.com/vramscope/vramscope/internal/pages"

// eventBytes is what an event takes in the columns that every file has.
const eventBytes = 1 + 8 + 8 + 8 + 4

// failureBytes is what a request that failed takes, with what is later worked out of it.
const failureBytes = 160

// addEvent fills the next row and gives its value. Columns are as long as the
// rows that are expected, so that a zero need not be written.
func (t *tables) addEvent(r *row) (value, error) {
	c, n := &t.events, t.rows
	if n == len(c.Action) {
		if err := t.growEvents(); err != nil {
			return 0, err
		}
	}
	if *r.text(stepCompile) == sNA {
		*r.text(stepCompile) = 0
	}
	if r.stream|r.pool|uint32(*r.text(stepCompile))|uint32(*r.text(stepMetadata))|uint32(*r.text(stepInternal))|
		uint32(r.forward)|uint32(r.category) != 0 {
		if err := t.addOptional(r, n); err != nil {
			return 0, err
		}
	}
	c.Action[n] = r.action
	c.Address[n] = r.numbers[stepAddress]
	c.Size[n] = r.number(stepSize)
	c.TimeUS[n] = r.number(stepTime)
	c.Stack[n] = r.stack
	if r.deviceFree > 0 || r.action == OOM {
		if err := t.take(failureBytes); err != nil {
			return 0, err
		}
		t.ooms = append(t.ooms, OutOfMemory{Event: n, DeviceFree: r.deviceFree - 1})
	}
	if r.action >= ActionOther {
		t.unknownAction(r.action)
	}
	t.rows = n + 1
	return newValue(kEvent, uint64(n)), nil
}

// addOptional fills the columns that most files leave at zero; such a column
// is only made for its first value that isn't.
func (t *tables) addOptional(r *row, n int) error {
	c := &t.events
	if put(t, &c.Stream, n, r.stream) && put(t, &c.Pool, n, r.pool) && put(t, &c.CompileContext, n, *r.text(stepCompile)) &&
		put(t, &c.Metadata, n, *r.text(stepMetadata)) && put(t, &c.Internal, n, *r.text(stepInternal)) &&
		put(t, &c.ForwardStack, n, r.forward) && put(t, &c.Category, n, r.category) {
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
