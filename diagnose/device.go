package diagnose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/checks"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/diagnose/logs"
	"github.com/vramscope/vramscope/diagnose/oom"
	"github.com/vramscope/vramscope/diagnose/pictures"
	"github.com/vramscope/vramscope/internal/together"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// device is what the report says about one GPU.
func (e *examination) device() report.Device {
	t, d := e.T, e.T.Device
	dev := report.Device{Device: d.Ordinal, Events: d.Events.Len(), Allocations: t.Len(), Older: t.Older(),
		History: t.History.String(), HistoryReason: t.Reason,
		Steps: stepsOf(e.Classes), OOMs: []report.OOM{}, Leaks: []report.Leak{}, Findings: []report.Finding{}, Damage: []string{},
		SitesAtEvent: []report.Site{}, SitesAtFailure: []report.Site{}}
	dev.Damage = append(dev.Damage, t.Damage...)
	e.Dev = &dev
	stamp(&dev, d.Events.TimeUS)
	e.capacity(&dev)
	dev.Peaks = report.Peaks{Requested: peakOf(t.Peaks.Requested), Allocated: peakOf(t.Peaks.Allocated),
		Active: peakOf(t.Peaks.Active), Reserved: peakOf(t.Peaks.Reserved)}
	together.Do(
		func() { checks.Attention.Of(e.Pass) },
		func() { facts.Dropped.Of(e.Pass) },
		func() {
			dev.Leaks = e.leaks(&dev) // what leaks stands apart at each moment
			e.moments(&dev)
			dev.Stacks = e.View.Recorded(d)
			dev.Actions = actionsOf(t)
			dev.Segments = segmentsOf(t)
			dev.Pools = poolsOf(t)
		})
	dev.OOMs = e.ooms(&dev)
	e.asked(&dev)
	dev.Holders = holdersAt(e.Variables, e.bytesAtEnd)
	e.judge(&dev)
	dev.Curve = facts.CurveOf(t)
	dev.Projection = facts.Projection.Of(e.Pass)
	dev.Findings = e.findings(&dev)
	dev.Changes = changesOf(&dev)
	if e.options.Pictures {
		dev.Pictures = pictures.Of(e.Pass, &dev, e.options.EveryBand)
	}
	return dev
}

func peakOf(p timeline.Peak) report.Peak { return report.Peak{Bytes: p.Bytes, Event: eventOf(p.Event)} }

// actionsOf counts the events by kind, in the recorder's order of kinds.
func actionsOf(t *timeline.Timeline) []report.KeyCount {
	var counts [256]int
	for _, a := range t.Device.Events.Action {
		counts[a]++
	}
	out := []report.KeyCount{}
	for a, n := range counts {
		if n > 0 {
			out = append(out, report.KeyCount{Key: t.Snapshot.ActionName(snapshot.Action(a)), Count: n})
		}
	}
	return out
}

// stamp notes the first and the last time that an event has.
func stamp(dev *report.Device, times []int64) {
	for i, j := 0, len(times)-1; i < len(times); i, j = i+1, j-1 {
		if dev.FirstTime == nil && times[i] > 0 {
			dev.FirstTime = new(times[i])
		}
		if dev.LastTime == nil && times[j] > 0 {
			dev.LastTime = new(times[j])
		}
		if dev.FirstTime != nil && dev.LastTime != nil {
			return
		}
	}
}

// capacity takes the strongest word on the size of the GPU, but the user's only where
// the recording doesn't show more.
func (e *examination) capacity(dev *report.Device) {
	given := e.options.Capacity
	// Without a failure the driver may have put the rest into the host's memory.
	if len(e.T.OOMs) > 0 && given > 0 && given < max(e.T.Capacity(), e.T.Peaks.Reserved.Bytes) {
		dev.CapacityDisproved, given = new(given), 0
	}
	number, _ := e.gpuNumber(dev)
	sizes := oom.Sizes{Given: given, Recorded: e.T.Capacity(), Device: dev.Device, GPU: number,
		Least: e.T.Peaks.Reserved.Bytes, Spill: !logs.MustFail(e.evidence) || onWindows(e.T.Snapshot)}
	if bytes, source := sizes.Capacity(e.evidence); bytes > 0 {
		dev.CapacityBytes, dev.CapacitySource = &bytes, &source
	} else if s := simulatedOn(e.evidence); s != nil && s.CapacityBytes > 0 {
		dev.CapacityBytes, dev.CapacitySource = new(s.CapacityBytes), new("simulated")
	}
}

// onWindows tells by the paths of the program's files.
func onWindows(s *snapshot.Snapshot) bool {
	return slices.ContainsFunc(s.Frames, func(f snapshot.Frame) bool { return strings.Contains(s.String(f.File), `:\`) })
}

// moments describes the allocated peak and the end of the recording.
func (e *examination) moments(dev *report.Device) {
	t := e.T
	dev.AtPeak, dev.Sites = e.moment(t.Peaks.Allocated.Event, t.AtPeak)
	dev.UserMetadata = e.MetadataAt(t.Peaks.Allocated.Event)
	dev.AtEnd, dev.SitesAtEnd = e.moment(t.Device.Events.Len()-1, t.End)
}

func (e *examination) moment(event int, l timeline.Levels) (report.Moment, []report.Site) {
	sites, blocks, categories := e.SitesAt(event)
	return report.Moment{Categories: categories, GuessedWeights: e.guessesWeights(event), Event: eventOf(event),
		AllocatedBytes: l.Allocated, ReservedBytes: l.Reserved,
		CacheBytes: l.Reserved - l.Allocated, Blocks: blocks}, sites
}

// guessesWeights reports whether most of the weights after an event are called so for
// want of anything that speaks for something else.
func (e *examination) guessesWeights(event int) bool {
	doubtful, all := e.Doubtful(classify.Weights, event)
	return doubtful*2 > all
}

// segmentsOf sums up how the memory lies at the dump.
func segmentsOf(t *timeline.Timeline) report.SegmentsSummary {
	var s report.SegmentsSummary
	for _, g := range t.Device.Segments {
		s.Count++
		s.Bytes += g.TotalSize
		var free, used int64
		for _, b := range g.Blocks {
			if b.State == snapshot.Inactive {
				free += b.Size
				s.LargestFree = max(s.LargestFree, b.Size)
			} else {
				used += b.Size
			}
		}
		s.FreeBytes += free
		switch {
		case used == 0:
			s.Empty++
			s.EmptyBytes += free
		case free > used:
			s.PinnedSegments++
			s.PinnedFreeBytes += free
		}
		if g.Small {
			s.Small++
		}
		if g.Expandable {
			s.Expandable++
		}
	}
	return s
}

// poolsOf lists the private pools that hold segments at the dump.
func poolsOf(t *timeline.Timeline) []report.PoolSummary {
	out := []report.PoolSummary{}
	place := map[uint32]int{}
	for _, g := range t.Device.Segments {
		if g.Pool == 0 {
			continue
		}
		i, ok := place[g.Pool]
		if !ok {
			id := t.Snapshot.Pools[g.Pool]
			i = len(out)
			place[g.Pool] = i
			kind := "mem_pool"
			if id[1] == 0 { // a capture's own pool; the program's own have (0, n)
				kind = "cuda_graph"
			}
			out = append(out, report.PoolSummary{Pool: fmt.Sprintf("(%d, %d)", id[0], id[1]), Kind: kind})
		}
		out[i].Segments++
		out[i].Bytes += g.TotalSize
		for _, b := range g.Blocks {
			if b.State != snapshot.Inactive {
				out[i].Used += b.Size
			}
		}
	}
	return out
}
