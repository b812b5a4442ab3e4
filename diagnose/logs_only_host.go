package diagnose

import (
	"fmt"

	"github.com/vramscope/vramscope/report"
	"github.com/vramscope/vramscope/snapshot/runlog"
)

// hostFailed tells of requests for the host's memory that a log says failed, and
// of processes killed for want of it: no GPU was short of anything. The last is
// the one that ended the run.
func (w *witness) hostFailed(source int, log *runlog.Report) {
	last := lastOnHost(log)
	if last == nil {
		return
	}
	where := ""
	if last.UserFile != "" {
		where = " at " + report.ShortFile(last.UserFile)
		if last.UserLine > 0 {
			where += fmt.Sprintf(":%d", last.UserLine)
		}
	}
	f := report.Finding{ID: "host_out_of_memory", Severity: report.Critical, Confidence: 0.95}
	f.Title, f.Evidence = hostTitle(last, where), []string{w.at(source, last.Line) + ": " + hostEvidence(last)}
	f.Fix = ptr("Hold less on the host or give the job more memory there (its --mem, the container's limit): fewer DataLoader workers, checkpoints loaded with mmap=True or onto the GPU, no offloading")
	switch last.By {
	case runlog.BySharedMemory:
		f.Confidence = 0.8
		f.Fix = ptr("Give the container more shared memory (docker run --shm-size or --ipc=host, a larger emptyDir at /dev/shm), or use fewer DataLoader workers")
	case runlog.BySignal:
		f.Confidence, f.Severity = 0.5, report.Warning
	}
	same := 0
	for i := range log.HostFailures {
		if log.HostFailures[i].By == last.By {
			same++
		}
	}
	if same > 1 {
		f.Evidence = append(f.Evidence, fmt.Sprintf("told %s times in this log", report.Count(same)))
	}
	w.add(f)
}

// lastOnHost is the last failure that is one for sure, else the last of the
// signals, which count for nothing where the GPU's memory failed.
func lastOnHost(log *runlog.Report) *runlog.HostFailure {
	for i := len(log.HostFailures) - 1; i >= 0; i-- {
		if f := &log.HostFailures[i]; f.By != runlog.BySignal {
			return f
		}
	}
	if n := len(log.HostFailures); n > 0 && len(log.OOMs) == 0 {
		return &log.HostFailures[n-1]
	}
	return nil
}

func hostTitle(h *runlog.HostFailure, where string) string {
	const onHost = "Out of memory on the host, not on the GPU: "
	switch {
	case h.By == runlog.BySharedMemory:
		return "Out of shared memory on the host (/dev/shm), not of the GPU's memory: a DataLoader worker was killed" + where
	case h.By == runlog.BySignal:
		return "A process was killed by signal 9, as the host's out-of-memory killer does; what was given shows no failure of the GPU's memory"
	case h.RequestedBytes >= 0:
		return fmt.Sprintf(onHost+"%s of CPU memory asked for%s", report.Bytes(h.RequestedBytes), where)
	case h.HeldBytes > 0:
		return fmt.Sprintf(onHost+"%s killed a process that held %s of CPU memory", h.By, report.Bytes(h.HeldBytes))
	case h.By == runlog.BySystem:
		return onHost + "the operating system refused a request for CPU memory" + where
	}
	return fmt.Sprintf(onHost+"%s saw a process of the job killed for it", h.By)
}

func hostEvidence(h *runlog.HostFailure) string {
	switch h.By {
	case runlog.ByPyTorch:
		return "PyTorch's allocator of host memory (DefaultCPUAllocator) failed"
	case runlog.BySignal, runlog.BySharedMemory:
		return "killed"
	case runlog.ByKernel, runlog.BySlurm, runlog.ByKubernetes, runlog.ByRay:
		return "killed, as " + h.By + " says"
	}
	return "told by " + h.By
}
