package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
	"github.com/vramscope/vramscope/timeline"
)

// activationShare is from which percentage of the peak on activations are worth
// a word, and activationLeast from how many bytes. From activationPart on they
// are where a replay shows that recomputing them saves at least recomputeWorth
// percent of it.
const (
	activationShare = 40
	activationLeast = 256 << 20
	activationPart  = 20
	recomputeWorth  = 15
)

const checkpointCode = "model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={\"use_reentrant\": False})   # " +
	"Transformers\n" +
	"x = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)                           # in a loop over blocks"

// checkpointing finds activations that dominate the peak of a training step:
// nothing is recomputed, or not where it would help.
func (e *examination) checkpointing(dev *report.Device, f *facts) []draft {
	if !f.trains {
		return nil
	}
	again := f.at[classify.Activations][classify.Recomputed].bytes
	kept := f.held(classify.Activations) - again - f.at[classify.Activations][classify.CheckpointInput].bytes - e.leakedAtPeak(
		classify.Activations)
	peak := dev.AtPeak.AllocatedBytes
	remade := e.remadeAtPeak()
	again += remade
	recomputes := remade > 0 || slices.Contains(e.classes.Detail, classify.Recomputed)
	switch {
	case !recomputes && share(kept, peak) >= activationPart && kept >= activationLeast:
		d := e.checkpointingAbsent(dev, f, kept)
		if share(kept, peak) < activationShare {
			d.worth = recomputeWorth
		}
		return []draft{d}
	case recomputes && share(again, peak) >= activationShare && again >= activationLeast:
		return []draft{e.checkpointingCoarse(dev, f, again)}
	case recomputes && share(kept, peak) >= activationShare && kept >= activationLeast:
		return []draft{e.checkpointingPartial(dev, f, kept)}
	}
	return nil
}

func (e *examination) checkpointingAbsent(dev *report.Device, f *facts, kept int64) draft {
	d := draft{Finding: report.Finding{ID: "checkpointing_absent", Severity: f.severity(), Confidence: 0.9, Code: checkpointCode},
		change: "checkpointing=full", worth: 1}
	d.Title = fmt.Sprintf("Activations take %s, %s of the peak, and none is recomputed", units.Bytes(kept),
		units.Percent(kept, dev.AtPeak.AllocatedBytes))
	d.Evidence = siteLines(dev.Sites, classify.Activations, 3)
	if dev.Stacks == "none" {
		d.Confidence = 0.6
		d.Evidence = append(d.Evidence, "without stacks, recomputation is told by sizes only: a part may be checkpointed already")
	}
	d.Fix = ptr("Activation checkpointing: keep each block's input and make the rest again in backward, for about a third " +
		"more compute; or a smaller batch with gradient accumulation")
	return d
}

// checkpointingCoarse: one recomputed part is so large that it makes the peak.
func (e *examination) checkpointingCoarse(dev *report.Device, f *facts, again int64) draft {
	d := draft{Finding: report.Finding{ID: "checkpointing_ineffective", Severity: f.severity(), Confidence: 0.85,
		Code: checkpointCode}}
	d.Title = fmt.Sprintf("Checkpointing saves little: what one part recomputes takes %s, %s of the peak", units.Bytes(again),
		units.Percent(again, dev.AtPeak.AllocatedBytes))
	d.Evidence = append(d.Evidence, "a checkpointed part is made again as a whole: at its backward pass all of it is there")
	d.Fix = ptr("Checkpoint each block by itself instead of several together")
	return d
}

// checkpointingPartial: most of what is kept lies outside the checkpointed part.
func (e *examination) checkpointingPartial(dev *report.Device, f *facts, kept int64) draft {
	d := draft{Finding: report.Finding{ID: "checkpointing_ineffective", Severity: f.severity(), Confidence: 0.85,
		Code: checkpointCode}}
	d.Title = fmt.Sprintf("Checkpointing is on, yet activations outside it take %s, %s of the peak", units.Bytes(kept),
		units.Percent(kept, dev.AtPeak.AllocatedBytes))
	d.Evidence = siteLines(dev.Sites, classify.Activations, 3)
	where := "the parts that hold most"
	if s := topSite(dev.Sites, classify.Activations); s != nil {
		where = "the part that makes most of them, at " + s.Short()
	}
	d.Fix = ptr("Checkpoint " + where + ", too")
	return d
}

