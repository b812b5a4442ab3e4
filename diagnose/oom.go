package diagnose

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/replay/allocator"
	"github.com/vramscope/vramscope/replay/passes"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// maxPins bounds the list of blocks that keep free memory from being used.
const maxPins = 20

// maxAlike is how many failures with one fingerprint are listed, besides the last of all, and
// maxFailures how many altogether.
const (
	maxAlike    = 16
	maxFailures = 256
)

// ooms describes the failed requests. Of those that are alike the first ones are listed.
func (e *examination) ooms(dev *report.Device) []report.OOM {
	out := []report.OOM{}
	alike, listed := map[string]int{}, map[string]int{} // listed: the place of the last one
	prints := prints{}
	for i := range e.T.OOMs {
		o := &e.T.OOMs[i]
		x := report.OOM{Index: i, StepsAfter: passes.StepsAfter(e.Classes, o.Event), Event: o.Event, RequestedBytes: o.Requested,
			AllocatedBytes: o.Allocated, ReservedBytes: o.Reserved, Verdict: e.oomVerdict(o, dev), PinnedBy: []report.Pin{}}
		if o.DeviceFree >= 0 {
			x.DeviceFreeBytes = new(o.DeviceFree)
		}
		if o.Largest >= 0 {
			x.LargestFreeBlock = new(o.Largest)
		}
		// else it may be the first pass
		if phase, ok := e.phaseAt(o.Event); ok && !(phase == classify.Setup && dev.AtPeak.GuessedWeights) {
			x.Phase = new(phase.String())
		}
		var print string
		print, x.Site = prints.of(e, o, &x)
		last := i == len(e.T.OOMs)-1
		if at, ok := listed[print]; !last && (alike[print] >= maxAlike || len(out) >= maxFailures) {
			if ok {
				out[at].Repeats++
			} else {
				dev.OOMsUntold++
			}
			continue
		}
		alike[print]++
		listed[print] = len(out)
		x.Fingerprint = &print
		if s := e.Shortage(o); s.Usable > 0 {
			x.MissingBytes = new(s.Missing)
		}
		if y := e.Larger(o); y.Times > 0 {
			x.LargerTimes, x.LargerPass, x.LargerStep = &y.Times, y.Pass, y.Step
		}
		if x.Verdict == report.Fragmentation && o.Largest >= 0 { // later ones fail in the same way as those that were laid out
			x.PinnedBy = e.pins(o.Event)
		}
		x.LeakedBytes, x.FreePieces, x.CacheGrows = e.leakedAt(o.Event), x.Free(), facts.CacheGrows(e.Pass, o)
		out = append(out, x)
	}
	return out
}

// leakedAt is what of the temporary memory after an event defects keep.
func (e *examination) leakedAt(event int) (bytes int64) {
	for _, id := range facts.Leaked.Of(e.Pass) {
		if e.Classes.Category[id] == classify.Temporary && e.T.AliveAt(id, event) {
			bytes += e.T.Allocated[id]
		}
	}
	return bytes
}

// prints are the fingerprints of failures, and who asked, by verdict, phase and stack.
type prints map[printKey]printed

type printKey struct {
	verdict, phase string
	stack          snapshot.StackID
}

type printed struct {
	fingerprint string
	site        *report.Site
}

// of is that of a failure, of which verdict and phase are told.
func (p prints) of(e *examination, o *timeline.OOM, x *report.OOM) (fingerprint string, site *report.Site) {
	key := printKey{verdict: x.Verdict, stack: o.Stack}
	if x.Phase != nil {
		key.phase = *x.Phase
	}
	known, ok := p[key]
	if !ok {
		y := *x
		if o.Stack != 0 {
			y.Site = new(facts.SiteOf(facts.SiteKey{Site: e.View.Site(o.Stack), Known: true}))
			y.Site.Category = nil // what the request was for can't be known from what came of it
		}
		known = printed{fingerprintOf(&y), y.Site}
		p[key] = known
	}
	if known.site != nil {
		site = new(*known.site)
	}
	return known.fingerprint, site
}

