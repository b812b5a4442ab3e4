package autograd

import "github.com/vramscope/vramscope/internal/words"

// Instant is the largest moment of a phase and what was alive in it.
type Instant struct {
	Bytes int64 // allocated
	Cats  Categories
	made  int64 // storages made until then
}

// Storage is one allocation with its reference count.
type Storage struct {
	Bytes int64
	Refs  int // names, nodes and gradients that hold it
	Cat   words.Category
	born  int64 // how many were made before it
	// column is the same in 8 bits along the other dimension, while that is kept.
	column *Storage
}

// Memory is what is allocated: the live bytes by category, the largest moment of each phase, and what was asked for.
type Memory struct {
	Live     int64      // bytes
	made     int64      // storages so far
	Cats     Categories // of the live bytes
	Phase    Phase
	Peaks    [NumPhases]Instant
	Stream   uint8      // that requests are made on
	Compiled bool       // torch.compile fuses what is between products
	graphs   bool       // and its results lie in a CUDA graph's pool
	stopped  bool       // a function that runs again has made all that backward needs: the rest takes nothing
	Log      *[]Request // of every storage made and let go, nil: nobody asks
	slabs    *slabs
}

// Alloc makes a storage with one reference.
func (m *Memory) Alloc(bytes int64, c words.Category) *Storage {
	if m.stopped {
		return m.slabs.storages.put(Storage{Refs: 1, Cat: c})
	}
	m.Live += bytes
	m.Cats[c] += bytes
	m.made++
	m.mark()
	m.log(bytes)
	return m.slabs.storages.put(Storage{Bytes: bytes, Refs: 1, Cat: c, born: m.made})
}

// log notes the request of the newest storage.
func (m *Memory) log(bytes int64) {
	if m.Log == nil {
		return
	}
	on := m.Stream
	if m.Compiled && m.graphs {
		on = graphPool
	}
	*m.Log = append(*m.Log, Request{id: m.made, bytes: bytes, stream: on})
}

// Ask asks the allocator for what stays, and is counted elsewhere.
func (m *Memory) Ask(bytes int64) {
	if bytes > 0 {
		m.made++
		m.log(bytes)
	}
}

// Mark says more of the last request.
func (m *Memory) Mark(say func(*Request)) {
	if m.Log != nil {
		say(&(*m.Log)[len(*m.Log)-1])
	}
}

// AllocIf is Alloc of what is needed, nil for what isn't.
func (m *Memory) AllocIf(needed bool, bytes int64, c words.Category) *Storage {
	if !needed {
		return nil
	}
	return m.Alloc(bytes, c)
}

// Compile says whether what follows is compiled, and what was so before.
func (m *Memory) Compile(on bool) (before bool) {
	before, m.Compiled = m.Compiled, on
	return before
}

// mark compares the moment with the phase's peak.
func (m *Memory) mark() {
	if p := &m.Peaks[m.Phase]; m.Live > p.Bytes {
		p.Bytes, p.Cats, p.made = m.Live, m.Cats, m.made
	}
}

// Keep is one more reference to a storage, nil included.
func (m *Memory) Keep(s *Storage) *Storage {
	if s != nil {
		s.Refs++
	}
	return s
}

// Release is one reference less; the last one's end gives the bytes back.
func (m *Memory) Release(s *Storage) {
	if s == nil {
		return
	}
	if s.Refs--; s.Refs == 0 {
		m.Live -= s.Bytes
		m.Cats[s.Cat] -= s.Bytes
		if m.Log != nil && s.born > 0 {
			*m.Log = append(*m.Log, Request{id: s.born, bytes: -1, stream: m.Stream})
		}
	}
}

// ReleaseAll releases each.
func (m *Memory) ReleaseAll(all []*Storage) {
	for _, s := range all {
		m.Release(s)
	}
}

// Become moves a storage to another category, in the peaks at which it was alive, too.
func (m *Memory) Become(s *Storage, c words.Category) {
	m.Cats[s.Cat] -= s.Bytes
	m.Cats[c] += s.Bytes
	for i := range m.Peaks[:m.Phase+1] {
		if p := &m.Peaks[i]; p.Bytes > 0 && p.made >= s.born && s.born > 0 {
			p.Cats[s.Cat] -= s.Bytes
			p.Cats[c] += s.Bytes
		}
	}
	s.Cat = c
}

// Pulse is memory that is taken and given back at once.
func (m *Memory) Pulse(bytes int64, c words.Category) {
	if bytes > 0 {
		m.Release(m.Alloc(bytes, c))
	}
}

// HandIn is what a compiled function takes from outside. A CUDA graph works on a copy in its own pool.
func (m *Memory) HandIn(bytes int64, c words.Category) *Storage {
	if !m.graphs {
		return m.Alloc(bytes, c)
	}
	before := m.Compile(false)
	m.Pulse(bytes, c)
	m.Compile(before)
	s := m.Alloc(bytes, c)
	if m.Log != nil {
		(*m.Log)[len(*m.Log)-1].handed = true
	}
	return s
}

// Drop is a Python name going out of scope.
func (m *Memory) Drop(vs ...*Value) {
	for _, v := range vs {
		if v != nil {
			m.Release(v.Mem)
		}
	}
}

// Again is a second Python name for the same tensor.
func (m *Memory) Again(v *Value) *Value { m.Keep(v.Mem); return m.slabs.values.put(*v) }

// Replace is x = f(x): the old value goes when the new one is there.
func (m *Memory) Replace(old, v *Value) *Value { m.Drop(old); return v }

// Fit casts or sums a gradient to the bytes its input has.
func (m *Memory) Fit(s *Storage, want int64, c words.Category) *Storage {
	if s == nil || s.Bytes == want {
		return s
	}
	t := m.Alloc(want, c)
	m.Release(s)
	return t
}

// Amid is a result that is made while some others of its category are there.
func (m *Memory) Amid(bytes int64, c words.Category, others ...int64) *Storage {
	var beside []*Storage
	for _, n := range others {
		beside = append(beside, m.Alloc(n, c))
	}
	defer m.ReleaseAll(beside)
	return m.Alloc(bytes, c)
}

// Logit counts a temporary result among the logits.
func (m *Memory) Logit(v *Value) {
	if v.Mem.Cat == words.Temporary || v.Mem.Cat == words.Activations {
		m.Become(v.Mem, words.Logits)
	}
}

// View is a second name for n elements of x's memory, with no graph yet.
func (m *Memory) View(x *Value, n int64) *Value {
	v := m.Again(x)
	v.N, v.From, v.Leaf = n, nil, nil
	return v
}
