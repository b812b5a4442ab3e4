package checks

import (
	"fmt"

	"github.com/vramscope/vramscope/diagnose/facts"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

var pinnedHostMemory = Check{
	ID: "pinned_host_memory", Group: allocator, Severity: "info",
	Doc: "A gigabyte or more of the host's memory is pinned. No figure of the GPU shows it.",
	Run: findPinnedHost,
}

func findPinnedHost(p *facts.Pass) []Draft {
	h := p.T.Snapshot.Host
	if h == nil || p.T.Device != &p.T.Snapshot.Devices[0] {
		return nil
	}
	host := facts.HostOf(p.T.Snapshot, h)
	if host.Bytes < 1<<30 && host.PeakBytes < 1<<30 {
		return nil
	}
	d := Draft{Finding: report.Finding{Severity: report.Info, Confidence: 1}}
	d.Title = fmt.Sprintf("%s of host memory are pinned, %s of them in use", units.Bytes(host.Bytes), units.Bytes(host.Used))
	d.Evidence = []string{fmt.Sprintf("at most %s were in use at once; PyTorch rounds each pinned block up to a power of two "+
		"and keeps it", units.Bytes(host.PeakBytes))}
	d.advise("pinned_host_memory")
	return []Draft{d}
}
