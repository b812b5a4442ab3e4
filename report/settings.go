package report

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
)

// SettingWords are how a run was set, in a few words, "" where nothing tells.
func SettingWords(p *evidence.Parameters) string {
	if p == nil {
		return ""
	}
	var parts []string
	say := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if p.Model != nil {
		say("%s", *p.Model)
	}
	if p.BatchSize != nil {
		say("batch %s", units.Count(int(*p.BatchSize)))
	}
	if p.SequenceLength != nil {
		say("sequence %s", units.Count(int(*p.SequenceLength)))
	}
	if n := evidence.Or(p.Accumulation, 1); n > 1 {
		say("%s passes a step", units.Count(int(n)))
	}
	for _, text := range []*string{p.Precision, p.Optimizer} {
		if text != nil {
			say("%s", *text)
		}
	}
	if p.GPUs != nil {
		say("%s", units.Plural(int(*p.GPUs), "GPU"))
	}
	if p.FinalLoss != nil {
		say("loss %.4g at the end", *p.FinalLoss)
	}
	return strings.Join(parts, ", ")
}
