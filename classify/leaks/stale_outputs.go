package leaks

import (
	"github.com/vramscope/vramscope/classify/meaning"
	"github.com/vramscope/vramscope/timeline"
)

// smallShare of the peak is not worth a finding.
const smallShare = 100

// staleOutputs finds what the forward of a step made and the next step's
// forward still carries: outputs held by a variable until it is assigned
// again. It isn't growth, but it stands on top of the peak.
func (l *loop) staleOutputs() []Leak {
	held := make([]int64, l.n)
	var kept []survivor
	for id, step := range l.all() {
		next := step + 1
		if next >= l.n || !l.output(id, step) {
			continue
		}
		died := l.t.FreeRequested[id]
		if died == timeline.Never || died <= l.middle(next) || died > l.last[next] {
			continue
		}
		held[next] += l.bytes(id)
		kept = append(kept, survivor{id, int32(step), int32(next)})
	}
	var total, most int64
	steps, could := 0, 0
	for k := 1; k < l.n; k++ {
		if l.middle(k) == timeline.Never {
			continue
		}
		could++
		if held[k] > 0 {
			steps++
			total += held[k]
			most = max(most, held[k])
		}
	}
	if steps == 0 || steps*2 < could || most < 1<<20 || most*smallShare < l.peakAllocated() {
		return nil
	}
	leak := Leak{Kind: StaleOutputs, Steps: steps, BytesPerStep: total / int64(steps), TotalBytes: most}
	if at, stack := l.holder(l.describe(&leak, kept)); at.File != "" {
		leak.Site, leak.stack = at, stack
	}
	leak.Confidence = confidence(steps+1, float64(steps)/float64(max(1, could)), leak.File != "")
	return []Leak{leak}
}

// output reports whether an allocation was made by a step's forward for a
// purpose that ends with the step.
func (l *loop) output(id timeline.AllocationID, step int) bool {
	switch l.c.Category[id] {
	case meaning.Activations, meaning.Logits, meaning.AutocastCopies, meaning.Temporary, meaning.Unknown:
	case meaning.KVCache: // decoding needs it, training doesn't
		if !l.trains {
			return false
		}
	default:
		return false
	}
	if l.c.Phase[id] != meaning.Forward && l.c.Phase[id] != meaning.Generate {
		return false
	}
	b := l.backward[step]
	return b == timeline.Never || l.t.Born[id] < b
}

// middle is the event in the middle of a step's first forward: what is alive
// then takes room that the forward could use.
func (l *loop) middle(step int) uint32 {
	if l.forward[step] == timeline.Never {
		return timeline.Never
	}
	return l.forward[step] + (l.forwardEnd[step]-l.forward[step])/2
}
