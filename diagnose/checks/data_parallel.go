package checks

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot"
)

var dataParallel = Check{
	ID: "data_parallel", Group: peak, Severity: ByDesign,
	Doc: "`torch.nn.DataParallel` gathers outputs on this device, which has reserved a quarter more than any other at the " +
		"end. The evidence gives both figures.",
	Needs: []facts.Need{facts.Phases}, Run: findDataParallel,
}

func findDataParallel(p *facts.Pass) []Draft {
	const more = 125 // percent of what another device has reserved
	if !facts.Phases.Of(p).Trains || !gathers(p) {
		return nil
	}
	var here, other int64
	for i := range p.T.Snapshot.Devices {
		d := &p.T.Snapshot.Devices[i]
		switch reserved := reservedBy(d); {
		case d == p.T.Device:
			here = reserved
		default:
			other = max(other, reserved)
		}
	}
	if other == 0 || here*100 < more*other {
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: p.Severity(), Confidence: 0.9}}
	d.Title = fmt.Sprintf("DataParallel fills this GPU first: %s reserved at the end, at most %s on the others",
		units.Bytes(here), units.Bytes(other))
	d.Evidence = []string{"the weights are copied to the other GPUs in every forward pass, all outputs gathered on this one, " +
		"and gradients and optimizer state are only here"}
	d.advise("data_parallel")
	return []Draft{d}
}

// gathers reports whether something is allocated on the device while DataParallel
// gathers outputs.
func gathers(p *facts.Pass) bool {
	s := p.T.Snapshot
	if len(s.Devices) < 2 {
		return false
	}
	gathering := p.StacksWith(func(function, file string) bool {
		return function == "gather" && strings.HasSuffix(file, "torch/nn/parallel/data_parallel.py")
	})
	return allocates(p.T.Device, gathering)
}

// allocates reports whether something is allocated on a device under some stacks.
func allocates(d *snapshot.Device, under func(snapshot.StackID) bool) bool {
	for i, action := range d.Events.Action {
		if action == snapshot.Alloc && under(d.Events.StackOf(i)) {
			return true
		}
	}
	return false
}

func reservedBy(d *snapshot.Device) (bytes int64) {
	for i := range d.Segments {
		bytes += d.Segments[i].TotalSize
	}
	return bytes
}
