package weights

import (
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/testing/phased"
	"github.com/vramscope/vramscope/timeline"
)

// twice is a pass with its gradients, which lets go of some blocks, and what happens before the gradients go.
func twice(p *phased.Program, sizes []int64, used []int, then func()) {
	p.In(meaning.Forward)
	saved := p.Make(100*kib, 6)
	p.In(meaning.Backward)
	p.Work(90*kib, 90*kib)
	var gradients []int
	for _, n := range sizes {
		gradients = append(gradients, p.Make(n, 1)...)
	}
	p.Free(append(used, saved...)...)
	p.In(meaning.OtherPhase)
	then()
	p.Free(gradients...)
}

// TestMadeAnew: sets of blocks in the sizes of all weights that take each other's place.
func TestMadeAnew(t *testing.T) {
	const state, weights, none = meaning.OptimizerState, meaning.Weights, meaning.Unknown
	sizes := []int64{600 * kib, 600 * kib, 800 * kib, 900 * kib}
	for _, c := range []struct {
		name   string
		sets   int
		rounds bool // each weight's own follow each other
		gone   bool // what was there before goes with the first
		update func(p *phased.Program, replace func())
		want   []meaning.Category // of the first weight's, set by set
	}{
		{"moments", 2, false, false, always, []meaning.Category{state, state}},
		{"moments, weight by weight", 2, true, false, always, []meaning.Category{state, state}},
		{"moments and weights", 3, false, true, always, []meaning.Category{state, state, weights}},
		{"moments and weights, weight by weight", 3, true, true, always, []meaning.Category{state, state, weights}},
		{"five moments and weights, weight by weight", 6, true, true, always,
			[]meaning.Category{state, state, state, state, state, weights}},
		{"momentum", 1, false, false, always, []meaning.Category{state}},
		{"weights", 1, false, true, always, []meaning.Category{weights}},
		{"an average, beside state", 1, false, false, func(p *phased.Program, replace func()) {
			p.In(meaning.Optimizer)
			p.Make(600*kib, 2)
			p.Make(800*kib, 1)
			p.Make(900*kib, 1)
			p.In(meaning.OtherPhase)
			replace()
		}, []meaning.Category{weights}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			p.By(frames.Weight | frames.InModule)
			p.In(meaning.Setup)
			var before []int
			for _, n := range sizes {
				before = append(before, p.Make(n, 1)...)
			}
			p.By(frames.UserInner)
			fill := func() (made []int) {
				if c.rounds {
					for _, n := range sizes {
						made = append(made, p.Make(n, c.sets)...)
						p.Work(10*kib, 10*kib)
					}
					return made
				}
				for range c.sets {
					for _, n := range sizes {
						made = append(made, p.Make(n, 1)...)
					}
				}
				return made
			}
			switch {
			case !c.gone:
				before = nil
			case c.sets > 1:
				before = fill()
			}
			var first []int
			p.In(meaning.OtherPhase)
			for range 4 {
				twice(p, sizes, nil, func() {
					c.update(p, func() {
						next := fill()
						p.Free(before...)
						before = next
						if first == nil {
							first = next
						}
					})
				})
			}
			a := p.Follow()
			for k, want := range c.want {
				at := first[k*len(sizes)]
				if c.rounds {
					at = first[k]
				}
				if got := phased.Ask(MadeAnew, a, at); got.Category != want {
					t.Errorf("set %d: %v, want %v", k, got, want)
				}
			}
		})
	}
}

func always(_ *phased.Program, replace func()) { replace() }

