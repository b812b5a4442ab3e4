package weights

import (
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/internal/testing/phased"
	"github.com/vramscope/vramscope/timeline"
)

const kib = 1 << 10

// model makes five layers' weights.
func model(p *phased.Program) {
	p.In(meaning.Setup)
	for range 5 {
		p.Make(600*kib, 2)
		p.Make(800*kib, 1)
	}
}

// step is one of training, whose gradients are there until it has updated weights.
func step(p *phased.Program, casts int) (copies []int) {
	p.Step()
	p.In(meaning.Forward)
	var saved []int
	for range 5 {
		copies = append(copies, p.Make(300*kib, casts)...)
		saved = append(saved, p.Make(100*kib, 2)...)
		p.Work(90 * kib)
	}
	p.In(meaning.Backward)
	var gradients []int
	for k := range 5 {
		for range 2 {
			half := p.Make(300*kib, casts)
			gradients = append(gradients, p.Make(600*kib, 1)...)
			p.Free(half...)
		}
		gradients = append(gradients, p.Make(800*kib, 1)...)
		p.Free(saved[2*k : 2*k+2]...)
	}
	p.Free(copies...)
	p.In(meaning.Optimizer)
	p.Work(50 * kib)
	p.Free(gradients...)
	return copies
}

// births lists when what a set holds was made.
func births(a *rules.Facts, ids map[timeline.AllocationID]bool) (out []int) {
	for id := range ids {
		out = append(out, a.Born(id))
	}
	slices.Sort(out)
	return out
}

// TestBuckets: what DDP makes anew after the first backward pass.
func TestBuckets(t *testing.T) {
	const all = 10*600*kib + 5*800*kib
	for _, c := range []struct {
		name   string
		first  bool // before the first backward pass
		blocks []int64
		times  int
		want   bool
	}{
		{"as large as all gradients", false, []int64{1000 * kib, 4000 * kib, all - 5000*kib}, 1, true},
		{"before the first pass", true, []int64{1000 * kib, 4000 * kib, all - 5000*kib}, 1, false},
		{"too small", false, []int64{1000 * kib, 4000 * kib, all - 5500*kib}, 1, false},
		{"a single one", false, []int64{all}, 1, false},
		{"twice", false, []int64{1000 * kib, 4000 * kib, all - 5000*kib}, 2, false},
		{"copies of weights", false, slices.Concat(slices.Repeat([]int64{600 * kib}, 10), slices.Repeat([]int64{800 * kib}, 5)), 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			model(p)
			if !c.first {
				step(p, 0)
			}
			var made []int
			for range c.times {
				p.In(meaning.Forward)
				p.Work(40 * kib)
				for _, n := range c.blocks {
					made = append(made, p.Make(n, 1)...)
				}
				p.Work(40 * kib)
			}
			step(p, 0)
			if !c.want {
				made = nil
			}
			a := rules.New(p.Follow())
			if got := births(a, findBuckets(a)); !slices.Equal(got, made) {
				t.Errorf("%d, want %d", got, made)
			}
		})
	}
}

// TestTwins: copies of a model that a program makes between its passes.
func TestTwins(t *testing.T) {
	for _, c := range []struct {
		name                string
		layers              int
		between, goes, want bool
	}{
		{"the whole model", 5, false, false, true},
		{"a part of it", 2, false, false, false},
		{"others in between", 5, true, false, false},
		{"gone at once", 5, false, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			model(p)
			step(p, 0)
			p.In(meaning.OtherPhase)
			var copies []int
			for range c.layers {
				copies = append(copies, p.Make(600*kib, 2)...)
				copies = append(copies, p.Make(800*kib, 1)...)
				if c.between {
					p.Work(50 * kib)
				}
			}
			if c.goes {
				p.Free(copies...)
			}
			step(p, 0)
			if !c.want {
				copies = nil
			}
			a := rules.New(p.Follow())
			if got := births(a, findTwins(a)); !slices.Equal(got, copies) {
				t.Errorf("%d, want %d", got, copies)
			}
		})
	}
}

// TestCopies: autocast's copies, by the gradients that are converted; and not what else has
// their size in the same pass.
func TestCopies(t *testing.T) {
	for _, c := range []struct {
		name   string
		casts  int
		others int
		want   bool
	}{
		{"without autocast", 0, 5, false},
		{"under autocast", 2, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			model(p)
			var copies []int
			for range 3 {
				p.In(meaning.Data)
				other := p.Make(300*kib, c.others)
				copies = append(copies, step(p, c.casts)...)
				p.Free(other...)
			}
			a := rules.New(p.Follow())
			var got []int
			for id, is := range findCopies(a) {
				if is {
					got = append(got, a.Born(timeline.AllocationID(id)))
				}
			}
			if !c.want {
				copies = nil
			}
			if !slices.Equal(got, copies) {
				t.Errorf("%d, want %d", got, copies)
			}
		})
	}
}

