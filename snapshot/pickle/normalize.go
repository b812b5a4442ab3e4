package pickle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/big"

	"github.com/nlpodyssey/gopickle/pickle"
	"github.com/nlpodyssey/gopickle/types"

	"github.com/vramscope/vramscope/snapshot/input"
)

// Load builds the objects of a pickle that Scan has accepted, as gopickle knows them.
func Load(b []byte) (root any, err error) {
	r := bytes.NewReader(b)
	defer func() {
		if p := recover(); p != nil {
			err = &input.Error{Offset: int64(len(b) - r.Len()), Cause: fmt.Sprintf("not a valid pickle: %v", p)}
		}
	}()
	u := pickle.NewUnpickler(r)
	u.FindClass = func(module, name string) (any, error) { return nil, fmt.Errorf("%s.%s refused", module, name) }
	u.PersistentLoad = func(any) (any, error) { return nil, fmt.Errorf("persistent object refused") }
	if root, err = u.Load(); err != nil {
		return nil, &input.Error{Offset: int64(len(b) - r.Len()), Cause: "not a valid pickle: " + err.Error()}
	}
	return root, nil
}

// Normalize writes a pickle that Scan has accepted anew: every container is filled
// where it is made, by one opcode. What is there once stays once, and what no
// snapshot has, such as bytes, becomes an empty set.
func Normalize(b []byte) ([]byte, error) {
	root, err := Load(b)
	if err != nil {
		return nil, err
	}
	w := writer{out: []byte{Proto, 0}, memo: map[any]uint32{}, escaped: b[0] == Mark}
	if len(b) > 1 && b[0] == Proto {
		w.out[1] = b[1]
	}
	w.value(root, 0)
	return append(w.out, Stop), nil
}

// writer writes objects as a pickle.
type writer struct {
	out     []byte
	memo    map[any]uint32 // position by text, or pointer to a container
	next    uint32         // position
	escaped bool           // strings are protocol 0's, which gopickle leaves as they are in the file
}

// tooDeep leaves out what is within so many containers: no snapshot has it.
const tooDeep = MaxMarks / 2

func (w *writer) value(v any, depth int) {
	if w.remembered(v) {
		return
	}
	switch x := v.(type) {
	case nil:
		w.out = append(w.out, None)
	case bool:
		op := byte(NewFalse)
		if x {
			op = NewTrue
		}
		w.out = append(w.out, op)
	case int:
		w.out = binary.LittleEndian.AppendUint64(append(w.out, Long1, 8), uint64(x))
	case *big.Int:
		w.long(x)
	case float64:
		w.out = binary.BigEndian.AppendUint64(append(w.out, BinFloat), math.Float64bits(x))
	case string:
		w.text(x)
	default:
		w.container(v, depth)
	}
}

// remembered writes a reference to what was written before.
func (w *writer) remembered(v any) bool {
	switch v.(type) {
	case string, *types.List, *types.Tuple, *types.Dict:
		if at, ok := w.memo[v]; ok {
			w.out = binary.LittleEndian.AppendUint32(append(w.out, LongBinGet), at)
			return true
		}
	}
	return false
}

func (w *writer) remember(v any) {
	w.memo[v] = w.next
	w.next++
	w.out = append(w.out, Memoize)
}

// long writes an integer of more than 64 bits, of which nothing but its sign counts.
func (w *writer) long(x *big.Int) {
	fill := byte(1)
	if x.Sign() < 0 {
		fill = 0xfe
	}
	digits := bytes.Repeat([]byte{fill}, 10)
	if x.IsInt64() || x.IsUint64() {
		digits = append(binary.LittleEndian.AppendUint64(nil, x.Uint64()), 0)
		if x.Sign() < 0 {
			digits = binary.LittleEndian.AppendUint64(nil, uint64(x.Int64()))
		}
	}
	w.out = append(append(w.out, Long1, byte(len(digits))), digits...)
}

func (w *writer) text(s string) {
	plain := s
	if w.escaped {
		if u, err := Unescape(s, false); err == nil {
			plain = u
		}
	}
	w.out = binary.LittleEndian.AppendUint32(append(w.out, BinUnicode), uint32(len(plain)))
	w.out = append(w.out, plain...)
	w.remember(s)
}

func (w *writer) container(v any, depth int) {
	if depth++; depth > tooDeep {
		v = nil
	}
	switch x := v.(type) {
	case *types.List:
		w.out = append(w.out, EmptyList)
		w.remember(v)
		w.elements(*x, depth, Appends)
	case *types.Tuple:
		if len(*x) == 0 {
			w.out = append(w.out, EmptyTuple)
		} else {
			w.elements(*x, depth, Tuple)
		}
		w.remember(v)
	case *types.Dict:
		w.out = append(w.out, EmptyDict)
		w.remember(v)
		var items []any
		for _, e := range *x {
			items = append(items, e.Key, e.Value)
		}
		w.elements(items, depth, SetItems)
	default:
		w.out = append(w.out, EmptySet)
	}
}

// elements writes the elements of a container and what puts them into it.
func (w *writer) elements(list []any, depth int, op byte) {
	if len(list) == 0 {
		return
	}
	w.out = append(w.out, Mark)
	for _, v := range list {
		w.value(v, depth)
	}
	w.out = append(w.out, op)
}
