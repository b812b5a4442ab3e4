package timeline

// addresses is a hash table from an address to a non-zero number, with linear
// probing: blocks come and go by the million.
type addresses struct {
	keys   []uint64
	values []uint32 // 0: empty
	count  int
	shift  uint
}

func newAddresses() *addresses {
	return &addresses{keys: make([]uint64, 1<<10), values: make([]uint32, 1<<10), shift: 64 - 10}
}

func (a *addresses) slot(key uint64) int { return int(key * 0x9E3779B97F4A7C15 >> a.shift) }

// get is the number at a key, 0 when there is none.
func (a *addresses) get(key uint64) uint32 {
	mask := len(a.keys) - 1
	for i := a.slot(key); ; i = (i + 1) & mask {
		if a.values[i] == 0 || a.keys[i] == key {
			return a.values[i]
		}
	}
}

// set gives a key a number other than 0.
func (a *addresses) set(key uint64, value uint32) {
	mask := len(a.keys) - 1
	i := a.slot(key)
	for a.values[i] != 0 && a.keys[i] != key {
		i = (i + 1) & mask
	}
	if a.values[i] == 0 {
		if a.count++; 2*a.count > len(a.keys) {
			a.grow()
			a.set(key, value)
			return
		}
	}
	a.keys[i], a.values[i] = key, value
}

func (a *addresses) grow() {
	keys, values := a.keys, a.values
	*a = addresses{keys: make([]uint64, 2*len(keys)), values: make([]uint32, 2*len(keys)), shift: a.shift - 1}
	for i, v := range values {
		if v != 0 {
			a.set(keys[i], v)
		}
	}
}

// remove takes a key out and closes the gap that it leaves.
func (a *addresses) remove(key uint64) {
	mask := len(a.keys) - 1
	i := a.slot(key)
	for a.keys[i] != key {
		if a.values[i] == 0 {
			return
		}
		i = (i + 1) & mask
	}
	if a.values[i] == 0 {
		return
	}
	a.count--
	for j := (i + 1) & mask; a.values[j] != 0; j = (j + 1) & mask {
		// An entry moves up unless its own place lies behind the gap.
		if (j-a.slot(a.keys[j]))&mask >= (j-i)&mask {
			a.keys[i], a.values[i] = a.keys[j], a.values[j]
			i = j
		}
	}
	a.values[i] = 0
}
