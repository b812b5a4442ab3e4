package timeline

// addresses is a hash table from an address to a non-zero number, with linear
// probing: blocks come and go by the million.
type addresses struct {
	slots []slot
	count int
	shift uint
}

type slot struct {
	key   uint64
	value uint32 // 0: empty
}

func newAddresses() *addresses { return &addresses{slots: make([]slot, 1<<10), shift: 64 - 10} }

func (a *addresses) home(key uint64) int { return int(key * 0x9E3779B97F4A7C15 >> a.shift) }

// find is the slot of a key, or the empty one where it would go.
func (a *addresses) find(key uint64) int {
	mask := len(a.slots) - 1
	for i := a.home(key); ; i = (i + 1) & mask {
		if s := &a.slots[i&mask]; s.value == 0 || s.key == key {
			return i
		}
	}
}

// get is the number at a key, 0 when there is none.
func (a *addresses) get(key uint64) uint32 { return a.slots[a.find(key)].value }

// set gives a key a number other than 0, and tells the one that it had, 0 for none.
func (a *addresses) set(key uint64, value uint32) (before uint32) {
	s := &a.slots[a.find(key)]
	before = s.value
	*s = slot{key, value}
	if before == 0 {
		if a.count++; 2*a.count > len(a.slots) {
			a.grow()
		}
	}
	return before
}

func (a *addresses) grow() {
	old := a.slots
	*a = addresses{slots: make([]slot, 2*len(old)), shift: a.shift - 1}
	for _, s := range old {
		if s.value != 0 {
			a.set(s.key, s.value)
		}
	}
}

// remove takes a key out, closes the gap that it leaves, and tells the number
// that it had, 0 for none.
func (a *addresses) remove(key uint64) (before uint32) {
	mask := len(a.slots) - 1
	i := a.find(key)
	if before = a.slots[i].value; before == 0 {
		return 0
	}
	a.count--
	for j := (i + 1) & mask; a.slots[j].value != 0; j = (j + 1) & mask {
		// An entry moves up unless its own place lies behind the gap.
		if (j-a.home(a.slots[j].key))&mask >= (j-i)&mask {
			a.slots[i] = a.slots[j]
			i = j
		}
	}
	a.slots[i].value = 0
	return before
}
