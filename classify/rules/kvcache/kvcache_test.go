package kvcache

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/rows"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/testing/phased"
	"github.com/vramscope/vramscope/timeline"
)

const (
	kib    = 1 << 10
	layers = 4
)

// model makes weights for each layer, and a table.
func model(p *phased.Program) {
	p.In(meaning.Setup)
	p.Make(9<<20, 1)
	for range layers {
		p.Make(600*kib, 2)
		p.Make(800*kib, 1)
	}
}

// pass runs through all layers; each asks for blocks of its own once it has worked.
func pass(p *phased.Program, own func(layer int)) {
	p.Work(70 * kib)
	for k := range layers {
		wide := int64(k) * 12 * kib // no layer is like another, and passes are
		p.Work(510*kib+wide, 710*kib+wide, 310*kib)
		if own != nil {
			own(k)
		}
		p.Work(410*kib + wide)
	}
	p.Work(5<<20, 70*kib)
}

// marked lists the blocks that are marked.
func marked(a *rules.Facts, marks []bool) (births []int) {
	for id, is := range marks {
		if is {
			births = append(births, a.Born(timeline.AllocationID(id)))
		}
	}
	return births
}

// TestGrowth lets a cache grow from a prompt of two tokens on, whose hidden states have the
// size of its keys and values.
func TestGrowth(t *testing.T) {
	for _, c := range []struct {
		name   string
		rows   []int64 // tokens in each pass
		others int     // rows of hidden states in each
		chains int
	}{
		{"token by token", []int64{2, 3, 4, 5, 6}, 0, 1},
		{"too short", []int64{2, 3, 4}, 0, 0},
		{"two requests", []int64{2, 3, 4, 5, 6, 0, 7, 8, 9, 10}, 0, 2},
		{"by as many as were accepted", []int64{2, 3, 5, 6, 9}, 0, 1},
		{"and is cut back", []int64{5, 9, 7, 11, 8}, 0, 1},
		{"by too much", []int64{2, 6, 20, 70, 300}, 0, 0},
		{"not at all", []int64{5, 5, 5, 5, 5}, 0, 0},
		{"beside many rows of other kinds", []int64{2, 3, 4, 5, 6}, 80, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			model(p)
			p.In(meaning.Forward)
			var cache, all []int
			for _, rows := range c.rows {
				next := make([]int, 0, 2*layers)
				if rows == 0 {
					p.Free(cache...)
					cache = nil
					continue
				}
				pass(p, func(k int) {
					next = append(next, p.Make(rows*100*kib, 2)...)
					if cache != nil {
						p.Free(cache[2*k : 2*k+2]...)
					}
				})
				all = append(all, next...)
				cache = next
				for range c.others {
					p.Free(p.Make(11*kib, layers)...)
				}
			}
			program := p.Follow()
			was := program.Phase[len(program.Phase)-1]
			a := Look(program)
			g := Growth.Of(a)
			if len(g.Chains) != c.chains {
				t.Fatalf("%d chains, want %d", len(g.Chains), c.chains)
			}
			if c.chains == 0 {
				all = nil
			}
			if got := marked(a, g.Growing); !slices.Equal(got, all) {
				t.Errorf("%d grow, want %d", got, all)
			}
			if is := a.Phase[len(a.Phase)-1]; (is != was) != (c.chains > 0) {
				t.Errorf("the last phase is %v", is)
			}
		})
	}
}

// TestRising: passes without a cache, each of one token more than the one before.
func TestRising(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens []int64
		want   bool
	}{
		{"token by token", []int64{40, 41, 42, 43, 44, 45, 46}, true},
		{"too few", []int64{40, 41, 42, 43, 44}, false},
		{"as long as each other", []int64{40, 40, 40, 40, 40, 40, 40}, false},
		{"by other amounts each time", []int64{40, 41, 43, 46, 50, 55, 61, 68}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			model(p)
			for range 2 {
				p.In(meaning.Forward)
				for _, n := range c.tokens {
					p.Work(n*10*kib, n*30*kib, n*10*kib)
				}
				p.In(meaning.Backward)
				p.Make(600*kib, 1)
			}
			a := Look(p.Follow())
			made := a.Timeline.Older() + 3*layers + 2
			if is := a.Phase[made] == meaning.Generate; is != c.want {
				t.Errorf("passes are %v", a.Phase[made])
			}
		})
	}
}

