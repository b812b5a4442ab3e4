package budget

// Saved tensors in host memory: each is copied on a stream of its own, and its memory is
// given back when the copy is done. So that the copies cannot fall behind, only some may
// be under way; in backward each comes back for the operation that needs it.

const (
	leastOffloaded = 1024 // bytes: smaller ones stay (torchtune/training/_activation_offloading.py)
	stashTorchtune = 5
	stashUnsloth   = 2 // inputs of checkpointed blocks, in two buffers by turns
)

// offload begins a storage's copy, and owns its reference.
func (m *machine) offload(s *storage) {
	m.leaving = append(m.leaving, s)
	if len(m.leaving) > m.stash {
		m.release(m.leaving[0])
		m.leaving = m.leaving[1:]
	}
}

// arrived waits for all copies.
func (m *machine) arrived() {
	m.releaseAll(m.leaving)
	m.leaving, m.stash = nil, 0
}
