package trace

import (
	"slices"
	"sort"

	"github.com/vramscope/vramscope/evidence"
)

// finish orders the devices, adds what deviceProperties say about them and sums
// them up. Traces before PyTorch 1.11 have no totals: they carry only the size of each event.
func (p *parser) finish() {
	t := p.trace
	for _, d := range p.devices {
		if known, ok := p.props[d.ID]; ok && d.Type.IsAccelerator() {
			d.Name, d.CapacityBytes = known.Name, known.CapacityBytes
		}
		t.Devices = append(t.Devices, *d)
	}
	p.devices = nil
	sort.Slice(t.Devices, func(i, j int) bool {
		a, b := t.Devices[i], t.Devices[j]
		if a.Type != b.Type {
			return a.Type < b.Type
		}
		return a.ID < b.ID
	})
	allocated, reserved := unknown, unknown
	for _, d := range t.Devices {
		if !d.Type.IsAccelerator() {
			continue
		}
		allocated, reserved = max(allocated, d.PeakAllocatedBytes), max(reserved, d.PeakReservedBytes)
		if d.ID >= 0 {
			t.Accelerators = append(t.Accelerators, d.ID)
		}
	}
	slices.Sort(t.Accelerators)
	t.Accelerators = slices.Compact(t.Accelerators) // CUDA and HIP number theirs alike
	t.PeakAllocatedBytes, t.PeakReservedBytes = evidence.Known(allocated), evidence.Known(reserved)
}
