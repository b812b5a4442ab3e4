package diagnose

import (
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/record"
)

// phaseText is a phase in a sentence.
var phaseText = facts.PhaseText

func share(part, whole int64) int64 { return facts.Share(part, whole) }
func lowerFirst(s string) string    { return facts.LowerFirst(s) }
func times(n int) string            { return facts.Times(n) }

// how is the code of a recipe.
func how(name string) string {
	r, _ := record.Find(name)
	return r.Code
}
