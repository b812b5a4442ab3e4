package snapshot

import (
	"math"
	"strconv"

	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/snapshot/pickle"
)

// slot reads the memo position that an opcode stores into or takes from.
func (d *decoder) slot(op byte, at int) (uint64, error) {
	name := "GET"
	switch op {
	case pickle.Memoize:
		return uint64(len(d.memo)), nil
	case pickle.BinPut, pickle.BinGet:
		return d.uint(1)
	case pickle.LongBinPut, pickle.LongBinGet:
		return d.uint(4)
	case pickle.Put:
		name = "PUT"
	}
	line, err := d.line()
	if err != nil {
		return 0, err
	}
	slot, err := strconv.ParseUint(string(line), 10, 32)
	if err != nil {
		return 0, d.fail(at, "%s %.20q is no memo position", name, line)
	}
	return slot, nil
}

func (d *decoder) put(op byte, at int) error {
	i, err := d.top(at, "PUT")
	if err != nil {
		return err
	}
	slot, err := d.slot(op, at)
	if err != nil {
		return err
	}
	// Picklers number their PUTs from 0, so leaving many positions out is a
	// trick to make readers allocate.
	if slot > uint64(len(d.memo)) {
		if d.holes += int64(slot) - int64(len(d.memo)); d.holes > 1<<16 {
			return d.fail(at, "PUT %d beyond a memo of %d entries", slot, len(d.memo))
		}
	}
	if err := d.growMemo(int(slot) + 1); err != nil {
		return err
	}
	if int(slot) < len(d.memo) && d.memo[slot] != unset {
		d.rewritten = true // what stacks and keys look like in the file may have changed
	}
	for int(slot) >= len(d.memo) {
		d.memo = append(d.memo, unset)
	}
	v := d.stack[i]
	if v.kind() == kDict {
		if e := &d.dicts[v.index()]; !e.done && e.memo < 0 && slot < math.MaxInt32 {
			e.memo = int32(slot)
		}
	}
	d.memo[slot] = v.ref()
	return nil
}

// unset marks a memo position that no PUT has filled.
const unset = ref(kOpaque) | 1<<31

// unfit marks one that was filled with what it has no room for.
const unfit = ref(kOpaque) | 1<<30

// growMemo makes room for n memo entries at once, as many as the file is
// likely to need: untouched memory costs nothing.
func (o *objects) growMemo(n int) error {
	if n <= cap(o.memo) {
		return nil
	}
	size := o.estimate(n, cap(o.memo), &o.memoGrowth)
	if err := o.take(int64(size-cap(o.memo)) * 4); err != nil {
		return err
	}
	memo := make([]ref, len(o.memo), size)
	pages.Huge(memo)
	copy(memo, o.memo)
	o.memo, o.readyMemo = memo, len(memo)
	return nil
}

// growth is where a column was when it last grew: so many entries at a place
// in the file.
type growth struct {
	entries int
	at      int64
}

// firstRows bounds a column whose file has said nothing yet of what it holds. All
// of a small file fits: no row of it is copied.
const firstRows = 128 << 10

// estimate is the capacity for a column that has filled old places and needs
// n: what the rest of the file will bring if it goes on as it did since the
// last time, and a quarter more. A file's beginning says little of the rest:
// there every stack is new, and one entry for 64 bytes a fair guess. A sparse
// file's size says nothing: no column grows by more than a factor at once.
func (t *tables) estimate(n, old int, last *growth) int {
	const most = 64
	size := max(n, old+old/2, 4096)
	now := growth{n, t.base + int64(t.p)}
	switch {
	case t.total == 0:
	case old == 0:
		size = max(size, int(min(t.total/64, firstRows)))
	case now.at > last.at:
		rate := float64(n-last.entries) / float64(now.at-last.at)
		expected := float64(n) + 1.25*rate*float64(t.total-now.at)
		size = max(size, int(min(expected, most*float64(max(n, firstRows)))))
	}
	*last = now
	return size
}

func (d *decoder) get(op byte, at int) error {
	slot, err := d.slot(op, at)
	if err != nil {
		return err
	}
	if slot >= uint64(len(d.memo)) || d.memo[slot] == unset {
		return d.fail(at, "GET %d outside memo of %d entries", slot, len(d.memo))
	}
	if d.memo[slot] == unfit {
		return d.shape(at, "a number is referred to again")
	}
	v := value(d.memo[slot])
	d.aliased = d.aliased || v.kind() == kDict
	d.push(v)
	return nil
}
