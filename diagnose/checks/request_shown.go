package checks

import (
	"cmp"
	"fmt"

	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/traceback"
	"github.com/vramscope/vramscope/frames"
	"github.com/vramscope/vramscope/timeline"
)

// Shown is the advice about what the frames of a failed request do, as its traceback in a log would have it; "" where they
// show nothing that fills a GPU.
func Shown(p *facts.Pass, o *timeline.OOM) (id string) {
	var s evidence.Scene
	stack := p.T.Snapshot.Stack(o.Stack)
	for i := len(stack) - 1; i >= 0; i-- {
		if f := stack[i]; p.View.Language(f) == frames.Python {
			line := p.View.Line(f)
			traceback.AddFrame(&s, fmt.Appendf(nil, `File "%s", line %d, in %s`, line.File, line.Line, line.Function))
		}
	}
	return oom.Shown(&s, o.Requested, p.Shortage(o).Usable)
}

// ForTemporaries is the advice against memory that lives within single operations.
func ForTemporaries(p *facts.Pass, o *timeline.OOM) (id string) {
	if len(ownAtPeak.Of(p)) > 0 {
		return ownTemporaries.ID
	}
	return cmp.Or(Shown(p, o), "memory.temporary")
}