// keptAtEnd is what a forward pass that the recording ends in has kept, in
// bytes; 0 where it isn't much, or where that pass isn't all that was recorded:
// what it keeps is then told by backward passes or by dropped graphs.
func (e *examination) keptAtEnd(f *facts) (kept int64) {
	if n := len(f.spans); n == 0 || f.trains || e.dropped.graphs > 0 || f.spans[n-1].Phase != classify.Forward {
		return 0
	}
	if slices.ContainsFunc(e.t.Snapshot.Devices, func(d snapshot.Device) bool { return len(d.OOMs) > 0 }) {
		return 0 // a request that failed, on this GPU or another, has ended it
	}
	for i, c := range e.classes.Category {
		if c == classify.Activations && e.t.FreeRequested[i] == timeline.Never && e.t.Born[i] != timeline.Never {
			kept += e.t.Allocated[i]
		}
	}
	if share(kept, e.t.End.Allocated) < activationShare || kept < activationLeast {
		return 0
	}
	return kept
}

// remadeAtPeak is what checkpointing had made again at the peak and isn't told
// from other temporaries but by its stack.
func (e *examination) remadeAtPeak() (bytes int64) {
	event := e.t.Peaks.Allocated.Event
	s := e.t.Snapshot
	rebuilds := make([]bool, len(s.Frames))
	some := false
	for i := range s.Frames {
		f := &s.Frames[i]
		if name := s.String(f.Function); name == "recompute_fn" || name == "unpack_hook" {
			rebuilds[i] = strings.HasSuffix(strings.ReplaceAll(s.String(f.File), `\`, "/"), "torch/utils/checkpoint.py")
			some = some || rebuilds[i]
		}
	}
	if !some {
		return 0
	}
	known := map[snapshot.StackID]bool{}
	for i, c := range e.classes.Category {
		id := timeline.AllocationID(i)
		if c != classify.Temporary || !e.t.AliveAt(id, event) {
			continue
		}
		stack := e.t.Stack(id)
		is, ok := known[stack]
		if !ok {
			is = slices.ContainsFunc(s.Stack(stack), func(f snapshot.FrameID) bool { return rebuilds[f] })
			known[stack] = is
		}
		if is {
			bytes += e.t.Allocated[i]
		}
	}
	return bytes
}

// siteLines are the lines that hold most of a category at the peak, each once,
// whatever operations it runs.
func siteLines(sites []report.Site, category classify.Category, n int) []string {
	byPlace := map[string]int{}
	var lines []report.Site
	for _, s := range sites {
		if *s.Category != category.String() || !s.Known || s.Function == "" && s.Op == "" {
			continue
		}
		place := s.Short() + calledFrom(s.CalledFrom)
		i, ok := byPlace[place]
		if !ok {
			byPlace[place] = len(lines)
			lines = append(lines, s)
			continue
		}
		lines[i].Bytes += s.Bytes
		lines[i].Blocks += s.Blocks
	}
	slices.SortStableFunc(lines, func(a, b report.Site) int { return cmp.Compare(b.Bytes, a.Bytes) })
	out := []string{}
	for i := range lines[:min(n, len(lines))] {
		out = append(out, siteLine(&lines[i]))
	}
	return out
}

// leakedAtPeak is what of a category other findings explain at the peak.
func (e *examination) leakedAtPeak(category classify.Category) int64 {
	return e.atPeak(e.unused, category) + e.atPeak(e.leaked(), category)
}

// atPeak is what of a category some allocations are at the peak.
func (e *examination) atPeak(ids []timeline.AllocationID, category classify.Category) (bytes int64) {
	event := e.t.Peaks.Allocated.Event
	for _, id := range ids {
		if e.classes.Category[id] == category && e.t.AliveAt(id, event) {
			bytes += e.t.Allocated[id]
		}
	}
	return bytes
}
