package classify

import "testing"

// Requests that are answered one after the other, without stacks: each begins
// with a prompt and lets its keys and values grow token by token, while the
// scores of a pass stay until the next one's.
func TestRequestsOfGeneration(t *testing.T) { testGeneration(t, 1, 1) }

// Beam search puts its caches in another order after every token, and masks are
// worked out around a number, which no backward pass does.
func TestBeamSearch(t *testing.T) { testGeneration(t, 4, 2) }

// testGeneration accepts so many percent that are wrong though sure.
func testGeneration(t *testing.T, beams int, percent int64) {
	const layers, row, vocabulary, hidden = 3, 2048, 400_000, 8192
	s := newStory(t, false)
	s.in(Setup)
	for range 12 {
		s.alloc(Weights, 9<<20)
	}
	var scores []int
	for request, prompt := range []int64{40, 40, 56} {
		cache := make([]int, 2*layers)
		for token := range int64(10) {
			rows, now := prompt+token, int64(1)
			if token == 0 {
				now = prompt
			}
			s.in(Generate)
			ids := s.alloc(Inputs, 8*now)
			x := s.alloc(Temporary, hidden*now)
			if beams > 1 {
				s.mask(rows)
			}
			for k := range layers {
				q := s.alloc(Temporary, hidden*now)
				for i := 2 * k; i < 2*k+2; i++ {
					grown := s.alloc(KVCache, row*rows)
					if token > 0 {
						s.free(cache[i])
					}
					cache[i] = grown
				}
				up := s.alloc(Temporary, 3*hidden*now)
				s.free(q)
				y := s.alloc(Temporary, hidden*now)
				s.free(up, x)
				x = y
			}
			logits := s.alloc(Logits, vocabulary*now)
			for i := 0; beams > 1 && i < 2*layers; i++ {
				ordered := s.alloc(KVCache, row*rows)
				s.free(cache[i])
				cache[i] = ordered
			}
			s.free(x, ids)
			s.free(scores...)
			scores = []int{logits}
		}
		if request < 2 {
			s.free(cache...)
		}
	}
	c := New(s.timeline(), Options{})
	var right, all, sureAndWrong int64
	for i, a := range s.allocs {
		if a.category != KVCache && a.category != Logits {
			continue
		}
		all += a.bytes
		switch {
		case c.Category[i] == a.category:
			right += a.bytes
		case c.Confidence[i] >= 90:
			sureAndWrong += a.bytes
		}
	}
	if right*100 < all*97 || sureAndWrong*100 > all*percent {
		t.Errorf("of %d bytes of caches and scores %d are right, %d wrong though sure", all, right, sureAndWrong)
	}
	for k, step := range c.Steps {
		for _, p := range step.Phases {
			if p.Phase == Backward || p.Phase == Optimizer {
				t.Errorf("step %d has a phase %s: nothing is trained", k, p.Phase)
			}
		}
	}
}

// mask tells of a mask for so many tokens, as libraries work it out.
func (s *story) mask(rows int64) {
	positions, ids := s.alloc(Temporary, 8*rows), s.alloc(Temporary, 64)
	first, second := s.alloc(Temporary, 8), s.alloc(Temporary, 8)
	number := s.alloc(Temporary, 8)
	s.free(second)
	columns, wide := s.alloc(Temporary, 8*rows), s.alloc(Temporary, 8*rows)
	s.free(columns)
	one, row := s.alloc(Temporary, 1), s.alloc(Temporary, rows)
	seen := s.alloc(Temporary, rows)
	s.free(row, one)
	rights, lefts, both := s.alloc(Temporary, 64*rows), s.alloc(Temporary, 64*rows), s.alloc(Temporary, 8*rows)
	s.free(lefts, rights)
	all := s.alloc(Temporary, 8*rows)
	s.free(both, seen, ids, first, number, wide, all, positions)
}
