package phases

import (
	"slices"
	"testing"
)

// TestProportioned: a backward pass takes a few times as long as a forward pass.
func TestProportioned(t *testing.T) {
	for name, c := range map[string]struct{ roots, want []root }{
		"backward passes":                 {[]root{{100, 300, 9, false}, {400, 600, 9, false}}, []root{{100, 300, 9, false}, {400, 600, 9, false}}},
		"many of one forward":             {[]root{{100, 300, 9, false}, {301, 500, 9, false}, {600, 800, 9, false}}, []root{{100, 300, 9, false}, {301, 500, 9, false}, {600, 800, 9, false}}},
		"the only one":                    {[]root{{100, 30_000, 9, false}}, []root{{100, 30_000, 9, false}}},
		"requests, from their prompts on": {[]root{{800, 26_000, 9, false}, {26_700, 52_000, 9, false}, {52_700, 78_000, 9, false}}, nil},
	} {
		if got := proportioned(slices.Clone(c.roots)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestNextToNothing: checkpointing makes a layer again for each block that goes, a number of a request lives through passes.
func TestNextToNothing(t *testing.T) {
	for _, c := range []struct {
		frees, made int
		want        bool
	}{{5, 1745, true}, {5, 640, false}, {8, 5000, false}, {0, 1, true}} {
		if got := nextToNothing(c.frees, c.made); got != c.want {
			t.Errorf("%d frees among %d allocations: %v", c.frees, c.made, got)
		}
	}
}
