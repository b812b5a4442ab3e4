package replay

import (
	"strconv"
	"strings"

	"github.com/vramscope/vramscope/replay/passes"
)

// rest is what the step had yet to allocate after the request that failed, as a
// scenario changes it.
type rest struct {
	bytes int64
	known bool
}

// restAfter is unknown where nothing before shows how the step goes on, or where
// nobody knows how much of it a change leaves.
func (w *whatIf) restAfter(o *Outcome) rest {
	for i := range w.Failures {
		f := &w.Failures[i]
		if o.LastEvent != f.Event {
			continue
		}
		if f.StillToComeBytes == 0 {
			return rest{}
		}
		bytes := float64(f.StillToComeBytes - f.RequestedBytes)
		for _, change := range o.Changes {
			part := Leaves(change, f.inOptimizer)
			if part < 0 {
				return rest{}
			}
			bytes *= part
		}
		return rest{int64(bytes), true}
	}
	return rest{known: true}
}

// yetToMake is what a step had to make after the request that failed, with a change that a
// trial meets it with: by the step before, or by the layers of the first pass; 0 where
// nothing shows it.
func (w *whatIf) yetToMake(r *Result, change string) int64 {
	for i := range w.p.Timeline.OOMs {
		o := &w.p.Timeline.OOMs[i]
		if !r.Survived || o.Event != r.Until || w.classes == nil {
			continue
		}
		bytes, inOptimizer := passes.StillToCome(w.classes, o)
		if bytes <= o.Requested {
			_, _, bytes = passes.LayersToCome(w.classes, o)
		}
		return int64(float64(max(0, bytes-o.Requested)) * max(0, Leaves(change, inOptimizer)))
	}
	return 0
}

// toCome is what a step still had to allocate after the request that failed,
// where that is more than a scenario which meets it leaves; else 0.
func (o *Outcome) toCome() int64 {
	if o.rest.known && o.leftThen != nil && o.rest.bytes > *o.leftThen {
		return o.rest.bytes
	}
	return 0
}

// Leaves is the part that a change leaves of what was still to come after a failure, the
// state of an optimizer's first step or the rest of a pass; -1: nobody knows.
func Leaves(change string, inOptimizer bool) float64 {
	about, value, _ := strings.Cut(change, "=")
	switch {
	case about == "optimizer" && inOptimizer:
		// one byte of four and the blocks' scales; one moment of two; sgd: none
		return map[string]float64{"8bit": 0.254, "lion": 0.5, "fused": 1}[value]
	case about == "sharding" && inOptimizer:
		n, _ := strconv.ParseFloat(value, 64)
		return 1 / n
	case (about == "batch" || about == "seq") && !inOptimizer:
		part, _ := strconv.ParseFloat(strings.TrimPrefix(value, "x"), 64)
		return part
	case (about == "checkpointing" || about == "logits" || about == "use_cache") && !inOptimizer:
		return -1
	}
	return 1
}
