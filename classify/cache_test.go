package classify

import (
	"fmt"
	"slices"
	"testing"
)

// TestNamedCaches: what a function of the program's own makes is a key-value cache
// where its name says so, or where there are two blocks for each layer of the model
// and nothing is trained. It may be made before all requests or for each of them.
func TestNamedCaches(t *testing.T) {
	const layers = 6
	for name, c := range map[string]struct {
		function string
		blocks   int
		perLoop  bool // made for each request
		trains   bool
		want     bool
	}{
		"one block of all layers":                        {"allocate_kv_cache", 1, false, false, true},
		"blocks of each layer":                           {"setup_caches", 2 * layers, false, false, true},
		"for each request":                               {"init_cache", 2 * layers, true, false, true},
		"a name that doesn't say what, and other counts": {"init_cache", 8, false, false, false},
		"a name that doesn't say what, and one block":    {"init_cache", 1, false, false, false},
		"of features":                                    {"build_feature_cache", 2 * layers, false, false, false},
		"of a data set that is trained on":               {"init_cache", 2 * layers, false, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t, true)
			for range layers {
				p.build(9 * mib)
				p.build(3 * mib)
			}
			var caches []int
			fill := func() {
				for range c.blocks {
					caches = append(caches, p.alloc(KVCache, 16*mib, "serve.py:8 "+c.function, "serve.py:20 main"))
				}
			}
			if !c.perLoop {
				fill()
			}
			p.alloc(Weights, mib, "serve.py:15 setup_mask", "serve.py:21 main") // what follows is the last that is made before the loop
			serve := func(k int) {
				if c.perLoop {
					fill()
				}
				for range 10 {
					ids := p.alloc(Inputs, mib, "serve.py:22 main")
					for k := range 8 {
						p.free(p.alloc(Temporary, 5*mib, linearFrame, callFrame, fmt.Sprintf("net.py:%d forward", 20+k), callFrame, "serve.py:23 main"))
					}
					p.free(ids)
				}
				if c.perLoop {
					p.free(caches[len(caches)-c.blocks:]...)
				}
			}
			if c.trains {
				p.train(3, p.ordinary)
			} else {
				p.loop(3, serve)
			}
			k := New(p.timeline(), Options{})
			for _, id := range caches {
				if got := k.Category[id]; (got == KVCache) != c.want || got == KVCache && k.Confidence[id] >= 90 {
					t.Fatalf("said %v, %d %% sure", got, k.Confidence[id])
				}
			}
			if last := k.Phase[len(k.Phase)-1]; c.want && last != Generate {
				t.Errorf("the passes are %v", last)
			}
		})
	}
}

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

// TestWindows keeps keys and values of a window that slides: each pass makes all of them
// anew, and then the old ones go. What each layer hands out alone is no cache.
func TestWindows(t *testing.T) {
	for _, c := range []struct {
		name   string
		each   int // of a layer
		passes int
		want   bool
	}{
		{"keys and values", 2, 6, true},
		{"one for each layer", 1, 6, false},
		{"two passes", 2, 2, false},
	} {
		for _, stacks := range []bool{true, false} {
			t.Run(c.name, func(t *testing.T) {
				p := newProgram(t, stacks)
				line := []string{"net.py:9 forward", callFrame, "chat.py:12 main"}
				var cache, made []int
				p.loop(c.passes, func(int) {
					p.alloc(Inputs, 4096, "chat.py:10 main")
					var next []int
					hidden := p.alloc(Temporary, mib, line...)
					for range 8 {
						for range 3 {
							p.free(p.alloc(Temporary, 3*mib, line...), p.alloc(Temporary, 2*mib, line...))
						}
						for range c.each {
							joined := p.alloc(Temporary, 8*mib+4096, line...)
							next = append(next, p.alloc(KVCache, 8*mib, line...))
							p.free(joined)
						}
						out := p.alloc(Temporary, mib, line...)
						p.free(hidden)
						hidden = out
					}
					slices.Reverse(cache)
					p.free(cache...)
					p.free(p.alloc(Temporary, 24*mib, "chat.py:13 main"), hidden)
					cache, made = next, append(made, next...)
				})
				k := New(p.timeline(), Options{})
				for i, id := range made {
					if said := k.Category[id] == KVCache; said != c.want {
						t.Fatalf("block %d of %d: said %v, %d %% sure", i, len(made), k.Category[id], k.Confidence[id])
					}
				}
			})
		}
	}
}
