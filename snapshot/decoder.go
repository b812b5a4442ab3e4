package snapshot

import (
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/snapshot/input"
	"github.com/vramscope/vramscope/snapshot/pickle"
)

// Bounds on what a file may ask for. Real files stay far below all of them.
const (
	maxString = 64 << 20 // bytes of one string
	maxText   = 8 << 10  // of it that are kept: two bytes of a file may refer to it again
)

// decoder is a machine for the pickle's opcodes that recognises a snapshot's
// frames, events, blocks and segments as they close and appends them to
// columns. It never builds the objects themselves.
type decoder struct {
	fast

	partial   bool // the file may be cut off
	flattened int  // settings looked at
}

// tableList stands for every list that was read together with the rows in it.
var tableList = newValue(kList, 0)

func newDecoder(o Options) *decoder {
	d := &decoder{partial: o.Partial}
	d.total, d.limit, d.before = o.Size, o.MaxMemory, d.objects.beforeMore
	d.strings, d.frames, d.actions = make(map[string]StringID, 1024), make(map[Frame]FrameID, 1024), map[StringID]Action{}
	d.fxs = map[FX]FXID{{}: 0}
	d.streams, d.pools, d.unknown = map[uint64]uint32{0: 0}, map[Pool]uint32{{}: 0}, map[[2]StringID]*Unknown{}
	d.out = &Snapshot{Streams: []uint64{0}, Pools: []Pool{{}}, FX: make([]FX, 1), Cut: -1, stacks: newStackTable()}
	for i, s := range known {
		d.strings[s] = StringID(i)
		d.out.Strings = append(d.out.Strings, s)
	}
	for i := range actionNames {
		d.actions[sAlloc+StringID(i)] = Action(i)
	}
	d.raw = newRawStacks()
	d.lists = []list{{expanded: true}}
	d.fields.steps, d.states.steps = &eventSteps, &stateSteps
	d.forms.patience = patience
	return d
}

// maxLoose is how many values no row has to be told for: a recorder writes a
// handful of them for each row, in lists of a thousand at a time.
const maxLoose = 1 << 22

// run decodes up to STOP; the result is the one value on the stack.
func (d *decoder) run() (value, error) {
	for {
		if d.p >= d.more {
			if err := d.fill(input.Margin); err != nil {
				return 0, err
			}
		}
		if d.p >= len(d.b) {
			if err := d.need(1); err != nil {
				return 0, err
			}
		}
		if len(d.stack) == cap(d.stack) {
			more := cap(d.stack) + 64
			if err := d.take(int64(more) * 8); err != nil {
				return 0, err
			}
			d.stack = slices.Grow(d.stack, more)
		}
		at := d.p
		op := d.b[at]
		if !d.rewritten && d.fastOpcodes(op) {
			continue
		}
		d.p++
		if op == pickle.Stop {
			if len(d.stack) != 1 || len(d.marks) != 0 {
				return 0, d.fail(at, "STOP with %d values and %d marks on the stack", len(d.stack), len(d.marks))
			}
			return d.stack[0], nil
		}
		if err := d.step(op, at); err != nil {
			return 0, err
		}
	}
}

