package classify

import "testing"

// TestGeneration answers requests one after the other, without stacks: each begins with a
// prompt and lets its keys and values grow token by token. What its logits are nothing tells,
// but nobody is sure of something else.
func TestGeneration(t *testing.T) {
	const layers, row, vocabulary, hidden = 3, 2048, 400_000, 8192
	s := newStory(t, false)
	s.in(Setup)
	for range 12 {
		s.alloc(Weights, 9<<20)
	}
	var last []int
	for request, prompt := range []int64{40, 40, 56} {
		var cache []int
		for token := range int64(10) {
			rows, now := prompt+token, int64(1)
			if token == 0 {
				now = prompt
			}
			s.in(Generate)
			ids := s.alloc(Inputs, 8*now)
			x := s.alloc(Temporary, hidden*now)
			var next []int
			for k := range layers {
				q := s.alloc(Temporary, hidden*now)
				for i := 2 * k; i < 2*k+2; i++ {
					next = append(next, s.alloc(KVCache, row*rows))
					if token > 0 {
						s.free(cache[i])
					}
				}
				up := s.alloc(Temporary, 3*hidden*now)
				s.free(q)
				y := s.alloc(Temporary, hidden*now)
				s.free(up, x)
				x = y
			}
			logits := s.alloc(Logits, vocabulary*now)
			s.free(x, ids)
			s.free(last...)
			last, cache = []int{logits}, next
		}
		if request < 2 {
			s.free(cache...)
		}
	}
	c := New(s.timeline(), Options{})
	var right, all, sureAndWrong int64
	for i, a := range s.allocs {
		switch {
		case a.category == KVCache:
			if all += a.bytes; c.Category[i] == KVCache {
				right += a.bytes
			}
		case a.category == Logits && c.Category[i] != Logits && c.Confidence[i] >= 90:
			sureAndWrong += a.bytes
		}
	}
	if right*100 < all*97 || sureAndWrong > 0 {
		t.Errorf("of %d bytes of caches %d are right; %d of logits are wrong though sure", all, right, sureAndWrong)
	}
	for k, step := range c.Steps {
		for _, p := range step.Phases {
			if p.Phase == Backward || p.Phase == Optimizer {
				t.Errorf("step %d has a phase %s: nothing is trained", k, p.Phase)
			}
		}
	}
}
