package budget

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Counts are a model's parameters.
type Counts struct {
	Total     int64
	Active    int64 // those one token passes through: routed experts count once per choice
	Embedding int64
	ByRole    map[Role]int64
	trainable int64
}

// Count counts the parameters of a configuration.
func Count(c *Config) (_ Counts, err error) {
	defer c.broken(&err)
	m, err := newModel(c)
	if err != nil {
		return Counts{}, err
	}
	return m.counts(), nil
}

func (m *model) counts() Counts {
	n := Counts{ByRole: map[Role]int64{}}
	for _, p := range m.params {
		if p.Buffer && !p.listed { // what the optimizer never sees is no parameter
			continue
		}
		e := p.Elements()
		n.Total += e
		n.ByRole[p.Role] += e
		if p.trainable {
			n.trainable += e
		}
	}
	n.Embedding = n.ByRole[RoleEmbedding]
	n.Active = n.Total
	for _, b := range m.blocks {
		if x, ok := b.ff.(*experts); ok && x.count > 0 {
			var routed int64
			for _, p := range []*parameter{x.gateUp, x.down, x.upBias, x.downBias} {
				if p != nil {
					routed += p.Elements()
				}
			}
			n.Active -= routed / x.count * (x.count - x.topK)
		}
	}
	return n
}

// ParseParams reads a size like 8B, 350M or 1.5e9.
func ParseParams(s string) (int64, error) {
	t := strings.TrimSpace(s)
	unit := 1.0
	if t != "" {
		switch t[len(t)-1] {
		case 'k', 'K':
			unit = 1e3
		case 'm', 'M':
			unit = 1e6
		case 'b', 'B', 'g', 'G':
			unit = 1e9
		case 't', 'T':
			unit = 1e12
		}
		if unit > 1 {
			t = t[:len(t)-1]
		}
	}
	f, err := strconv.ParseFloat(t, 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f*unit < 1 {
		return 0, fmt.Errorf("--params %q is not a number of parameters like 8B or 350M", short(s))
	}
	if f*unit > 1<<50 {
		return 0, fmt.Errorf("--params %s: more parameters than any machine holds", short(s))
	}
	return int64(math.Round(f * unit)), nil
}

// headCount is how many attention heads a model of a hidden size is given: of
// about 128 elements each, and where that can be a multiple of 8, so that the
// usual numbers of tensor-parallel ranks divide them.
func headCount(h int64) int64 {
	want := max(h/min(128, max(h/4, 16)), 1)
	best := want
	for a := int64(8); a <= h/16; a += 8 {
		if h%a == 0 && (best%8 != 0 || max(a-want, want-a) < max(best-want, want-best)) {
			best = a
		}
	}
	return best
}
