package leaks

import (
	"slices"

	"github.com/vramscope/vramscope/classify/meaning"
)

// varyingShapes finds loops whose steps ask for other sizes each time: nothing
// leaks, but the allocator's cache fits no step and grows.
func (l *loop) varyingShapes() []Leak {
	var loaded []survivor
	var before, now []int64 // requested in the forward of a step and the one before
	pairs, other, at := 0, 0, 0
	var change, least, most int64
	compare := func(k int) { // step k is over
		if k > 0 && len(now) >= 8 && len(before) >= 8 && (k < l.n-1 || !l.cut()) {
			pairs++
			if differ(before, now) >= 0.05 && unmatched(before, now) >= 0.25 {
				other++
				a, b := l.steps[k-1].PeakAllocated, l.steps[k].PeakAllocated
				change += max(a-b, b-a)
				if least == 0 {
					least = a
				}
				least, most = min(least, a, b), max(most, a, b)
			}
		}
		before, now = now, before[:0]
	}
	for id, step := range l.all() {
		for ; at < step; at++ {
			compare(at)
		}
		switch l.c.Category[id] {
		case meaning.Activations, meaning.Logits, meaning.AutocastCopies, meaning.Temporary, meaning.Inputs, meaning.Unknown:
		default:
			continue
		}
		if l.c.Phase[id] == meaning.Forward {
			now = append(now, l.t.Requested(id))
		}
		if l.c.Category[id] == meaning.Inputs && l.c.Phase[id] != meaning.Setup {
			loaded = append(loaded, survivor{id, int32(step), int32(l.n)})
		}
	}
	for ; at < l.n; at++ {
		compare(at)
	}
	if other < 2 || other*2 < pairs || most-least < 1<<20 {
		return nil
	}
	leak := Leak{Kind: VaryingShapes, Steps: other + 1, BytesPerStep: change / int64(other), TotalBytes: most - least,
		Category: meaning.Inputs}
	l.describe(&leak, loaded)
	leak.Confidence = confidence(other+1, float64(other)/float64(pairs), leak.File != "")
	return []Leak{leak}
}

// differ is the share of bytes by which two steps' forwards differ, comparing
// their allocations one by one; where the operations differ, too (an
// evaluation among training steps), nothing is said.
func differ(a, b []int64) float64 {
	if d := len(a) - len(b); d > len(a)/20 || -d > len(a)/20 {
		return 0
	}
	var apart, all float64
	for i := range min(len(a), len(b)) {
		apart += float64(max(a[i]-b[i], b[i]-a[i]))
		all += float64(max(a[i], b[i]))
	}
	if all == 0 {
		return 0
	}
	return apart / all
}

// unmatched is the share of bytes that two steps' forwards asked for in sizes
// that the other didn't: a few operations more, as of a first step, put all that
// follows out of order, but ask for no other sizes.
func unmatched(a, b []int64) float64 {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	var alone, all int64
	for _, n := range a {
		all += n
	}
	for _, n := range b {
		all += n
	}
	i, k := 0, 0
	for i < len(a) || k < len(b) {
		switch {
		case k == len(b) || i < len(a) && a[i] < b[k]:
			alone += a[i]
			i++
		case i == len(a) || b[k] < a[i]:
			alone += b[k]
			k++
		default:
			i++
			k++
		}
	}
	return float64(alone) / float64(max(1, all))
}

// creep finds reserved memory that grows from step to step while what is
// allocated doesn't: free memory in pieces that fit nothing.
func (l *loop) creep() []Leak {
	reserved, allocated := l.reserved(), make([]int64, l.n)
	for k := range l.steps {
		allocated[k] = l.steps[k].PeakAllocated
	}
	from := 1 // the second step still finds the sizes of the first new
	if l.n < from+3 {
		return nil
	}
	var peak int64
	for i := range from + 1 {
		peak = max(peak, allocated[i])
	}
	rises := 0
	spare := reserved[from] - peak // beyond what the steps so far had in use at once
	before := spare
	for i := from + 1; i < l.n; i++ {
		peak = max(peak, allocated[i])
		now := reserved[i] - peak
		if now >= spare+2<<20 {
			rises++
		}
		spare = now
	}
	steps := l.n - 1 - from
	waste := spare - before
	if rises < 2 || rises*2 < steps || waste*20 < reserved[l.n-1] {
		return nil
	}
	return []Leak{{Kind: FragmentationCreep, Steps: rises, BytesPerStep: waste / int64(steps), TotalBytes: waste,
		Category: meaning.Unknown, Confidence: confidence(rises, float64(rises)/float64(steps), true)}}
}

// reserved is what is held from the driver at the end of every step.
func (l *loop) reserved() []int64 {
	held := make([]int64, l.n)
	now, k := l.t.Start.Reserved, 0
	l.t.ReservedAt(func(event int, bytes int64) {
		for ; k < l.n && uint32(event) > l.last[k]; k++ {
			held[k] = now
		}
		now = bytes
	})
	for ; k < l.n; k++ {
		held[k] = now
	}
	return held
}
