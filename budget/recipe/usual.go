package recipe

import (
	"strings"

	"github.com/spf13/pflag"
	"github.com/vramscope/vramscope/budget"
	"github.com/vramscope/vramscope/budget/settings"
)

// Usual sets what the framework that the user has named does unasked, and gives these flags as text, empty without any. ZeRO
// brings DeepSpeed's without its name.
func Usual(fl *pflag.FlagSet, s *budget.Setting) string {
	name := s.Framework
	if name == "" && s.Zero > 0 {
		name = "deepspeed"
	}
	if s.Inference || !fl.Changed("framework") && name != "deepspeed" {
		return ""
	}
	var said []string
	outputs := false
	for _, u := range settings.ProfileOf(name).Usual {
		if fl.Changed(u.Flag) || !s.Takes(u) {
			continue
		}
		outputs = outputs || u.Flag == "drop-outputs"
		if fl.Lookup(u.Flag).Value.Set(u.Value) == nil {
			said = append(said, typed([]Flag{{u.Flag, u.Value}}))
		}
	}
	if !outputs {
		trainersOutputs(fl, s)
	}
	return strings.Join(said, " ")
}
