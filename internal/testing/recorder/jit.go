package recorder

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
)

// jitPickler writes the bytes that torch's own pickler writes for snapshots
// dumped from C++ (torch/csrc/jit/serialization/pickler.cpp): protocol 2, no
// batches, strings in the memo by content, containers only when they are
// referred to more than once, and then after their contents.
type jitPickler struct {
	out     []byte
	uses    map[any]int
	objects map[any]int
	strings map[string]int
	next    int
}

// PickleJIT is v as torch::jit::Pickler gives it.
func PickleJIT(v any) []byte {
	p := &jitPickler{out: []byte{opProto, 2}, uses: map[any]int{}, objects: map[any]int{}, strings: map[string]int{}}
	p.count(v)
	p.save(v)
	return append(p.out, opStop)
}

// count finds out what is referred to more than once.
func (p *jitPickler) count(v any) {
	var parts []any
	switch x := v.(type) {
	case *Dict:
		for _, item := range x.Items {
			parts = append(parts, item.Value)
		}
	case *List:
		parts = x.Items
	default:
		return
	}
	if p.uses[v]++; p.uses[v] == 1 {
		for _, part := range parts {
			p.count(part)
		}
	}
}

func (p *jitPickler) memoOp(short, long byte, i int) {
	if i < 256 {
		p.out = append(p.out, short, byte(i))
		return
	}
	p.out = binary.LittleEndian.AppendUint32(append(p.out, long), uint32(i))
}

func (p *jitPickler) put() int {
	p.memoOp(opBinPut, opLongBinPut, p.next)
	p.next++
	return p.next - 1
}

func (p *jitPickler) save(v any) {
	switch x := v.(type) {
	case nil:
		p.out = append(p.out, opNone)
	case bool:
		p.out = append(p.out, map[bool]byte{true: opNewTrue, false: opNewFalse}[x])
	case int:
		p.saveInt(int64(x))
	case int64:
		p.saveInt(x)
	case uint64:
		p.saveInt(int64(x))
	case *big.Int:
		p.saveInt(int64(new(big.Int).And(x, new(big.Int).SetUint64(math.MaxUint64)).Uint64()))
	case float64:
		p.out = binary.BigEndian.AppendUint64(append(p.out, opBinFloat), math.Float64bits(x))
	case string:
		p.saveText(x)
	case *Text:
		p.saveText(x.S)
	case *Tuple:
		if len(x.Items) != 2 {
			panic("recorder: torch writes no other tuples than pairs")
		}
		p.save(x.Items[0])
		p.save(x.Items[1])
		p.out = append(p.out, opTuple1+1)
	case *List, *Dict:
		p.saveContainer(v)
	default:
		panic(fmt.Sprintf("recorder: can't pickle %T", v))
	}
}

func (p *jitPickler) saveContainer(v any) {
	if i, ok := p.objects[v]; ok {
		p.memoOp(opBinGet, opLongBinGet, i)
		return
	}
	switch x := v.(type) {
	case *List:
		p.out = append(p.out, opEmptyList, opMark)
		for _, item := range x.Items {
			p.save(item)
		}
		p.out = append(p.out, opAppends)
	case *Dict:
		p.out = append(p.out, opEmptyDict)
		if len(x.Items) > 0 {
			p.out = append(p.out, opMark)
			for _, item := range x.Items {
				p.save(item.Key)
				p.save(item.Value)
			}
			p.out = append(p.out, opSetItems)
		}
	}
	if p.uses[v] > 1 {
		p.objects[v] = p.put()
	}
}

func (p *jitPickler) saveText(s string) {
	if i, ok := p.strings[s]; ok {
		p.memoOp(opBinGet, opLongBinGet, i)
		return
	}
	p.out = binary.LittleEndian.AppendUint32(append(p.out, opBinUnicode), uint32(len(s)))
	p.out = append(p.out, s...)
	p.strings[s] = p.put()
}

// saveInt writes all of what doesn't fit 32 bits as 8 bytes.
func (p *jitPickler) saveInt(n int64) {
	switch {
	case 0 <= n && n < 1<<8:
		p.out = append(p.out, opBinInt1, byte(n))
	case 0 <= n && n < 1<<16:
		p.out = append(p.out, opBinInt2, byte(n), byte(n>>8))
	case int64(int32(n)) == n:
		p.out = binary.LittleEndian.AppendUint32(append(p.out, opBinInt), uint32(n))
	default:
		p.out = binary.LittleEndian.AppendUint64(append(p.out, opLong1, 8), uint64(n))
	}
}