// oomVerdict is why a request could not be met.
func (e *examination) oomVerdict(o *timeline.OOM, dev *report.Device) string {
	capacity, whole := o.Capacity(), evidence.Or(dev.CapacityBytes, -1)
	q := oom.Request{Needs: allocator.NeededFor(e.T, o.Requested), Free: o.DeviceFree, Cached: o.Reserved - o.Active,
		Limited: capacity >= 0}
	if capacity < 0 {
		capacity = whole
	}
	if capacity < 0 {
		return report.UnknownVerdict
	}
	others := max(whole-capacity-oom.ContextBytes, e.othersAt(o, dev))
	if q.Missing = o.Active + o.Requested - capacity; q.Missing > 0 {
		q.Others = others
		if pending := o.Active - o.Allocated; pending >= q.Missing && q.Others < q.Missing {
			return report.PendingFree // all would have fitted once another stream was done
		}
	} else {
		q.Scattered = e.InPieces(o, capacity)
	}
	cause := q.Cause()
	if rest := e.Shortage(o).Missing; cause == report.TrueShortage && q.Missing <= 0 &&
		others >= max(rest, o.Requested, oom.UsualContext) {
		return report.OtherProcess // what was free lay in pieces; without the others there was a whole one, also for the rest
	}
	return cause
}

// phaseAt is the phase that an event lies in.
func (e *examination) phaseAt(event int) (classify.Phase, bool) {
	for _, s := range facts.Phases.Of(e.Pass).Spans {
		if s.FirstEvent <= event && event <= s.LastEvent {
			return s.Phase, true
		}
	}
	return 0, false
}

// fingerprintOf is equal for the same failure in a thousand runs: it is made of
// the verdict, the phase and the call site without its line.
func fingerprintOf(o *report.OOM) string {
	parts := []string{o.Verdict, "", "", "", ""}
	if o.Phase != nil {
		parts[1] = *o.Phase
	}
	if o.Site != nil {
		parts[2], parts[3], parts[4] = o.Site.Op, o.Site.Function, report.ShortFile(o.Site.File)
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	return hex.EncodeToString(sum[:8])
}

// pins lists the live blocks of the segments with the most free memory,
// smallest first within a segment: they keep that memory from being given back.
func (e *examination) pins(event int) []report.Pin {
	layout := e.T.LayoutAt(event)
	free := make([]int64, len(layout.Segments))
	order := make([]int, len(layout.Segments))
	for i, s := range layout.Segments {
		order[i] = i
		for _, b := range s.Blocks {
			if b.Allocation == timeline.NoAllocation {
				free[i] += b.Bytes
			}
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(free[b], free[a]) })
	out := []report.Pin{}
	for _, i := range order {
		if free[i] == 0 || len(out) == maxPins {
			break
		}
		blocks := slices.DeleteFunc(slices.Clone(layout.Segments[i].Blocks), func(b timeline.Block) bool {
			return b.Allocation == timeline.NoAllocation
		})
		slices.SortStableFunc(blocks, func(a, b timeline.Block) int { return cmp.Compare(a.Bytes, b.Bytes) })
		for _, b := range blocks[:min(len(blocks), maxPins-len(out))] {
			pin := report.Pin{Address: b.Address, Bytes: b.Bytes, Category: new(e.Classes.Category[b.Allocation].String())}
			if stack := e.T.Stack(b.Allocation); stack != 0 {
				site := e.View.Site(stack)
				if pin.Function, pin.File, pin.Line = &site.Function, &site.File,
					facts.LineOf(site.Line.Line); site.Function == "" {
					pin.Function, pin.File = &site.Op, nil // made by autograd, in no line of Python
				}
			}
			out = append(out, pin)
		}
	}
	return out
}
