package runlog

import "bytes"

// HostFailure is one request that failed in the memory of the host, or a process
// that was killed for want of it. PyTorch's own is from c10/core/impl/alloc_cpu.cpp:
//
//	RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator:
//	can't allocate memory: you tried to allocate 17179869184 bytes. Error code 12 …
type HostFailure struct {
	Line           int
	RequestedBytes int64  // Unknown where a process was killed
	By             string // whose request failed, or who killed: one of the constants below, "NumPy", "TensorFlow"
	HeldBytes      int64  // what the killed process held, 0: not said
	UserFile       string // "" without a traceback
	UserLine       int
}

// Who tells of a failure on the host.
const (
	ByPyTorch      = "DefaultCPUAllocator"
	ByKernel       = "the kernel's out-of-memory killer"
	BySlurm        = "Slurm"
	ByKubernetes   = "Kubernetes"
	ByRay          = "Ray"
	BySystem       = "the operating system"
	BySharedMemory = "shared memory"
	BySignal       = "a signal" // SIGKILL, whose sender nobody names
)

const hostAllocator = ByPyTorch

// hostMarks are what others than PyTorch's allocator say. Those with asked are
// failures only where a size follows.
var hostMarks = []struct{ words, by, asked string }{
	{" oom_kill event", BySlurm, ""}, {" oom-kill event", BySlurm, ""}, {"OOMKilled", ByKubernetes, ""},
	{"ut of memory: Killed process", ByKernel, ""}, {"ut of memory: Kill process", ByKernel, ""},
	{"due to the node running low on memory", ByRay, ""},
	{"ut of shared memory. Please try to raise", BySharedMemory, ""},
	{"killed by signal: Killed", BySignal, ""}, {"Signal 9 (SIGKILL) received", BySignal, ""},
	{"MemoryError: Unable to allocate ", "NumPy", "Unabletoallocate"},
	{"Errno 12] Cannot allocate memory", BySystem, ""},
	{": Cannot allocate memory (12)", BySystem, "unabletommap"},
}

// hostFailure keeps a line of the host that says what was asked for, or who killed.
func (p *Parser) hostFailure(number int, line []byte) bool {
	const enough = 120 // bytes without blanks up to the figure
	if at := bytes.Index(line, []byte(hostAllocator)); at >= 0 {
		requested := sizeAfter(compact(line[at:], enough), "triedtoallocate")
		if requested != Unknown {
			p.report.Known++
			p.hostFailed(HostFailure{Line: number, RequestedBytes: requested, By: ByPyTorch}, line[:at])
		}
		return true // its figures are no GPU's
	}
	if len(line) > maxOther {
		return false
	}
	for _, mark := range hostMarks {
		at := bytes.Index(line, []byte(mark.words))
		if at < 0 {
			continue
		}
		if mark.by == BySlurm && !bytes.Contains(line[:at], []byte("Detected ")) || mark.by == ByKubernetes && !bytes.Contains(line, []byte("eason")) && !bytes.Contains(line, []byte("137")) {
			continue
		}
		f := HostFailure{Line: number, RequestedBytes: Unknown, By: mark.by}
		if mark.asked != "" {
			if f.RequestedBytes = sizeAfter(compact(line, maxOther), mark.asked); f.RequestedBytes == Unknown {
				continue
			}
		}
		if mark.by == ByKernel {
			f.HeldBytes = max(0, sizeAfter(compact(line[at:], 512), "anon-rss:"))
		}
		p.report.Known++
		p.hostFailed(f, line[:at])
		return true
	}
	if isKilled(line) { // a word alone makes no log of a text
		p.hostFailed(HostFailure{Line: number, RequestedBytes: Unknown, By: BySignal}, nil)
		return true
	}
	return false
}

func (p *Parser) hostFailed(f HostFailure, prefix []byte) {
	if len(p.report.HostFailures) >= maxFailures {
		return
	}
	var m OOM
	p.traces.tell(&m, prefix)
	f.UserFile, f.UserLine = m.UserFile, m.UserLine
	p.report.HostFailures = append(p.report.HostFailures, f)
}

// isKilled tells what a shell prints of a program that signal 9 ended: "Killed",
// "run.sh: line 3: 12345 Killed                  python train.py".
func isKilled(line []byte) bool {
	before, _, ok := bytes.Cut(line[:min(len(line), 200)], []byte(" Killed  "))
	return ok && bytes.Contains(before, []byte(": line ")) || string(bytes.TrimSpace(line)) == "Killed"
}
