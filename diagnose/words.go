package diagnose

import (
	"github.com/vramscope/vramscope/diagnose/facts"
)

func share(part, whole int64) int64 { return facts.Share(part, whole) }
func lowerFirst(s string) string    { return facts.LowerFirst(s) }
