package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot/runlog"
)

// hostFailed tells of requests for the host's memory that a log says failed: no
// GPU was short of anything. The last is the one that ended the run.
func (w *witness) hostFailed(source int, log *runlog.Report) {
	n := len(log.HostFailures)
	if n == 0 {
		return
	}
	last := &log.HostFailures[n-1]
	where := ""
	if last.UserFile != "" {
		where = " at " + report.ShortFile(last.UserFile)
		if last.UserLine > 0 {
			where += fmt.Sprintf(":%d", last.UserLine)
		}
	}
	f := report.Finding{ID: "host_out_of_memory", Severity: report.Critical, Confidence: 0.95,
		Title:    fmt.Sprintf("Out of memory on the host, not on the GPU: %s of CPU memory asked for%s", report.Bytes(last.RequestedBytes), where),
		Evidence: []string{w.at(source, last.Line) + ": PyTorch's allocator of host memory (DefaultCPUAllocator) failed"},
		Fix:      ptr("Hold less on the host or give the job more memory there (its --mem, the container's limit): fewer DataLoader workers, checkpoints loaded with mmap=True or onto the GPU, no offloading")}
	if n > 1 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("told %s times in this log", report.Count(n)))
	}
	w.add(f)
}
