package snapshot

import (
	"math"
	mathbig "math/big"

	"github.com/nlpodyssey/gopickle/types"

	"github.com/vramscope/vramscope/snapshot/pickle"
)

// DecodeOdd reads one uncompressed pickle as those of an odd layout are.
func DecodeOdd(b []byte) (*Snapshot, error) { return decodeOdd(b, 0) }

// DecodeGeneral reads one uncompressed pickle with a general unpickler and by its
// objects: the second opinion on Decode.
func DecodeGeneral(b []byte) (*Snapshot, error) {
	if _, err := pickle.Scan(b, pickle.Forbidden); err != nil {
		return nil, err
	}
	root, err := pickle.Load(b)
	if err != nil {
		return nil, err
	}
	g := general{d: newDecoder(Options{}), stacks: map[*types.List]StackID{}, used: map[*types.List]bool{}, placed: map[*types.Dict]bool{},
		escaped: b[0] == pickle.Mark}
	g.d.p = len(b)
	if len(b) > 1 && b[0] == pickle.Proto {
		g.d.out.Protocol = int(b[1])
	}
	if err := g.snapshot(root); err != nil {
		return nil, err
	}
	g.d.out.Histories = g.d.histories
	return g.d.out, nil
}

// general turns Python objects into the rows of a Snapshot. Strings, frames
// and stacks are interned by the same tables as the decoder's, and values that
// can't be right are judged in the same way.
type general struct {
	d       *decoder
	stacks  map[*types.List]StackID
	used    map[*types.List]bool // lists that stand for tables, once each
	placed  map[*types.Dict]bool // segments that a device has
	escaped bool                 // strings are protocol 0's, which gopickle leaves as they are in the file
}

// value is a scalar as the decoder knows it; of containers only their length counts.
func (g *general) value(v any) value {
	d := g.d
	switch x := v.(type) {
	case nil:
		return kNone
	case bool:
		if x {
			return newValue(kBool, 1)
		}
		return newValue(kBool, 0)
	case int:
		return d.number(int64(x))
	case *mathbig.Int:
		if x.IsInt64() {
			return d.number(x.Int64())
		}
		low := new(mathbig.Int).And(x, new(mathbig.Int).SetUint64(math.MaxUint64)).Uint64()
		if !x.IsUint64() {
			low = 0
		}
		return d.integerValue(pickle.Integer{Low: low, Negative: x.Sign() < 0, Huge: !x.IsUint64()})
	case float64:
		d.floats = append(d.floats, x)
		return newValue(kFloat, uint64(len(d.floats)-1))
	case string:
		return newValue(kString, uint64(g.intern(x)))
	case *types.List:
		d.lists = append(d.lists, list{count: len(*x)})
		return newValue(kList, uint64(len(d.lists)-1))
	case *types.Tuple:
		if p, ok := poolOf(v); ok {
			return newValue(kPool, uint64(d.pool(p)))
		}
		d.lists = append(d.lists, list{count: len(*x)})
		return newValue(kTuple, uint64(len(d.lists)-1))
	case *types.Dict:
		if g.shape(x) != kDict {
			break
		}
		d.dicts = append(d.dicts, dict{items: make([]value, 2*len(*x))})
		return newValue(kDict, uint64(len(d.dicts)-1))
	}
	return kOpaque
}

// intern is a string's id.
func (g *general) intern(s string) StringID {
	if g.escaped {
		if plain, err := pickle.Unescape(s, false); err == nil {
			s = plain
		}
	}
	id, _ := g.d.intern([]byte(s)) // no limit is set that it could pass
	return id
}

func (g *general) address(v any) uint64      { return g.d.address(g.value(v)) }
func (g *general) int(v any) int64           { return g.d.int(g.value(v)) }
func (g *general) text(v any) StringID       { return g.d.str(g.value(v)) }
func (g *general) stream(v any) uint32       { return g.d.stream(g.value(v)) }
func (g *general) brief(v any) string        { return g.d.brief(g.value(v)) }
func (g *general) note(text string)          { g.d.note(text) }
func (g *general) is(v any, s StringID) bool { return g.value(v) == newValue(kString, uint64(s)) }

// elements are those of a list or a tuple.
func elements(v any) []any {
	switch l := v.(type) {
	case *types.List:
		return *l
	case *types.Tuple:
		return *l
	}
	return nil
}

// small reports whether an integer fits a value.
func small(n int) bool { return newValue(kInt, uint64(n)).int() == int64(n) }

// poolOf is a tuple of two integers.
func poolOf(v any) (Pool, bool) {
	l := elements(v)
	if len(l) != 2 {
		return Pool{}, false
	}
	a, okA := l[0].(int)
	b, okB := l[1].(int)
	_, tuple := v.(*types.Tuple)
	return Pool{int64(a), int64(b)}, okA && okB && tuple && small(a) && small(b)
}

// table is the elements of a list that stands for a table. One list may do so
// once: a second use would multiply a file's size.
func (g *general) table(v any) ([]any, error) {
	l, ok := v.(*types.List)
	if !ok || len(*l) == 0 {
		return nil, nil
	}
	if g.used[l] {
		return nil, &Error{Offset: -1, Cause: "one list is used as two tables"}
	}
	g.used[l] = true
	return *l, nil
}

// dictRow is a dictionary by known key; mask has a bit for each.
type dictRow struct {
	values map[StringID]any
	mask   uint64
}

// known is a dictionary by its known keys.
func (g *general) known(dict *types.Dict) dictRow {
	r := dictRow{values: make(map[StringID]any, len(*dict))}
	for _, e := range *dict {
		if s, ok := e.Key.(string); ok {
			if key := g.intern(s); key < numKeys {
				r.values[key] = e.Value
				r.mask |= 1 << key
			}
		}
	}
	return r
}

// shape tells which table a dictionary is a row of; kDict is for none.
func (g *general) shape(dict *types.Dict) value { return shapeOf(g.known(dict).mask) }

// row is v as a row of a table; ok is false when it isn't one, by its keys.
// Keys that aren't known are counted under the table's name.
func (g *general) row(where StringID, shape value, v any) (r dictRow, ok bool) {
	dict, ok := v.(*types.Dict)
	if !ok {
		return dictRow{}, false
	}
	r = g.known(dict)
	if shapeOf(r.mask) != shape {
		return dictRow{}, false
	}
	for _, e := range *dict {
		if s, ok := e.Key.(string); ok {
			if key := g.intern(s); key >= numKeys {
				g.d.unknownKey(where, key, g.value(e.Value))
			}
		}
	}
	return r, true
}

func (r dictRow) has(key StringID) bool { return r.mask&(1<<key) != 0 }

// size is 0 when the key isn't there.
func (g *general) size(r dictRow, key StringID) int64 {
	if !r.has(key) {
		return 0
	}
	return g.d.bytes(g.value(r.values[key]))
}

// optional is a size, or -1 when the key isn't there.
func (g *general) optional(r dictRow, key StringID) int64 {
	return g.d.optional(g.value(r.values[key]))
}