// TestWhole: which rows are caches in programs that only run forward.
func TestWhole(t *testing.T) {
	const own, inner = frames.UserInner, frames.InModule
	for _, c := range []struct {
		name   string
		blocks int
		bytes  int64
		marks  frames.Marks // of their stacks; 0: there are none
		where  func(p *phased.Program, fill func() []int) []int
		want   bool
	}{
		{"last in setup", 2 * layers, 900 * kib, 0, inSetup, true},
		{"one for each layer", layers, 900 * kib, 0, inSetup, true},
		{"last in setup, by the program", 2 * layers, 900 * kib, own, inSetup, true},
		{"last in setup, moved with a module", 2 * layers, 2 << 20, frames.Weight | frames.Buffer, inSetup, true},
		{"pair by pair, moved with modules", 2 * layers, 2 << 20, frames.Weight | frames.Buffer, afterEach(6 * kib), true},
		{"tables of positions, each after its frequencies", 2 * layers, 2 << 20, frames.Weight | frames.Buffer, afterEach(256), false},
		{"as small as masks", 2 * layers, 900 * kib, frames.Weight | frames.Buffer, inSetup, false},
		{"last in setup, by a module", 2 * layers, 900 * kib, own | inner, inSetup, false},
		{"as many as no layers", 2*layers + 2, 900 * kib, 0, inSetup, false},
		{"as small as adapters", 2 * layers, 30 * kib, 0, inSetup, false},
		{"of a weight's size", 2 * layers, 600 * kib, 0, inSetup, false},
		{"before other weights", 2 * layers, 900 * kib, 0, beforeOthers, false},
		{"before what a graph is captured with", 2 * layers, 900 * kib, 0, beforeSmall, true},
		{"for each request", 2 * layers, 900 * kib, 0, inRequests, true},
		{"for each request, by the program", 2 * layers, 900 * kib, own, inRequests, true},
		{"for each request, by torch", 2 * layers, 900 * kib, frames.MatMul, inRequests, false},
		{"for each request, of a weight's size", 2 * layers, 800 * kib, 0, inRequests, false},
		{"for one pass", 2 * layers, 900 * kib, 0, inOnePass, false},
		{"by the layers", 2 * layers, 900 * kib, 0, byLayers, true},
		{"by the layers, as many as other rows", 2*layers + 4, 900 * kib, 0, byLayers, false},
		{"one by one", 2 * layers, 900 * kib, 0, oneByOne, true},
		{"one by one, by torch's modules", 2 * layers, 900 * kib, inner, oneByOne, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			if c.marks != 0 {
				p.By(frames.Weight)
			}
			model(p)
			made := c.where(p, func() []int {
				if c.marks != 0 {
					p.By(c.marks)
					defer p.By(0)
				}
				return p.Make(c.bytes, c.blocks)
			})
			a := Look(p.Follow())
			if !c.want {
				made = nil
			}
			if is := a.Phase[len(a.Phase)-1]; (is == meaning.Generate) != c.want {
				t.Errorf("the last phase is %v", is)
			}
			if got := marked(a, Kept.Of(a)); !slices.Equal(got, made) {
				t.Errorf("%d are kept, want %d", got, made)
			}
			sureness(t, a, made, rules.Likely)
		})
	}
}

// TestLastPair: two equal blocks, the last of setup, beside a model of several layers.
func TestLastPair(t *testing.T) {
	for _, c := range []struct {
		name   string
		blocks int
		bytes  int64
		marks  frames.Marks
		where  func(p *phased.Program, fill func() []int) []int
		want   bool
	}{
		{"keys and values of all layers", 2, 10 << 20, 0, inSetup, true},
		{"by the program", 2, 10 << 20, frames.UserInner, inSetup, true},
		{"by a module", 2, 10 << 20, frames.Weight, inSetup, false},
		{"no larger than a weight", 2, 9 << 20, 0, inSetup, false},
		{"before other weights", 2, 10 << 20, 0, beforeOthers, false},
		{"three of them", 3, 10 << 20, 0, inSetup, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			if c.marks != 0 {
				p.By(frames.Weight)
			}
			p.In(meaning.Setup)
			p.Make(9<<20, 1)
			for range 4 * layers {
				p.Make(600*kib, 2)
				p.Make(800*kib, 2)
			}
			made := c.where(p, func() []int {
				if c.marks != 0 {
					p.By(c.marks)
				}
				return p.Make(c.bytes, c.blocks)
			})
			if !c.want {
				made = nil
			}
			a := Look(p.Follow())
			if got := marked(a, Kept.Of(a)); !slices.Equal(got, made) {
				t.Errorf("%d are kept, want %d", got, made)
			}
			sureness(t, a, made, rules.Plausible-1)
		})
	}
}

