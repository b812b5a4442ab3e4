package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/internal/units"
)

// hostAllocator is PyTorch's own (c10/core/impl/alloc_cpu.cpp):
//
//	RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator:
//	can't allocate memory: you tried to allocate 17179869184 bytes. Error code 12 …
const hostAllocator = evidence.ByPyTorch

// hostMarks are what others than PyTorch's allocator say. Those with asked are
// failures only where a size follows.
var hostMarks = []struct{ words, by, asked string }{
	{" oom_kill event", evidence.BySlurm, ""}, {" oom-kill event", evidence.BySlurm, ""}, {"OOMKilled", evidence.ByKubernetes,
		""},
	{"ut of memory: Killed process", evidence.ByKernel, ""}, {"ut of memory: Kill process", evidence.ByKernel, ""},
	{"due to the node running low on memory", evidence.ByRay, ""},
	{"ut of shared memory. Please try to raise", evidence.BySharedMemory, ""},
	{"srun: error: ", evidence.BySlurm, ""}, {"TERM_MEMLIMIT: job killed", evidence.ByLSF, ""}, {"kb exceeded limit ",
		evidence.ByPBS, ""},
	{"[WinError 1455]", evidence.ByPagingFile, ""}, {"std::bad_alloc", evidence.ByAllocation, ""},
	{"MemoryError", evidence.ByPython, ""},
	{"exited unexpectedly", evidence.ByWorker, ""},
	{"failed (exitcode: -9)", evidence.BySignal, ""}, {"exitcode  : -9", evidence.BySignal, ""}, {"exits with return code = -9",
		evidence.BySignal, ""},
	{"xit code 137", evidence.BySignal, ""}, {"xit code: 137", evidence.BySignal, ""}, {"Exit Code:    137", evidence.BySignal,
		""},
	{"zsh: killed  ", evidence.BySignal, ""},
	{"killed by signal: Killed", evidence.BySignal, ""}, {"Signal 9 (SIGKILL) received", evidence.BySignal, ""},
	{"MemoryError: Unable to allocate ", "NumPy", "Unabletoallocate"},
	{"Errno 12] Cannot allocate memory", evidence.BySystem, ""},
	{": Cannot allocate memory (12)", evidence.BySystem, "unabletommap"},
}

// hostFailure keeps a line of the host that says what was asked for, or who killed.
func (p *Parser) hostFailure(number int, line []byte) bool {
	const enough = 120 // bytes without blanks up to the figure
	if at := bytes.Index(line, []byte(hostAllocator)); at >= 0 {
		requested := figures.After(figures.Compact(line[at:], enough), "triedtoallocate")
		if requested != unknown {
			p.report.Known++
			p.hostFailed(evidence.HostFailure{Line: number, RequestedBytes: &requested, By: evidence.ByPyTorch}, line[:at])
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
		f := evidence.HostFailure{Line: number, By: mark.by}
		if mark.asked != "" {
			if f.RequestedBytes = known(figures.After(figures.Compact(line, maxOther), mark.asked)); f.RequestedBytes == nil {
				continue
			}
		}
		if mark.by == evidence.ByKernel {
			f.HeldBytes = max(0, figures.After(figures.Compact(line[at:], 512), "anon-rss:"))
		}
		p.report.Known++
		p.hostFailed(f, line[:at])
		return true
	}
	if isKilled(line) { // a word alone makes no log of a text
		if line[0] == '[' {
			p.report.Known++
		}
		p.hostFailed(evidence.HostFailure{Line: number, By: evidence.BySignal}, nil)
		return true
	}
	return false
}

// isHostFailure tells a message from the same words about something else.
func (p *Parser) isHostFailure(words, by string, line []byte, at int) bool {
	before, after := line[:at], line[at+len(words):]
	has := func(text []byte, word string) bool { return bytes.Contains(text, []byte(word)) }
	switch by {
	case evidence.BySlurm:
		if words[0] == 's' {
			return bytes.HasSuffix(bytes.TrimRight(after, " "), []byte(": Out Of Memory"))
		}
		return has(before, "Detected ")
	case evidence.ByKubernetes:
		return has(line, "eason") || has(line, "137")
	case evidence.ByPBS:
		return has(before, "PBS: job killed: ")
	case evidence.ByPython: // bare; who has more to say stands above
		return len(bytes.TrimSpace(after)) == 0 && (len(bytes.TrimSpace(before)) == 0 || bytes.HasSuffix(before, []byte("]: ")))
	case evidence.ByAllocation: // RAPIDS' memory manager says so of a GPU's memory
		return (has(before, "what():") || has(before, "rror: ") || has(before, "throwing an instance of '")) &&
			!has(line, "CUDA") && !has(line, "rmm")
	case evidence.ByWorker:
		return has(before, "DataLoader worker (pid")
	case evidence.BySignal:
		if words == "exitcode  : -9" && !p.records.root { // torchrun itself stops the others so
			return false
		}
		return len(after) == 0 || !units.IsDigit(after[0])
	}
	return true
}

func (p *Parser) hostFailed(f evidence.HostFailure, prefix []byte) {
	if len(p.report.HostFailures) >= maxFailures {
		return
	}
	var m evidence.OOMMessage
	p.traces.Tell(&m, prefix)
	f.UserFile, f.UserLine = evidence.Or(m.UserFile, ""), evidence.Or(m.UserLine, 0)
	p.report.HostFailures = append(p.report.HostFailures, f)
}

// killedWords are what shells print of such a program, in their users' languages
// (glibc, strsignal), and zsh's.
var killedWords = []string{"Killed", "killed", "Getötet", "Processus arrêté", "Terminado (killed)", "Ucciso", "Убито", "已杀死",
	"強制終了"}

// isKilled tells what a shell prints of a program that signal 9 ended: "Killed",
// "run.sh: line 3: 12345 Killed                  python train.py",
// "[1]    31241 killed     python train.py", "[1]+  Killed                  python train.py".
func isKilled(line []byte) bool {
	line = line[:min(len(line), 200)]
	for _, word := range killedWords {
		at := bytes.Index(line, []byte(word))
		if at < 0 {
			continue
		}
		before, after := bytes.TrimSpace(line[:at]), line[at+len(word):]
		if len(before) == 0 {
			if word != "killed" && len(bytes.TrimSpace(after)) == 0 {
				return true
			}
			continue
		}
		pid := bytes.TrimRight(before, "0123456789")
		if bytes.HasPrefix(after, []byte("  ")) && (len(pid) < len(before) && bytes.HasSuffix(pid, []byte(": ")) ||
			before[0] == '[' && len(bytes.Trim(before, "[]+- 0123456789")) == 0) {
			return true
		}
	}
	return false
}