// step carries out one opcode whose first byte has been read.
func (d *decoder) step(op byte, at int) error {
	switch op {
	case pickle.Proto:
		if err := d.need(1); err != nil {
			return err
		}
		d.out.Protocol = int(d.b[d.p])
		if d.b[d.p] > 5 {
			return d.fail(at, "pickle protocol %d; 0 to 5 are known", d.b[d.p])
		}
		d.p++
	case pickle.Frame:
		n, err := d.uint(8)
		if err != nil {
			return err
		}
		if d.beyond(n) && !d.partial { // up to the cut a frame's contents are good
			return d.cutOr(at, "FRAME", n)
		}
	case pickle.Mark:
		if len(d.marks) >= pickle.MaxMarks {
			return d.fail(at, "nesting deeper than %d", pickle.MaxMarks)
		}
		d.marks = append(d.marks, len(d.stack))
	case pickle.Pop:
		if len(d.stack) > d.floor() {
			d.stack = d.stack[:len(d.stack)-1]
		} else if _, err := d.popMark(at, "POP"); err != nil {
			return err
		}
	case pickle.PopMark:
		m, err := d.popMark(at, "POP_MARK")
		if err != nil {
			return err
		}
		d.stack = d.stack[:m]
	case pickle.Dup:
		i, err := d.top(at, "DUP")
		if err != nil {
			return err
		}
		d.aliased = d.aliased || d.stack[i].kind() == kDict
		d.push(d.stack[i])
	case pickle.None:
		d.push(kNone)
	case pickle.NewTrue:
		d.push(newValue(kBool, 1))
	case pickle.NewFalse:
		d.push(newValue(kBool, 0))
	case pickle.Int, pickle.Long, pickle.BinInt, pickle.BinInt1, pickle.BinInt2, pickle.Long1, pickle.Long4:
		return d.integer(op, at)
	case pickle.Float, pickle.BinFloat:
		return d.float(op, at)
	case pickle.Unicode, pickle.String, pickle.BinString, pickle.ShortBinString, pickle.BinUnicode, pickle.ShortBinUnicode,
		pickle.BinUnicode8:
		id, err := d.literal(op, at)
		if err != nil {
			return err
		}
		d.push(newValue(kString, uint64(id)))
	case pickle.BinBytes, pickle.ShortBinBytes, pickle.BinBytes8, pickle.ByteArray8:
		n, err := d.length(op, at)
		if err != nil {
			return err
		}
		if err := d.skip(n); err != nil {
			return err
		}
		d.push(kOpaque)
	case pickle.Put, pickle.BinPut, pickle.LongBinPut, pickle.Memoize:
		return d.put(op, at)
	case pickle.Get, pickle.BinGet, pickle.LongBinGet:
		return d.get(op, at)
	case pickle.EmptyList, pickle.List, pickle.EmptyDict, pickle.Dict, pickle.EmptyTuple, pickle.Tuple, pickle.Tuple1,
		pickle.Tuple2, pickle.Tuple3,
		pickle.EmptySet, pickle.FrozenSet, pickle.Append, pickle.Appends, pickle.AddItems, pickle.SetItem, pickle.SetItems:
		return d.container(op, at)
	default:
		if name, ok := pickle.Forbidden[op]; ok {
			return d.refuse(op, at, name)
		}
		return d.fail(at, "byte 0x%02x is no pickle opcode", op)
	}
	return nil
}

// refuse explains an opcode that would import or call, with what it names.
func (d *decoder) refuse(op byte, at int, name string) error {
	what := name
	switch op {
	case pickle.Global, pickle.Inst:
		if module, err := d.line(); err == nil {
			m := string(module)
			if attr, err := d.line(); err == nil {
				what = fmt.Sprintf("%s %.80q", name, m+"."+string(attr))
			}
		}
	case pickle.StackGlobal:
		if n := len(d.stack); n >= 2 && d.stack[n-1].kind() == kString && d.stack[n-2].kind() == kString {
			what = fmt.Sprintf("%s %.80q", name, d.textOf(d.stack[n-2])+"."+d.textOf(d.stack[n-1]))
		}
	}
	return &Error{Offset: d.base + int64(at), Cause: what + " refused: a memory snapshot has no code to import or call",
		Advice: "This pickle was not written by torch.cuda.memory._dump_snapshot. Don't load it with pickle.load either."}
}

// literal reads a string opcode's argument and interns it.
func (d *decoder) literal(op byte, at int) (StringID, error) {
	switch op {
	case pickle.Unicode, pickle.String:
		line, err := d.line()
		if err != nil {
			return 0, err
		}
		s, err := pickle.Unescape(string(line), op == pickle.String)
		if err != nil {
			return 0, d.fail(at, "%v", err)
		}
		return d.intern([]byte(s))
	}
	n, err := d.length(op, at)
	if err != nil {
		return 0, err
	}
	if n > maxString {
		return 0, d.fail(at, "a string of %d bytes", n)
	}
	if err := d.need(int(n)); err != nil {
		return 0, err
	}
	s := d.b[d.p : d.p+int(n)]
	d.p += int(n)
	return d.intern(s)
}
