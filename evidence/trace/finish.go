package trace

import (
	"slices"
	"sort"
)

// finish orders the devices and adds what deviceProperties say about them.
func (p *parser) finish() {
	for _, d := range p.devices {
		if known, ok := p.props[d.ID]; ok && d.Type.IsAccelerator() {
			d.Name, d.CapacityBytes = known.Name, known.CapacityBytes
		}
		p.trace.Devices = append(p.trace.Devices, *d)
	}
	p.devices = nil
	sort.Slice(p.trace.Devices, func(i, j int) bool {
		a, b := p.trace.Devices[i], p.trace.Devices[j]
		if a.Type != b.Type {
			return a.Type < b.Type
		}
		return a.ID < b.ID
	})
}

// Accelerators lists the ids of the devices with events, without the host.
func (t *Trace) Accelerators() []int {
	ids := []int{}
	for _, d := range t.Devices {
		if d.Type.IsAccelerator() && d.ID >= 0 {
			ids = append(ids, d.ID)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids) // CUDA and HIP number theirs alike
}

// Peaks are the largest totals of any accelerator, Unknown where the trace has
// none: those before PyTorch 1.11 carry only the size of each event.
func (t *Trace) Peaks() (allocated, reserved int64) {
	allocated, reserved = Unknown, Unknown
	for _, d := range t.Devices {
		if d.Type.IsAccelerator() {
			allocated = max(allocated, d.PeakAllocatedBytes)
			reserved = max(reserved, d.PeakReservedBytes)
		}
	}
	return allocated, reserved
}
