package classify

import (
	"slices"
	"testing"
)

// decoding is how a program generates, without stacks.
type decoding struct {
	beams  int
	atOnce int   // copies in another order that are made before what they take the place of goes
	fused  bool  // a prompt's queries, keys and values are one block of each layer, and a pass's old ones go at its end
	wrong  int64 // percent that may be wrong though sure
}

// TestGeneration answers requests one after the other: each begins with a prompt and
// lets its keys and values grow token by token, while the scores of a pass stay until
// the next one's. Beam search puts its caches in another order after every token, and
// masks are worked out around a number, which no backward pass does.
func TestGeneration(t *testing.T) {
	for name, d := range map[string]decoding{
		"one sequence": {beams: 1, wrong: 1},
		"beam search, which orders keys and values one by one": {beams: 4, atOnce: 1, wrong: 2},
		"beam search, which orders those of a layer at once":   {beams: 4, atOnce: 2, wrong: 2},
		"beam search, which orders those of all layers":        {beams: 4, atOnce: 6, wrong: 2},
		"queries, keys and values in one":                      {beams: 1, fused: true, wrong: 1},
		"queries, keys and values in one, and beam search":     {beams: 4, atOnce: 6, fused: true, wrong: 2},
	} {
		t.Run(name, func(t *testing.T) { testGeneration(t, d) })
	}
}

func testGeneration(t *testing.T, d decoding) {
	const layers, row, vocabulary, hidden = 3, 2048, 400_000, 8192
	s := newStory(t, false)
	s.in(Setup)
	for range 12 {
		s.alloc(Weights, 9<<20)
	}
	var scores []int
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
			if d.beams > 1 && !d.fused {
				s.mask(rows)
			}
			var next []int
			for k := range layers {
				q := s.alloc(Temporary, hidden*now)
				if d.fused && token == 0 {
					next = append(next, s.alloc(KVCache, 3*row*rows))
				} else {
					for i := 2 * k; i < 2*k+2; i++ {
						next = append(next, s.alloc(KVCache, row*rows))
						if token > 0 && !d.fused {
							s.free(cache[i])
						}
					}
				}
				up := s.alloc(Temporary, 3*hidden*now)
				s.free(q)
				y := s.alloc(Temporary, hidden*now)
				s.free(up, x)
				x = y
			}
			logits := s.alloc(Logits, vocabulary*now)
			if d.fused { // the program's own loop, which has chosen the next token by now
				s.freeLast(cache...)
				s.free(x, ids)
			}
			if cache = next; d.beams > 1 {
				cache = s.order(cache, d.atOnce, row*rows)
			}
			if !d.fused {
				s.free(x, ids)
			}
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
	if right*100 < all*97 || sureAndWrong*100 > all*d.wrong {
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

// order tells of copies of a cache in another order, so many at once.
func (s *story) order(cache []int, atOnce int, bytes int64) (ordered []int) {
	if len(cache) < atOnce { // keys and values in one
		for range atOnce {
			ordered = append(ordered, s.alloc(KVCache, bytes))
		}
		s.freeLast(cache...)
		return ordered
	}
	for old := range slices.Chunk(cache, atOnce) {
		for range old {
			ordered = append(ordered, s.alloc(KVCache, bytes))
		}
		s.freeLast(old...)
	}
	return ordered
}

// freeLast frees the last first, as lists and tuples do.
func (s *story) freeLast(ids ...int) {
	for _, id := range slices.Backward(ids) {
		s.free(id)
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
