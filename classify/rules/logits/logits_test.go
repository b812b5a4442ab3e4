package logits

import (
	"testing"

	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/internal/testing/phased"
)

// TestOfWords: what shares its words with a weight may be logits, and a picture is none, whatever powers of two it has.
func TestOfWords(t *testing.T) {
	const picture = 4 * 64 * 512 * 512 * 2
	embedding, convolution := map[int64]int{30000 * 768 * 2: 1}, map[int64]int{512 * 512 * 9 * 2: 4}
	for _, c := range []struct {
		name    string
		weights map[int64]int
		size    int64
		want    bool
	}{
		{"tokens times words in 32 bits", embedding, 77 * 30000 * 4, true},
		{"words that are a power of two", map[int64]int{32768 * 4096 * 2: 1}, 77 * 32768 * 2, true},
		{"a picture beside an embedding", embedding, picture, false},
		{"a picture beside convolutions", convolution, picture, false},
		{"where no weight is large", map[int64]int{110592: 1}, picture, true},
	} {
		if got := ofWords(&look{SizeIndex: &rules.SizeIndex{WeightSize: c.weights}}, c.size); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// TestSizes: what has a size that most of its blocks have as logits is one of them, but for what setup makes and weights' sizes.
func TestSizes(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name      string
		bytes     int64
		known     int // of six blocks
		weight    bool
		setup     bool
		wantOther bool
	}{
		{"four of six", 3 * mib, 4, false, false, true},
		{"three of six", 3 * mib, 3, false, false, false},
		{"small", mib - 1, 4, false, false, false},
		{"of a weight's size", 3 * mib, 4, true, false, false},
		{"of setup", 3 * mib, 4, false, true, false},
	} {
		p := &phased.Program{}
		p.In(meaning.Setup)
		if c.weight {
			p.Make(c.bytes, 1)
		}
		p.Make(5*mib, 2)
		if !c.setup {
			p.In(meaning.Forward)
		}
		made := p.Make(c.bytes, 6)
		p.In(meaning.Forward)
		p.Work(9 << 10)
		a := rules.New(p.Follow())
		m := &Marks{Logits: make([]meaning.Detail, len(a.Category))}
		for _, b := range made[:c.known] {
			m.Logits[a.Timeline.Of[b]] = plain
		}
		markSizes(&look{Facts: a, SizeIndex: rules.Sizes.Of(a), Marks: m})
		if got := m.Logits[a.Timeline.Of[made[5]]] == meaning.LogitsCopy; got != c.wantOther {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}
