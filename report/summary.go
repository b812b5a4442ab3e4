package report

import (
	"maps"
	"slices"
)

// Steps of a device that a summary lists: of more, the first and last, the highest, and
// those in which a request failed.
const (
	manySteps  = 12
	edgeSteps  = 3
	failedMost = 6
)

// Summary is the document with the steps that tell most; the others are counted. The
// document itself stays whole.
func (d *Document) Summary() *Document {
	short := *d
	short.Devices = slices.Clone(d.Devices)
	for i := range short.Devices {
		short.Devices[i].summarize()
	}
	return &short
}

func (d *Device) summarize() {
	n := len(d.Steps)
	if n <= manySteps {
		return
	}
	highest := 0
	for i := range d.Steps {
		if d.Steps[i].PeakAllocatedBytes > d.Steps[highest].PeakAllocatedBytes {
			highest = i
		}
	}
	kept := map[int]bool{highest: true}
	for i := range edgeSteps {
		kept[i], kept[n-1-i] = true, true
	}
	for i := range d.OOMs[:min(len(d.OOMs), failedMost)] {
		event := d.OOMs[i].Event
		failed := slices.IndexFunc(d.Steps, func(s Step) bool { return s.FirstEvent <= event && event <= s.LastEvent })
		if failed >= 0 {
			kept[failed] = true
		}
	}
	var steps []Step
	for _, i := range slices.Sorted(maps.Keys(kept)) {
		steps = append(steps, d.Steps[i])
	}
	d.Steps, d.StepsLeftOut = steps, d.StepsLeftOut+n-len(steps)
}
