package classify

import (
	"github.com/vramscope/vramscope/classify/phases"
	"github.com/vramscope/vramscope/classify/rules"
	"github.com/vramscope/vramscope/classify/rules/kvcache"
	"github.com/vramscope/vramscope/classify/rules/logits"
	"github.com/vramscope/vramscope/classify/rules/older"
	"github.com/vramscope/vramscope/classify/rules/optimizer"
	"github.com/vramscope/vramscope/classify/rules/passes"
	"github.com/vramscope/vramscope/internal/pages"
	"github.com/vramscope/vramscope/internal/together"
)

// prepare works out what rules look at, and has those look that need no labels.
func prepare(p *phases.Program) (*rules.Facts, rules.Claims) {
	a := &rules.Facts{Program: p}
	a.Kept = pages.Make[bool](len(a.Category))
	rules.FindSizes(a)
	together.Do(func() { kvcache.FindGrowth(a) }, func() { rules.FindSaved(a) }, func() { rules.FindRetained(a) })
	if kvcache.Generates(a) && a.Trains { // in other runs
		together.Do(func() { rules.FindSaved(a) }, func() { rules.FindRetained(a) })
	}
	a.Sharing = a.Communicates()
	kvcache.FindKept(a)
	claims := make(rules.Claims, len(registry))
	together.Do(
		func() { logits.FindLogits(a) },
		func() {
			together.Do(
				func() { logits.FindHeads(a) },
				func() {
					older.FindOlder(a)
					optimizer.FindResumed(a)
				},
				func() { passes.FindRecomputed(a) })
			claims.Begin(a, registry, func(r *rules.Rule) bool { return !r.Asks(rules.Marked) })
		})
	logits.MarkLogits(a)
	for _, steps := range a.Untrained {
		logits.MarkJoined(a, steps)
	}
	claims.Begin(a, registry, func(r *rules.Rule) bool { return r.Asks(rules.Marked) })
	return a, claims
}
