package phases

import (
	"slices"
	"testing"
)

// TestProportioned: a backward pass takes a few times as long as a forward pass.
func TestProportioned(t *testing.T) {
	for name, c := range map[string]struct{ roots, want []root }{
		"backward passes":                 {[]root{{100, 300, 9}, {400, 600, 9}}, []root{{100, 300, 9}, {400, 600, 9}}},
		"many of one forward":             {[]root{{100, 300, 9}, {301, 500, 9}, {600, 800, 9}}, []root{{100, 300, 9}, {301, 500, 9}, {600, 800, 9}}},
		"the only one":                    {[]root{{100, 30_000, 9}}, []root{{100, 30_000, 9}}},
		"requests, from their prompts on": {[]root{{800, 26_000, 9}, {26_700, 52_000, 9}, {52_700, 78_000, 9}}, nil},
	} {
		if got := proportioned(slices.Clone(c.roots)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