// TestCutShort: blocks of which one more fails before the first pass.
func TestCutShort(t *testing.T) {
	const zeros = frames.UserInner | frames.Native | frames.Filled
	for _, c := range []struct {
		name   string
		blocks int
		marks  frames.Marks
		asked  int64
		want   bool
	}{
		{"zeros, one for each layer but one", 2*layers - 1, zeros, 2 << 20, true},
		{"half of them, a pool that is whole", layers, zeros, 2 << 20, true},
		{"more than two for each layer", 8*layers + 1, zeros, 2 << 20, false},
		{"too few", 3, zeros, 2 << 20, false},
		{"something else fails", 2*layers - 1, zeros, 3 << 20, false},
		{"no zeros", 2*layers - 1, frames.UserInner | frames.Native, 2 << 20, false},
		{"by a module", 2*layers - 1, zeros | frames.Weight, 2 << 20, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			p.By(frames.Weight)
			model(p)
			p.By(c.marks)
			made := p.Make(2<<20, c.blocks)
			p.Fail(c.asked)
			program := p.Follow()
			program.Loop = program.Last
			a := Look(program)
			if !c.want {
				made = nil
			}
			got := marked(a, Kept.Of(a))
			if !slices.Equal(got, made) {
				t.Errorf("%d are kept, want %d", got, made)
			}
			if c.blocks != layers {
				sureness(t, a, made, rules.Plausible-1)
			}
		})
	}
}

// sureness checks how sure the rule is of what it claims.
func sureness(t *testing.T, a *rules.Facts, births []int, want uint8) {
	t.Helper()
	says := CacheRow.Look(a)
	for _, b := range births {
		if got := says(a.Timeline.Of[b]).Sure; got != want {
			t.Errorf("%d is claimed with %d, want %d", b, got, want)
		}
	}
}

// afterEach makes pairs of buffers in setup, each after another buffer.
func afterEach(bytes int64) func(p *phased.Program, fill func() []int) []int {
	return func(p *phased.Program, _ func() []int) []int {
		return inSetup(p, func() (pairs []int) {
			p.By(frames.Weight | frames.Buffer)
			defer p.By(0)
			for range layers {
				p.Make(bytes, 1)
				pairs = append(pairs, p.Make(2<<20, 2)...)
			}
			return pairs
		})
	}
}

// serve answers a request of several passes.
func serve(p *phased.Program, passes int) {
	p.In(meaning.Forward)
	for range passes {
		pass(p, nil)
	}
}

func inSetup(p *phased.Program, fill func() []int) []int {
	made := fill()
	serve(p, 6)
	return made
}

func beforeOthers(p *phased.Program, fill func() []int) []int {
	made := fill()
	p.Make(2<<20, 1)
	serve(p, 6)
	return made
}

func beforeSmall(p *phased.Program, fill func() []int) []int {
	made := fill()
	p.Make(2*kib, 3)
	serve(p, 6)
	return made
}

func inRequests(p *phased.Program, fill func() []int) (all []int) {
	for range 3 {
		p.In(meaning.Forward)
		made := fill()
		serve(p, 6)
		p.Free(made...)
		all = append(all, made...)
	}
	return all
}

func inOnePass(p *phased.Program, fill func() []int) (all []int) {
	for range 3 {
		p.In(meaning.Forward)
		made := fill()
		p.Work(510*kib, 710*kib, 310*kib, 5<<20, 70*kib)
		p.Free(made...)
		all = append(all, made...)
	}
	return all
}

func byLayers(p *phased.Program, fill func() []int) (all []int) {
	blocks := fill() // how large, and how many
	p.Free(blocks...)
	for range 3 {
		p.In(meaning.Forward)
		var made []int
		pass(p, func(int) { made = append(made, p.Make(900*kib, len(blocks)/layers)...) })
		serve(p, 6)
		p.Free(made...)
		all = append(all, made...)
	}
	return all
}

