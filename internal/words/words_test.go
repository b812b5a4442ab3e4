package words

import (
	"slices"
	"testing"
)

// TestWords: each category and phase has one word, which finds the category again; the
// order of tables has them all.
func TestWords(t *testing.T) {
	seen := map[string]bool{"": true}
	for c := range Category(NumCategories) {
		if got, ok := CategoryNamed(c.String()); got != c || !ok || seen[c.String()] {
			t.Errorf("%d: %q is %d, %v", c, c, got, ok)
		}
		seen[c.String()] = true
	}
	for p := range Phase(NumPhases) {
		if seen[p.String()] {
			t.Errorf("%d is %q, too", p, p)
		}
		seen[p.String()] = true
	}
	for _, none := range []string{"", "Weights", "cache"} {
		if got, ok := CategoryNamed(none); ok || got != Unknown {
			t.Errorf("%q is %s", none, got)
		}
	}
	order := Categories()
	if len(order) != NumCategories || order[0] != "weights" || order[NumCategories-1] != "unknown" || len(slices.Compact(slices.Sorted(slices.Values(order)))) != NumCategories {
		t.Errorf("in tables: %q", order)
	}
	if again := Categories(); Category(0).String() != "unknown" || !slices.Equal(order, again) {
		t.Error("the order is another the second time")
	}
}
