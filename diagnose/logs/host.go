package logs

import (
	"fmt"
	"strings"

	"github.com/vramscope/vramscope/diagnose/advice"
	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
	"github.com/vramscope/vramscope/report"
)

// hostFailed tells of requests for the host's memory that a log says failed, and
// of processes killed for want of it: no GPU was short of anything. The last is
// the one that ended the run.
func (w *witness) hostFailed(source int, log *evidence.Log) {
	last := w.lastOnHost(log)
	if last == nil {
		return
	}
	where := ""
	if last.UserFile != "" {
		where = " at " + placeOf(last.UserFile, last.UserLine)
	}
	f := report.Finding{ID: "host_out_of_memory", Severity: report.Critical, Confidence: 0.95}
	f.Title, f.Evidence = hostTitle(last, where), []string{w.at(source, last.Line) + ": " + hostEvidence(last)}
	f.Fix = advice.Text("host")
	switch last.By {
	case evidence.BySharedMemory:
		f.Confidence = 0.8
		f.Fix = advice.Text("host.shared_memory")
	case evidence.ByPagingFile:
		f.Fix = advice.Text("host.paging_file")
	case evidence.ByAllocation:
		f.Confidence = 0.8 // a wrong size fails in the same way
	case evidence.BySignal:
		f.Confidence, f.Severity = 0.5, report.Warning
		f.Fix = advice.Text("host.signal")
	case evidence.ByWorker:
		f.Confidence, f.Severity = 0.3, report.Warning
		f.Fix = advice.Text("host.worker")
	case evidence.ByPool, evidence.ByNotebook:
		f.Confidence, f.Severity = 0.3, report.Warning
		f.Fix = advice.Text("host.silent")
	}
	same := 0
	for i := range log.HostFailures {
		if log.HostFailures[i].By == last.By {
			same++
		}
	}
	if same > 1 {
		f.Evidence = append(f.Evidence, "told "+units.Times(same)+" in this log")
	}
	w.add(f)
}

// lastOnHost is the last failure that is one for sure, else the last of those
// that may be, which count for nothing where the GPU's memory failed.
func (w *witness) lastOnHost(log *evidence.Log) *evidence.HostFailure {
	for i := len(log.HostFailures) - 1; i >= 0; i-- {
		if f := &log.HostFailures[i]; f.Sure() {
			return f
		}
	}
	if n := len(log.HostFailures); n > 0 && len(w.doc.Evidence.MessagesOf(log.Source)) == 0 {
		return &log.HostFailures[n-1]
	}
	return nil
}

func hostTitle(h *evidence.HostFailure, where string) string {
	const onHost = "Out of memory on the host, not on the GPU: "
	switch {
	case h.By == evidence.BySharedMemory:
		return "Out of shared memory on the host (/dev/shm), not of the GPU's memory: a DataLoader worker was killed" + where
	case h.By == evidence.BySignal:
		who := "A process"
		if h.Rank != nil {
			who = fmt.Sprintf("Rank %d", *h.Rank)
		}
		return who + " was killed by signal 9, as the host's out-of-memory killer does, or somebody's kill -9; nothing " +
			"shows that the GPU's memory failed"
	case h.Silent():
		return strings.ToUpper(h.By[:1]) + h.By[1:] + " ended without a word" + where +
			": killed for want of the host's memory perhaps, or crashed; nothing shows that the GPU's memory failed"
	case h.By == evidence.ByPagingFile:
		return onHost + "Windows' paging file is too small" + where
	case h.RequestedBytes != nil:
		return fmt.Sprintf(onHost+"%s of CPU memory asked for%s", units.Bytes(*h.RequestedBytes), where)
	case h.HeldBytes > 0:
		return fmt.Sprintf(onHost+"%s killed a process that held %s of CPU memory", h.By, units.Bytes(h.HeldBytes))
	case h.By == evidence.BySystem || h.By == evidence.ByPython || h.By == evidence.ByAllocation:
		return onHost + "the operating system refused a request for CPU memory" + where
	}
	limit := ""
	if h.LimitBytes > 0 {
		limit = "; the job may hold " + units.Bytes(h.LimitBytes) + " there"
	}
	return fmt.Sprintf(onHost+"%s saw a process of the job killed for it%s", h.By, limit)
}

func hostEvidence(h *evidence.HostFailure) string {
	switch h.By {
	case evidence.ByPyTorch:
		return "PyTorch's allocator of host memory (DefaultCPUAllocator) failed"
	case evidence.BySignal, evidence.BySharedMemory:
		return "killed"
	case evidence.ByWorker, evidence.ByPool, evidence.ByNotebook:
		return "ended unexpectedly"
	case evidence.BySystem, evidence.ByPython, evidence.ByAllocation, evidence.ByPagingFile:
		return "no figures"
	case evidence.ByKernel, evidence.BySlurm, evidence.ByLSF, evidence.ByPBS, evidence.ByKubernetes, evidence.ByRay:
		return "killed, as " + h.By + " says"
	}
	return "told by " + h.By
}