// TestMasters: sets of twice the bytes of weights are an optimizer's, one of their own sizes beside them is of weights.
func TestMasters(t *testing.T) {
	for _, c := range []struct {
		name  string
		sizes []int64
		want  [2]meaning.Category // of a master, and of a weight
	}{
		{"of three sizes", []int64{600 * kib, 600 * kib, 800 * kib, 900 * kib},
			[2]meaning.Category{meaning.OptimizerState, meaning.Weights}},
		{"of two sizes, as batches may be", []int64{600 * kib, 600 * kib, 800 * kib},
			[2]meaning.Category{meaning.Unknown, meaning.OptimizerState}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			p.By(frames.Weight | frames.InModule)
			p.In(meaning.Setup)
			for _, n := range c.sizes {
				p.Make(n, 1)
			}
			p.By(frames.UserInner)
			var before, first []int
			p.In(meaning.OtherPhase)
			for range 4 {
				twice(p, c.sizes, nil, func() {
					var next []int
					for _, times := range []int64{2, 2, 2, 1} {
						for _, n := range c.sizes {
							next = append(next, p.Make(times*n, 1)...)
						}
					}
					p.Free(before...)
					if before = next; first == nil {
						first = next
					}
				})
			}
			a := p.Follow()
			for k, at := range []int{first[0], first[3*len(c.sizes)]} {
				if got := phased.Ask(MadeAnew, a, at); got.Category != c.want[k] {
					t.Errorf("block %d: %v, want %v", k, got.Category, c.want[k])
				}
			}
		})
	}
}

