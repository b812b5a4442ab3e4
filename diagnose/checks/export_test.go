package checks

import (
	"slices"

	"github.com/vramscope/vramscope/diagnose/facts"
)

// Reversed is what the checks find when the last one begins, in their order.
func Reversed(p *facts.Pass) []Draft {
	list := Device()
	found := make([][]Draft, len(list))
	for i := range list {
		k := len(list) - 1 - i
		found[k] = list[k].drafts(p)
	}
	return slices.Concat(found...)
}

// Forward is what the checks find in their order.
func Forward(p *facts.Pass) []Draft { return collect(p, Device()) }
