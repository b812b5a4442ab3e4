package checks

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/timeline"
)

var oomPendingFree = Check{
	ID: "oom_pending_free", Group: failed, Severity: "critical",
	Doc: "A request failed while blocks that the program had freed were still held for another stream (`record_stream`): " +
		"without them it would have fitted. The evidence names the largest of these blocks, their lines and the stream that they " +
		"were made on.",
	Needs: []facts.Need{facts.ToCome},
	Run: func(p *facts.Pass) []Draft {
		return failures(p, func(d *Draft, f failure) {
			waiting := pendingAt(p, f.recorded.Event)
			d.Title = fmt.Sprintf("A request of %s failed while %s that the program had freed wait for another stream", f.what(),
				units.Bytes(f.recorded.Active-f.recorded.Allocated))
			for _, id := range waiting[:min(len(waiting), 3)] {
				line := "a line that wasn't recorded"
				if stack := p.T.Stack(id); stack != 0 {
					s := facts.SiteOf(facts.SiteKey{Site: p.View.Site(stack), Known: true})
					line = facts.UserLine(&s)
					if d.At == nil {
						d.At = facts.UserPlace(&s)
					}
				}
				d.Evidence = append(d.Evidence, fmt.Sprintf("%s made at %s on stream %d, freed at event %s, still held",
					units.Bytes(p.T.Allocated[id]), line, p.T.Snapshot.Streams[p.T.Stream(id)],
					units.Count(int(p.T.FreeRequested[id]))))
			}
			d.FixID, d.Fits, d.Basis = ptr("wait_for_stream"), ptr(true), ptr("lives")
			d.Fix = ptr("Let the other stream catch up before more is asked for (stream.synchronize(), or fewer batches ahead), " +
				"or drop record_stream where the streams wait for each other by events")
			d.Code = "torch.cuda.current_stream().wait_stream(copy_stream)   # in the place of x.record_stream(...)"
		}, report.PendingFree)
	},
}

// pendingAt are the allocations that were freed and are still held at an event, the largest
// first.
func pendingAt(p *facts.Pass, event int) (ids []timeline.AllocationID) {
	for i, asked := range p.T.FreeRequested {
		id := timeline.AllocationID(i)
		freed := p.T.Freed[i] // timeline.Never is beyond all events
		if asked != timeline.Never && (asked == timeline.Before || int(asked) <= event) && (freed == timeline.Never ||
			freed != timeline.Before && int(freed) > event) && p.T.BornAt(id) <= event {
			ids = append(ids, id)
		}
	}
	slices.SortStableFunc(ids, func(a, b timeline.AllocationID) int { return cmp.Compare(p.T.Allocated[b], p.T.Allocated[a]) })
	return ids
}
