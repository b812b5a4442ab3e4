package classify

import (
	"fmt"
	"testing"
)

// TestScoresWhereverTheHeadLies: a model below a wrapper, or with a head of
// several modules, makes its scores as deep as its layers. What is as wide but
// has no score for each word and token isn't one.
func TestScoresWhereverTheHeadLies(t *testing.T) {
	const tokens = 4096
	for name, c := range map[string]struct {
		words int64
		want  Category
	}{
		"a score for each of 30,522 words":   {30_522 * tokens * 4, Logits},
		"in 16 bits":                         {32_000 * tokens * 2, Logits},
		"no number for each token":           {30_522*tokens*4 + 64, Temporary},
		"fewer numbers than there are words": {2048 * tokens * 4, Temporary},
		"narrower than what the layers have": {4000 * tokens, Temporary},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t, true)
			p.loop(5, func(int) {
				ids := p.alloc(Inputs, tokens*8, "eval.py:10 main")
				for k := range 6 {
					p.free(p.alloc(Temporary, 24*mib, linearFrame, callFrame, fmt.Sprintf("net.py:%d forward", 20+k), callFrame, "net.py:9 forward", callFrame, "wrap.py:5 forward", callFrame, "eval.py:12 main"))
				}
				scores := p.alloc(c.want, c.words, linearFrame, callFrame, "net.py:40 forward", callFrame, "net.py:10 forward", callFrame, "wrap.py:5 forward", callFrame, "eval.py:12 main")
				p.free(p.alloc(Temporary, tokens*8, "eval.py:13 main"))
				p.free(scores, ids)
			})
			k := New(p.timeline(), Options{})
			for id, a := range p.allocs {
				if a.bytes == c.words && k.Category[id] != a.category {
					t.Errorf("said %v, %d %% sure, want %v", k.Category[id], k.Confidence[id], a.category)
				}
			}
		})
	}
}

// TestScoresAfterTheModel: where the model's own code adds what its layers make, its
// scores are the last of a pass, which the program uses. What is as wide as the
// numbers that the model was given isn't scores.
func TestScoresAfterTheModel(t *testing.T) {
	const tokens, words = 1024, 16_000
	for name, c := range map[string]struct {
		given int64 // besides ids
		want  Category
	}{
		"a language model":               {0, Logits},
		"an autoencoder of 16,000 genes": {tokens * words * 4, Temporary},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t, true)
			var before []int
			p.loop(5, func(int) {
				batch := []int{p.alloc(Inputs, tokens*8, "eval.py:10 main")}
				if c.given > 0 {
					batch = append(batch, p.alloc(Inputs, c.given, "eval.py:11 main"))
				}
				p.free(before...)
				for k := range 6 {
					up := p.alloc(Temporary, 8*mib, linearFrame, callFrame, fmt.Sprintf("net.py:%d forward", 20+k), callFrame, "eval.py:12 main")
					p.free(p.alloc(Temporary, 2*mib, "net.py:30 forward", callFrame, "eval.py:12 main"), up)
				}
				scores := p.alloc(c.want, tokens*words*4, linearFrame, callFrame, "net.py:40 forward", callFrame, "eval.py:12 main")
				copied := p.alloc(c.want, tokens*words*4, "eval.py:13 main")
				p.free(scores)
				before = append(batch, copied)
			})
			k := New(p.timeline(), Options{})
			found := 0
			for id, a := range p.allocs {
				if a.bytes != tokens*words*4 || a.category == Inputs {
					continue
				}
				if found++; k.Category[id] != a.category {
					t.Errorf("said %v, %d %% sure, want %v", k.Category[id], k.Confidence[id], a.category)
				}
			}
			if found != 10 {
				t.Errorf("%d results", found)
			}
		})
	}
}
