package rows

import (
	"fmt"
	"slices"
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/internal/testing/phased"
	"github.com/vramscope/vramscope/timeline"
)

const kib = 1 << 10

// layers makes two blocks in each of four layers, with other work around them.
func layers(p *phased.Program, size int64, within func()) (made []int) {
	for range 4 {
		p.Work(700*kib, 900*kib)
		if within != nil {
			within()
		}
		made = append(made, p.Make(size, 2)...)
	}
	return made
}

// TestFind: which rows a program has, and what is said of them.
func TestFind(t *testing.T) {
	weights := map[int64]int{800 * kib: 4, 600 * kib: 8, 64 << 20: 1}
	for _, c := range []struct {
		name string
		tell func(p *phased.Program)
		want []string
	}{
		{"what setup leaves", func(p *phased.Program) {
			p.In(meaning.Setup)
			p.Make(800*kib, 4)
			p.Free(p.Make(100*kib, 4)...)
		}, []string{"4 of 800 KiB, in one go, go together"}},
		{"layer by layer, to the end of a request", func(p *phased.Program) {
			p.In(meaning.Forward)
			cache := layers(p, 100*kib, nil)
			p.Work(900 * kib)
			p.Free(cache...)
		}, []string{"8 of 100 KiB, fits, paired, go together"}},
		{"others of their size come and go in between, and after", func(p *phased.Program) {
			p.In(meaning.Forward)
			cache := layers(p, 100*kib, func() { p.Work(100 * kib) })
			p.Work(100*kib, 900*kib)
			p.Free(cache...)
		}, []string{"8 of 100 KiB, fits, paired, go together"}},
		{"each goes when the next one's is made", func(p *phased.Program) {
			p.In(meaning.Generate)
			cache := layers(p, 100*kib, nil)
			var next []int
			for k := range 4 {
				p.Work(900 * kib)
				next = append(next, p.Make(101*kib, 2)...)
				p.Free(cache[2*k : 2*k+2]...)
			}
			p.Free(next...)
		}, []string{"8 of 100 KiB, fits, paired", "8 of 101 KiB, fits, paired, go together"}},
		{"all are made anew before the old ones go", func(p *phased.Program) {
			p.In(meaning.Generate)
			var old []int
			for range 3 {
				cache := p.Make(100*kib, 8)
				p.Free(old...)
				p.Work(900 * kib)
				old = cache
			}
			p.Work(100*kib, 900*kib)
		}, []string{"8 of 100 KiB, fits, in one go, go together", "8 of 100 KiB, fits, in one go, go together", "8 of 100 KiB, fits, in one go, go together"}},
		{"put in another order after each pass", func(p *phased.Program) {
			p.In(meaning.Generate)
			old := layers(p, 100*kib, nil)
			for _, block := range old {
				p.Make(100*kib, 1)
				p.Free(block)
			}
			p.Work(100*kib, 900*kib)
		}, []string{"8 of 100 KiB, fits, paired", "8 of 100 KiB, fits, in one go, go together"}},
		{"as many as no layers", func(p *phased.Program) {
			p.In(meaning.Generate)
			p.Make(100*kib, 6)
		}, []string{"6 of 100 KiB, in one go, go together"}},
		{"small beside the weights", func(p *phased.Program) {
			p.In(meaning.Generate)
			p.Make(20*kib, 8)
		}, []string{"8 of 20 KiB, in one go, go together"}},
		{"few, or nothing but scalars", func(p *phased.Program) {
			p.In(meaning.Generate)
			p.Make(100*kib, 3)
			p.Make(512, 8)
		}, nil},
		{"what backward frees, and what it leaves", func(p *phased.Program) {
			p.In(meaning.Forward)
			saved := layers(p, 300*kib, nil)
			kept := layers(p, 100*kib, nil)
			p.In(meaning.Backward)
			p.Work(500 * kib)
			p.Free(saved...)
			p.In(meaning.Forward)
			p.Work(500 * kib)
			p.Free(kept...)
		}, []string{"8 of 100 KiB, fits, paired, go together"}},
		{"two passes", func(p *phased.Program) {
			for range 2 {
				p.In(meaning.Forward)
				p.Make(100*kib, 4)
				p.In(meaning.Backward)
				p.Work(500 * kib)
			}
		}, []string{"4 of 100 KiB, fits, in one go, go together", "4 of 100 KiB, fits, in one go, go together"}},
		{"something else fails, and all go", func(p *phased.Program) {
			p.In(meaning.Setup)
			made := p.Make(100*kib, 5)
			p.Fail(300 * kib)
			p.Free(made...)
		}, []string{"5 of 100 KiB, in one go, go together"}},
		{"more than there are layers for, and the next fails", func(p *phased.Program) {
			p.In(meaning.Setup)
			p.Make(100*kib, 40)
			p.Fail(100 * kib)
		}, []string{"40 of 100 KiB, in one go, go together"}},
		{"setup ends among them", func(p *phased.Program) {
			p.In(meaning.Setup)
			p.Make(100*kib, 5)
			p.In(meaning.Data)
			p.Make(100*kib, 3)
		}, []string{"8 of 100 KiB, fits, in one go, go together"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &phased.Program{}
			c.tell(p)
			program := p.Follow()
			var got []string
			for _, r := range Find(program, weights) {
				s := fmt.Sprintf("%d of %d KiB", len(r.IDs), r.Size/kib)
				for _, is := range []struct {
					true bool
					what string
				}{{r.Fits, "fits"}, {r.AtOnce(), "in one go"}, {r.Paired(program) && !r.AtOnce(), "paired"}, {r.GoTogether(program), "go together"}} {
					if is.true {
						s += ", " + is.what
					}
				}
				got = append(got, s)
				checkRow(t, r, program.Born, program.Freed)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// checkRow: births and ends are those of the blocks, which are all there at once.
func checkRow(t *testing.T, r *Row, born, freed func(timeline.AllocationID) int) {
	t.Helper()
	first, end := freed(r.IDs[0]), 0
	for _, id := range r.IDs {
		first, end = min(first, freed(id)), max(end, freed(id))
	}
	if n := len(r.IDs); r.First != born(r.IDs[0]) || r.Last != born(r.IDs[n-1]) || r.MinFreed != first || r.MaxFreed != end ||
		r.MinFreed <= r.Last {
		t.Errorf("%+v", r)
	}
}

// TestFit: whether a model's weights speak for a number of layers.
func TestFit(t *testing.T) {
	const large = 1 << 20
	for _, c := range []struct {
		name    string
		weights map[int64]int
		row     int64
		count   int
		want    bool
		some    bool
	}{
		{"keys and values", map[int64]int{large: 12, 4 * large: 24, 50 * large: 1}, large / 2, 24, true, false},
		{"one for each layer", map[int64]int{large: 12, 4 * large: 24}, large / 2, 12, true, false},
		{"two for each of half as many", map[int64]int{large: 24, 4 * large: 24}, large / 2, 12, false, false},
		{"one for two of each", map[int64]int{large: 24, 4 * large: 24}, 16 * large, 12, true, false},
		{"one for two of each, and not large", map[int64]int{large: 24, 4 * large: 24}, 16*large - 1, 12, false, false},
		{"its own blocks aside", map[int64]int{large: 12, large / 2: 10}, large / 2, 10, false, false},
		{"another number of layers", map[int64]int{large: 12, 4 * large: 12}, large / 2, 10, false, false},
		{"norms alone", map[int64]int{4096: 8}, large / 2, 8, false, false},
		{"layers of two kinds", map[int64]int{large: 8, 2 * large: 3}, large / 2, 8, true, false},
		{"too little to be more than an adapter", map[int64]int{large: 8}, large/16 - 1, 8, false, false},
		{"no weights", nil, large, 8, false, false},
		{"two for each of a decoder's layers", map[int64]int{large: 24, 4 * large: 24}, large / 2, 12, true, true},
		{"two for so many layers that none are", map[int64]int{large: 24, 4 * large: 24}, large / 2, 10, false, true},
	} {
		l := layerCounts{weights: c.weights, known: map[kind]bool{}}
		for range 2 { // the second time it is known
			if got := l.fits(kind{c.row, c.count, c.some}); got != c.want {
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	}
}
