package classify

import (
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/kvcache"
)

// prepare settles the phases of a program, and has those rules look that need no labels.
// What they share is worked out when they ask for it.
func prepare(p *phases.Program) (*rules.Facts, rules.Claims) {
	a := kvcache.Look(p)
	claims := make(rules.Claims, len(registry))
	claims.Begin(a, registry, false)
	return a, claims
}
