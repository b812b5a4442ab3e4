package classify

import (
	"fmt"
	"testing"
)

// TestRequestedCaches: what each request makes for all layers in one go, and has for
// the passes that follow, are keys and values, whatever the functions are called,
// with stacks and without.
func TestRequestedCaches(t *testing.T) {
	const layers = 6
	for name, c := range map[string]struct {
		blocks, passes int
		bytes          int64
		trains, want   bool
	}{
		"two for each layer":            {2 * layers, 10, 16 * mib, false, true},
		"as many as nothing else":       {10, 10, 16 * mib, false, false},
		"small ones, as adapters are":   {2 * layers, 10, mib / 2, false, false},
		"for one pass":                  {2 * layers, 1, 16 * mib, false, false},
		"in a program that trains, too": {2 * layers, 10, 16 * mib, true, false},
	} {
		for _, withStacks := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s/stacks=%v", name, withStacks), func(t *testing.T) {
				p := newProgram(t, withStacks)
				for range layers {
					p.build(9 * mib)
					p.build(3 * mib)
				}
				if c.trains {
					p.train(3, p.ordinary)
				}
				var caches []int
				p.loop(4, func(k int) {
					prompt := p.alloc(Inputs, mib, "serve.py:22 main")
					made := []int{}
					for range c.blocks {
						made = append(made, p.alloc(KVCache, c.bytes, "serve.py:23 <listcomp>", "serve.py:23 main"))
					}
					caches = append(caches, made...)
					passes := c.passes
					if withStacks && c.want && k == 2 { // its first token is its last
						passes = 1
					}
					for range passes {
						for k := range 8 {
							p.free(p.alloc(Temporary, int64(4+k%3)*mib, linearFrame, callFrame, fmt.Sprintf("net.py:%d forward", 20+k), callFrame, "serve.py:24 main"))
						}
					}
					p.free(append(made, prompt)...)
				})
				k := New(p.timeline(), Options{})
				for _, id := range caches {
					if got := k.Category[id]; (got == KVCache) != c.want || got == KVCache && k.Confidence[id] >= 90 {
						t.Fatalf("said %v, %d %% sure", got, k.Confidence[id])
					}
				}
			})
		}
	}
}

// TestCrossAttention: what the layers of a decoder keep of an encoder's result, from
// the first token of a request to its last, beside keys and values that grow.
func TestCrossAttention(t *testing.T) {
	const layers, tokens = 6, 12
	for _, withStacks := range []bool{true, false} {
		t.Run(fmt.Sprintf("stacks=%v", withStacks), func(t *testing.T) {
			p := newProgram(t, withStacks)
			for range layers {
				p.build(9 * mib)
				p.build(3 * mib)
			}
			var crossed []int
			p.loop(4, func(k int) {
				sound := p.alloc(Inputs, 2*mib, "serve.py:22 main")
				encoded := p.alloc(Temporary, 7*mib, linearFrame, callFrame, "serve.py:23 main")
				var own [2 * layers]int
				var kept []int
				for n := range tokens {
					for l := range layers {
						line := fmt.Sprintf("net.py:%d forward", 20+l)
						p.free(p.alloc(Temporary, 5*mib/4, linearFrame, callFrame, line, callFrame, "serve.py:24 main"))
						for i := 2 * l; i < 2*l+2; i++ {
							anew := p.alloc(KVCache, int64(n+1)*(64<<10), line, callFrame, "serve.py:24 main")
							if n > 0 {
								p.free(own[i])
							}
							own[i] = anew
						}
						if n == 0 {
							kept = append(kept, p.alloc(KVCache, 4*mib, "net.py:40 cross", line, callFrame, "serve.py:24 main"))
						}
						for range 3 {
							p.free(p.alloc(Temporary, 3*mib, linearFrame, callFrame, line, callFrame, "serve.py:24 main"))
						}
					}
				}
				p.free(append(kept, append(own[:], sound, encoded)...)...)
				crossed = append(crossed, kept...)
			})
			k := New(p.timeline(), Options{})
			for _, id := range crossed {
				if k.Category[id] != KVCache || k.Confidence[id] >= 90 {
					t.Fatalf("said %v, %d %% sure", k.Category[id], k.Confidence[id])
				}
			}
		})
	}
}
