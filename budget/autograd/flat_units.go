package autograd

import "github.com/vramscope/vramscope/internal/words"

// sentTogether is up to how many bytes parameters are joined to be sent to the other ranks (PARAM_BROADCAST_BUCKET_SIZE in
// torch/distributed/fsdp/_init_utils.py), and sentAtOnce how many such buckets are under way (c10d/comm.cpp).
const (
	sentTogether = 250 << 20
	sentAtOnce   = 2
)

// Flatten makes one flat tensor of parameters that are put on the device for it, and of that a rank's part, which stays
// (_init_param_handle_from_module). The parameters are let go after it, so that the part lies between them.
func (m *Memory) Flatten(sizes []int64, ranks int64, sends bool) (part *Storage) {
	var whole []*Storage
	var n int64
	for i, b := range sizes {
		n += b
		whole = append(whole, m.Alloc(b, words.Weights))
		if i == 0 { // host memory is copied when the GPU has done all before
			m.Mark(func(q *Request) { q.Waits = true })
		}
	}
	if sends {
		m.send(whole)
	}
	joined := m.Alloc(n, words.Weights)
	part = m.Alloc(Parts(n, ranks), words.Weights)
	m.Release(joined)
	m.ReleaseAll(whole)
	return part
}

// send sends rank 0's parameters to the others (sync_module_states); one alone is sent as it lies.
func (m *Memory) send(whole []*Storage) {
	var buckets []*Storage
	var n int64
	first := 0
	for i, s := range whole {
		if n += s.Bytes; n < sentTogether && i < len(whole)-1 {
			continue
		}
		if len(buckets) >= sentAtOnce {
			m.Release(buckets[len(buckets)-sentAtOnce])
		}
		bucket := m.AllocIf(i > first, n, words.Communication)
		if bucket != nil {
			m.Mark(func(q *Request) { q.Lent = true })
		}
		buckets = append(buckets, bucket)
		n, first = 0, i+1
	}
	m.ReleaseAll(buckets[max(len(buckets)-sentAtOnce, 0):])
}
