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
	ByPython       = "Python"
	ByAllocation   = "std::bad_alloc"
	ByPagingFile   = "the paging file" // of Windows
	ByLSF          = "LSF"
	ByPBS          = "PBS"
	BySignal       = "a signal"            // SIGKILL, whose sender nobody names
	ByWorker       = "a DataLoader worker" // that ended, nobody says why
)

// Sure tells a failure of memory from an end that may have another cause.
func (h *HostFailure) Sure() bool { return h.By != BySignal && h.By != ByWorker }

const hostAllocator = ByPyTorch

// hostMarks are what others than PyTorch's allocator say. Those with asked are
// failures only where a size follows.
var hostMarks = []struct{ words, by, asked string }{
	{" oom_kill event", BySlurm, ""}, {" oom-kill event", BySlurm, ""}, {"OOMKilled", ByKubernetes, ""},
	{"ut of memory: Killed process", ByKernel, ""}, {"ut of memory: Kill process", ByKernel, ""},
	{"due to the node running low on memory", ByRay, ""},
	{"ut of shared memory. Please try to raise", BySharedMemory, ""},
	{"srun: error: ", BySlurm, ""}, {"TERM_MEMLIMIT: job killed", ByLSF, ""}, {"kb exceeded limit ", ByPBS, ""},
	{"[WinError 1455]", ByPagingFile, ""}, {"std::bad_alloc", ByAllocation, ""}, {"MemoryError", ByPython, ""},
	{"exited unexpectedly", ByWorker, ""},
	{"failed (exitcode: -9)", BySignal, ""}, {"exitcode  : -9", BySignal, ""}, {"exits with return code = -9", BySignal, ""},
	{"xit code 137", BySignal, ""}, {"xit code: 137", BySignal, ""}, {"Exit Code:    137", BySignal, ""},
	{"zsh: killed  ", BySignal, ""},
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
		if !p.isHostFailure(mark.words, mark.by, line, at) {
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
		if line[0] == '[' {
			p.report.Known++
		}
		p.hostFailed(HostFailure{Line: number, RequestedBytes: Unknown, By: BySignal}, nil)
		return true
	}
	return false
}

// isHostFailure tells a message from the same words about something else.
func (p *Parser) isHostFailure(words, by string, line []byte, at int) bool {
	before, after := line[:at], line[at+len(words):]
	has := func(text []byte, word string) bool { return bytes.Contains(text, []byte(word)) }
	switch by {
	case BySlurm:
		if words[0] == 's' {
			return bytes.HasSuffix(bytes.TrimRight(after, " "), []byte(": Out Of Memory"))
		}
		return has(before, "Detected ")
	case ByKubernetes:
		return has(line, "eason") || has(line, "137")
	case ByPBS:
		return has(before, "PBS: job killed: ")
	case ByPython: // bare; who has more to say stands above
		return len(bytes.TrimSpace(after)) == 0 && (len(bytes.TrimSpace(before)) == 0 || bytes.HasSuffix(before, []byte("]: ")))
	case ByAllocation: // RAPIDS' memory manager says so of a GPU's memory
		return (has(before, "what():") || has(before, "rror: ") || has(before, "throwing an instance of '")) &&
			!has(line, "CUDA") && !has(line, "rmm")
	case ByWorker:
		return has(before, "DataLoader worker (pid")
	case BySignal:
		if words == "exitcode  : -9" && !p.records.root { // torchrun itself stops the others so
			return false
		}
		return len(after) == 0 || !isDigit(after[0])
	}
	return true
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
// "run.sh: line 3: 12345 Killed                  python train.py",
// "[1]    31241 killed     python train.py".
func isKilled(line []byte) bool {
	if job, _, ok := bytes.Cut(line[:min(len(line), 64)], []byte(" killed  ")); ok && line[0] == '[' {
		return len(bytes.Trim(job, "[]+- 0123456789")) == 0
	}
	before, _, ok := bytes.Cut(line[:min(len(line), 200)], []byte(" Killed  "))
	return ok && bytes.Contains(before, []byte(": line ")) || string(bytes.TrimSpace(line)) == "Killed"
}
