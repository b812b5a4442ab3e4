package checks

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/classify"
	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/internal/words"
	"github.com/vramscope/vramscope/report"
)

var unevenDevices = Check{
	ID: "uneven_devices", Group: peak, Severity: ByDesign,
	Doc: "A request failed on this device while another one, on which the same program has layers of its own, had less than " +
		"half as much reserved; code of modules must have allocated there. Programs of several processes, and " +
		"`torch.nn.DataParallel`, are left out.",
	Saves: "what the device holds beyond the mean of the devices that have layers.",
	Needs: []facts.Need{facts.Phases}, Run: findUnevenDevices,
}

func findUnevenDevices(p *facts.Pass) []Draft {
	const part = 20 // of what is here, that layers take at least
	if len(p.T.OOMs) == 0 || p.Dev.AtPeak.Categories[classify.Weights.String()] == 0 {
		return nil
	}
	here := reservedBy(p.T.Device)
	used, all, least, at := otherDevices(p)
	if used == 0 || least*part < here || 2*least > here || gathers(p) || acrossProcesses(p) {
		return nil
	}
	o := &p.T.OOMs[len(p.T.OOMs)-1]
	s := p.Shortage(o)
	before := p.WholeNeed()
	after := (before + all) / (used + 1)
	if after >= before { // the others hold more still
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: p.Severity(), Confidence: 0.8, SavesBytes: new(before - after)}}
	d.Title = fmt.Sprintf("Another GPU of this program has room: device %d had %s reserved when %s were in use here", at,
		units.Bytes(least), units.Bytes(here))
	d.change("uneven_devices", "device", fmt.Sprint(at))
	d.falls(before, after, "figures")
	if s.Usable > 0 && after*100 < s.Usable*90 { // layers are of one piece
		d.Settle(words.Fits)
	}
	return []Draft{d}
}

// otherDevices counts the other devices of a recording for which code of modules allocates, what they have reserved, and which
// has the least.
func otherDevices(p *facts.Pass) (used, all, least int64, at int) {
	ofModules := p.StacksWith(func(_, file string) bool {
		return strings.Contains(file, "torch/nn/") || strings.Contains(file, "/transformers/") ||
			strings.Contains(file, "/accelerate/")
	})
	for i := range p.T.Snapshot.Devices {
		d := &p.T.Snapshot.Devices[i]
		reserved := reservedBy(d)
		if d == p.T.Device || reserved == 0 || !allocates(d, ofModules) {
			continue
		}
		all += reserved
		if used++; used == 1 || reserved < least {
			least, at = reserved, d.Ordinal
		}
	}
	return used, all, least, at
}

// acrossProcesses reports whether the program is one of several that work on one model: each has a GPU, and where it has
// memory on another, that is another's.
func acrossProcesses(p *facts.Pass) bool {
	return p.Dev.AtPeak.Categories[classify.Communication.String()] > 0 ||
		allocates(p.T.Device, p.StacksWith(func(_, file string) bool {
			return strings.Contains(file, "torch/distributed/") || strings.HasSuffix(file, "torch/nn/parallel/distributed.py")
		}))
}