func oneByOne(p *phased.Program, fill func() []int) (all []int) {
	p.Free(fill()...)
	for range 3 {
		p.In(meaning.Forward)
		var made []int
		for range 2 * layers {
			p.Work(300*kib, 500*kib)
			made = append(made, p.Make(900*kib, 1)...)
		}
		serve(p, 6)
		p.Free(made...)
		all = append(all, made...)
	}
	return all
}

// TestBeside: what layers keep of an encoder's result goes by the cache that grows beside it.
func TestBeside(t *testing.T) {
	for _, c := range []struct {
		name       string
		each, last int // blocks of each layer; passes
		want       bool
	}{
		{"one of each layer", 1, 9, true},
		{"two of each layer", 2, 9, true},
		{"three of each layer", 3, 9, false},
		{"for one pass", 2, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			model(p)
			p.In(meaning.Forward)
			var cache, crossed []int
			for token := range int64(9) {
				var next []int
				pass(p, func(k int) {
					next = append(next, p.Make((token+1)*100*kib, 2)...)
					if cache != nil {
						p.Free(cache[2*k : 2*k+2]...)
					}
					if token == 0 {
						p.Work(20 * kib)
						crossed = append(crossed, p.Make(999*kib, c.each)...)
					}
				})
				if cache = next; int(token) == c.last-1 {
					p.Free(crossed...)
				}
			}
			p.Work(1000 * kib)
			a := Look(p.Follow())
			if !c.want {
				crossed = nil
			}
			if got := marked(a, Kept.Of(a)); !slices.Equal(got, crossed) {
				t.Errorf("%d are kept, want %d", got, crossed)
			}
		})
	}
}

// TestRequests: beside caches of several requests at a time may be as many blocks as all of them have.
func TestRequests(t *testing.T) {
	const each = 8 // blocks of a request's cache
	for _, c := range []struct {
		requests, blocks int
		want             bool
	}{
		{1, each / 2, true}, {1, each, true}, {1, each - 2, false}, {1, 2 * each, false},
		{2, 2 * each, true}, {2, 3 * each, false}, {3, 3 * each, true}, {3, 5 * each / 2, true},
	} {
		f := &whole{Grown: &Grown{Growing: make([]bool, 1)}, requests: map[int]int{each: c.requests}}
		if got := f.isBeside(&rows.Row{IDs: make([]timeline.AllocationID, c.blocks)}); got != c.want {
			t.Errorf("%d blocks beside the caches of %d requests: %v", c.blocks, c.requests, got)
		}
		f.Growing[0] = true
		if f.isBeside(&rows.Row{IDs: make([]timeline.AllocationID, c.blocks)}) {
			t.Errorf("%d blocks of a cache that grows are beside it", c.blocks)
		}
	}
}

// TestKept: keys and values that training passes keep until the next pass has its own.
func TestKept(t *testing.T) {
	for _, c := range []struct {
		name   string
		steps  int
		gap    int // blocks between a key and its value
		bit    bool
		retain bool // all that a pass saves stays as long
		want   int  // steps whose blocks are found
	}{
		{"pairs", 4, 0, false, false, 4},
		{"one by one", 4, 60, false, false, 0},
		{"which go bit by bit", 4, 0, true, false, 0},
		{"in one pass, after which nothing shows", 1, 0, false, false, 0},
		{"with the whole graph", 4, 0, false, true, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			model(p)
			var kept, held, all []int
			for step := range c.steps {
				p.In(meaning.Forward)
				var saved, next []int
				pass(p, func(int) {
					saved = append(saved, p.Make(350*kib, 6)...)
					next = append(next, p.Make(200*kib, 1)...)
					for range c.gap {
						p.Work(20 * kib)
					}
					next = append(next, p.Make(200*kib, 1)...)
					saved = append(saved, p.Make(450*kib, 6)...)
				})
				for _, b := range kept {
					if p.Free(b); c.bit {
						p.Work(90 * kib)
					}
				}
				p.Free(held...)
				held = nil
				p.In(meaning.Backward)
				p.Work(5<<20, 600*kib, 800*kib)
				if c.retain {
					held = saved
				} else {
					p.Free(saved...)
				}
				p.Work(600 * kib)
				if kept = next; step < c.want {
					all = append(all, next...)
				}
			}
			a := Look(p.Follow())
			if got := marked(a, Kept.Of(a)); !slices.Equal(got, all) {
				t.Errorf("%d are kept, want %d", got, all)
			}
		})
	}
}
