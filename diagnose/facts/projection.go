package facts

import (
	"fmt"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/replay/passes"
	"github.com/vramscope/vramscope/report"
)

// Projection is what a run that failed needed altogether; nil where nothing shows what was
// still to come, or the program went on.
var Projection = Named("projection", func(p *Pass) *report.Projection {
	if len(p.T.OOMs) == 0 || len(p.Dev.OOMs) == 0 {
		return nil
	}
	o := &p.T.OOMs[len(p.T.OOMs)-1]
	s := p.Shortage(o)
	if s.After > 0 || p.Dev.OOMs[len(p.Dev.OOMs)-1].Phase == nil || s.Usable == 0 {
		return nil
	}
	need := passes.Whole(p.Classes, o, ToCome.Of(p)[o.Event])
	if need == nil {
		return nil
	}
	x := &report.Projection{Basis: need.Basis, Missing: []report.Missing{}, NeedsBytes: need.Bytes}
	for _, m := range need.Missing {
		x.Missing = append(x.Missing, report.Missing{Category: m.Category.String(), Bytes: m.Bytes})
	}
	const most = 4096 // GPUs that are worth a word
	// beside its share each gathers a weight at a time, the largest among them
	if rest := need.Bytes - need.States + largestWeight(p, o.Event); need.States > 0 && need.Bytes > s.Usable && s.Usable > rest {
		shared := need.States + ToCome.Of(p)[o.Event].State.Maybe
		if n := int((shared + s.Usable - rest - 1) / (s.Usable - rest)); n <= most {
			x.FitsGPUs = &n
		}
	}
	return x
})

// largestWeight is the largest that is there at an event, in bytes.
func largestWeight(p *Pass, event int) (most int64) {
	for id := range p.Each(classify.Weights) {
		if p.T.AliveAt(id, event) {
			most = max(most, p.T.Requested(id))
		}
	}
	return most
}

// Needs says how much a run would have needed, and of how much.
func Needs(x *report.Projection, usable int64) string {
	text := fmt.Sprintf("the run needs about %s, PyTorch could have %s", units.Size(x.NeedsBytes), units.Size(usable))
	if x.FitsGPUs != nil && *x.FitsGPUs > 1 {
		text += fmt.Sprintf("; sharded over %d such GPUs it fits", *x.FitsGPUs)
	}
	return text
}