// TestNoWeight: what setup leaves of a size may be data or state.
func TestNoWeight(t *testing.T) {
	a := &rules.SizeIndex{
		WeightSize: map[int64]int{2 << 20: 2, 600 * kib: 4, 700 * kib: 4, 8: 4},
		StateSize:  map[int64]bool{700 * kib: true},
	}
	gradients := map[int64]int{600 * kib: 2, 700 * kib: 2, 8: 2}
	for _, c := range []struct {
		name  string
		bytes int64
		nth   int
		want  bool
	}{
		{"without gradients", 2 << 20, 1, false},
		{"the first of two for each gradient", 600 * kib, 2, false},
		{"the second", 600 * kib, 3, true},
		{"the second, of which there is state", 700 * kib, 3, false},
		{"scalars", 8, 3, false},
	} {
		if got := isNoWeight(a, gradients[c.bytes], c.bytes, c.nth); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestUntrained: what setup leaves that nothing trains is data where no small blocks of its own stand beside it, as biases do;
// running statistics, as many as trained norms, say nothing.
func TestUntrained(t *testing.T) {
	const gradient, statistic = 600 * kib, 2 * kib
	for _, c := range []struct {
		name       string
		small      int // untrained, of a size of their own
		statistics int // beside each trained norm
		data       int
	}{
		{"data alone", 0, 0, 2},
		{"with running statistics", 0, 1, 2},
		{"with biases", 2, 0, 0},
	} {
		p := &phased.Program{}
		p.In(meaning.Setup)
		p.Make(gradient, 1)
		p.Make(statistic, 3*(1+c.statistics))
		data := p.Make(90<<20, 2)
		p.Make(7*kib, c.small)
		for range 2 {
			p.In(meaning.Forward)
			saved := p.Make(5*kib, 4)
			p.In(meaning.Backward)
			made := append(p.Make(gradient, 1), p.Make(statistic, 3)...)
			p.Free(saved...)
			p.In(meaning.ZeroGrad)
			p.Free(made...)
		}
		a := rules.New(p.Follow())
		if got := births(a, untrainedOfSetup.Of(a).data); len(got) != c.data || c.data > 0 && !slices.Equal(got, data) {
			t.Errorf("%s: %v, want %d of %v", c.name, got, c.data, data)
		}
	}
}

// TestMaster: what is twice as large as a flat buffer of weights is an optimizer's copy of them.
func TestMaster(t *testing.T) {
	for _, c := range []struct {
		name         string
		flat, master int64
		want         meaning.Category
	}{
		{"of a flat buffer", 9000 * kib, 18000 * kib, meaning.OptimizerState},
		{"one byte more", 9000 * kib, 18000*kib + 1, meaning.Weights},
		{"of no flat buffer", 0, 18000 * kib, meaning.Weights},
	} {
		p := &phased.Program{}
		model(p)
		flat, master := p.Make(9000*kib, 1)[0], p.Make(c.master, 1)[0]
		step(p, 0)
		a := p.Follow()
		if c.flat > 0 {
			a.Packed = map[timeline.AllocationID]bool{a.Timeline.Of[flat]: true}
		}
		if got := phased.Ask(LeftBySetup, a, master).Category; got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestBesideModules: what a constructor makes beside modules that hold the weights is no weight unless modules have its size.
func TestBesideModules(t *testing.T) {
	for _, c := range []struct {
		name    string
		modules int
		bytes   int64
		want    rules.Claim
	}{
		{"of no module's size", 4, 900 * kib, rules.Silence()},
		{"of a module's size", 4, 600 * kib, rules.As(meaning.Weights, rules.Plausible)},
		{"without modules", 0, 900 * kib, rules.As(meaning.Weights, rules.Guess)},
	} {
		p := &phased.Program{}
		p.In(meaning.Setup)
		p.By(frames.Weight)
		p.Make(600*kib, c.modules)
		p.By(frames.UserInner | frames.Named)
		made := p.Make(c.bytes, 1)[0]
		p.By(0)
		p.In(meaning.Forward)
		p.Work(90 * kib)
		if got := phased.Ask(OwnWeights, p.Follow(), made); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestLargestByFar: one block that is many times as large as all others isn't told as a weight.
func TestLargestByFar(t *testing.T) {
	for _, c := range []struct {
		name   string
		blocks []int64
		want   int // of them; -1: none
	}{
		{"a table", []int64{100 * kib, 4200 * kib, 100 * kib}, 1},
		{"less by a byte", []int64{100 * kib, 4000*kib - 1, 100 * kib}, -1},
		{"layers", []int64{600 * kib, 600 * kib}, -1},
		{"nothing", nil, -1},
	} {
		p := &phased.Program{}
		p.In(meaning.Setup)
		want := -1
		var made []int
		for _, n := range c.blocks {
			made = append(made, p.Make(n, 1)...)
		}
		p.Work(9 * kib)
		a := rules.New(p.Follow())
		guessed := map[timeline.AllocationID]bool{}
		for _, b := range made {
			guessed[a.Timeline.Of[b]] = true
		}
		if c.want >= 0 {
			want = made[c.want]
		}
		got := -1
		if id := largestByFar(a, guessed); id != timeline.NoAllocation {
			got = a.Born(id)
		}
		if got != want {
			t.Errorf("%s: made at %d, want %d", c.name, got, want)
		}
	}
}