// TestTakesOver: weights that are others for one pass, and what only has their sizes.
func TestTakesOver(t *testing.T) {
	sizes := []int64{600 * kib, 600 * kib, 800 * kib, 900 * kib}
	for _, c := range []struct {
		name    string
		late    bool // they go once the optimizer has stepped
		between bool // what the next pass saves is made among them
		want    rules.Claim
	}{
		{"gone before the optimizer steps", false, false, rules.As(meaning.Weights, rules.Guess)},
		{"gone after that", true, false, rules.Claim{}},
		{"made by the pass", false, true, rules.Claim{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			p.By(frames.Weight | frames.InModule)
			p.In(meaning.Setup)
			for _, n := range sizes {
				p.Make(n, 1)
			}
			p.By(frames.UserInner)
			p.In(meaning.OtherPhase)
			var moved, saved []int
			for range 3 {
				twice(p, sizes, nil, func() {
					moved, saved = nil, nil
					for _, n := range sizes {
						moved = append(moved, p.Make(n, 1)...)
						if c.between {
							saved = append(saved, p.Make(70*kib, 1)...)
						}
					}
				})
				twice(p, sizes, saved, func() {
					if !c.late {
						p.Free(moved...)
					}
					p.In(meaning.Optimizer)
					p.Work(50 * kib)
					p.In(meaning.OtherPhase)
					if c.late {
						p.Free(moved...)
					}
				})
			}
			if got := phased.Ask(MadeAnew, p.Follow(), moved[0]); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// TestUntrainedOfSetup: data that lie on the GPU beside a model.
func TestUntrainedOfSetup(t *testing.T) {
	data := rules.As(meaning.Inputs, rules.Plausible)
	for _, c := range []struct {
		name   string
		marks  frames.Marks // 0: there are no stacks
		size   int64        // below 0: each is larger than the one before
		blocks int
		frozen int // layers
		models int // as large as the one that is trained
		want   rules.Claim
	}{
		{"one table", 0, 5000 * kib, 1, 0, 0, data},
		{"one table, by the program", frames.UserInner, 5000 * kib, 1, 0, 0, data},
		{"by a function of torch", frames.Filled, 5000 * kib, 1, 0, 0, data},
		{"by a module", frames.Weight, 5000 * kib, 1, 0, 0, rules.Claim{}},
		{"small", 0, 60 * kib, 1, 0, 0, rules.Claim{}},
		{"of a weight's size", 0, 600 * kib, 1, 0, 0, rules.Claim{}},
		{"a list of equal ones", 0, 5000 * kib, 9, 0, 0, data},
		{"many", 0, -5000 * kib, 9, 0, 0, rules.Claim{}},
		{"beside layers that nothing trains", 0, 5000 * kib, 1, 10, 0, rules.Claim{}},
		{"beside another set of all weights", 0, 5000 * kib, 1, 0, 1, data},
		{"beside two more sets", 0, 5000 * kib, 1, 0, 2, rules.Claim{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			if c.marks != 0 {
				p.By(frames.Weight)
			}
			for range 1 + c.models {
				model(p)
			}
			p.Make(600*kib, c.frozen)
			if c.marks != 0 {
				p.By(c.marks)
			}
			var made []int
			for k := range c.blocks {
				made = append(made, p.Make(max(c.size, -c.size+int64(k)*kib), 1)...)
			}
			step(p, 0)
			step(p, 0)
			if got := phased.Ask(OwnInputs, p.Follow(), made[0]); got != c.want {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// TestBegin: sets that are made once, after the first pass, and stay.
func TestBegin(t *testing.T) {
	sizes := []int64{600 * kib, 600 * kib, 800 * kib, 900 * kib}
	state := rules.As(meaning.OptimizerState, rules.Plausible)
	for _, c := range []struct {
		name  string
		marks frames.Marks // 0: there are no stacks
		sets  int
		apart bool // other work in between
		want  rules.Claim
	}{
		{"two sets", 0, 2, false, state},
		{"one, in a row", 0, 1, false, rules.Claim{}},
		{"one, with work in between", 0, 1, true, state},
		{"zeros", frames.Filled, 1, false, state},
		{"by other operators", frames.UserInner, 1, true, state},
		{"by other operators, with C++ frames", frames.UserInner | frames.Native, 1, true, rules.Claim{}},
		{"three", frames.Filled, 3, false, rules.Claim{}},
	} {
		p := &phased.Program{}
		if c.marks != 0 {
			p.By(frames.Weight | frames.InModule)
		}
		p.In(meaning.Setup)
		for _, n := range sizes {
			p.Make(n, 1)
		}
		if c.marks != 0 {
			p.By(c.marks)
		}
		var made []int
		for range 3 {
			twice(p, sizes, nil, func() {
				for _, n := range sizes {
					if len(made) < c.sets*len(sizes) {
						made = append(made, p.Make(n, c.sets)...)
						if c.apart {
							p.Work(50*kib, 50*kib, 50*kib)
						}
					}
				}
			})
		}
		if got := phased.Ask(MadeAnew, p.Follow(), made[0]); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestAsMany: sets that are made last and stay take the place of as many, of the weights' sizes or of others.
func TestAsMany(t *testing.T) {
	g := &gap{each: map[int64]int{600 * kib: 2, 800 * kib: 1}, bytes: 2000 * kib}
	for _, c := range []struct {
		name  string
		goes  map[int64][]timeline.AllocationID
		times int
		want  bool
	}{
		{"one set", map[int64][]timeline.AllocationID{600 * kib: {0, 1}, 800 * kib: {2}}, 1, true},
		{"one set, and two come", map[int64][]timeline.AllocationID{600 * kib: {0, 1}, 800 * kib: {2}}, 2, false},
		{"two sets", map[int64][]timeline.AllocationID{600 * kib: {0, 1, 3, 4}, 800 * kib: {2, 5}}, 2, true},
		{"as many of other sizes", map[int64][]timeline.AllocationID{900 * kib: {0, 1, 2}}, 1, true},
		{"fewer of other sizes", map[int64][]timeline.AllocationID{900 * kib: {0, 1}}, 1, false},
		{"what is of no set", map[int64][]timeline.AllocationID{600 * kib: {6, 7}, 800 * kib: {8}}, 1, false},
	} {
		x := &sets{claims: map[timeline.AllocationID]rules.Claim{}}
		for id := range timeline.AllocationID(6) {
			x.claims[id] = rules.As(meaning.OptimizerState, rules.Plausible)
		}
		g.goes = c.goes
		if got := x.asMany(g, c.times); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
