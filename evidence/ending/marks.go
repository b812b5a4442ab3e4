package ending

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
)

// Mark is words by which a program, a shell, the system or a service says how something ended.
type Mark struct {
	Words string // of these one is in the line, which a byte search tells first; bars stand between them
	How   evidence.How
	By    string // who tells
	Is    Trait
	// Form is what else the line is like; a group in it is the code that the process ended with. nil: the words are enough.
	Form func() *regexp.Regexp
	Not  string // words of which none is, likewise
	Line string // an example
}

// Trait is what else holds for a mark's line; bits.
type Trait uint8

const (
	Sized  Trait = 1 << iota // without the bytes asked for it tells of nothing
	Unsure                   // other causes than memory are usual, too
	Own                      // no exception's name nor a logger's level need stand before the words
)

// In is where the first of a mark's words is in a line, and the groups of its form; -1 where the line isn't like it.
func (m *Mark) In(line []byte) (at int, groups [][]byte) {
	if at = indexOf(line, m.Words); at >= 0 && m.Form != nil {
		groups = m.Form().FindSubmatch(line)
	}
	if m.Form != nil && groups == nil || indexOf(line, m.Not) >= 0 {
		return -1, nil
	}
	return at, groups
}

// indexOf is where the first of some words is, between which bars stand; -1 without any.
func indexOf(line []byte, words string) int {
	for word := range strings.SplitSeq(words, "|") {
		if at := bytes.Index(line, []byte(word)); at >= 0 && word != "" {
			return at
		}
	}
	return -1
}

// killedForm is such a word alone, or of a shell's job: "[1]    31241 killed     python train.py",
// "[1]+  Killed                  python train.py", "run.sh: line 3: 12345 Killed".
var killedForm = pattern.Of(`^\s*(?:Killed|` + killedAbroad + `)\s*$|(?:^\[[-+\[\] \d]*|^.{0,160}: *\d+ +)(?:[Kk]illed|` +
	killedAbroad + `)  +\S|^.{0,160}line .{0,160}: *\d+ +(?:[Kk]illed|` + killedAbroad + `)\s*$`)

// killedAbroad are such words of other languages than English.
const killedAbroad = `Getötet|Processus arrêté|Terminado \(killed\)|Ucciso|Убито|已杀死|強制終了`

// Marks are all of them; the first that a line has, and is like, counts. Those of the
// host's memory come first, then signals, codes, and what else ends a program.
var Marks = []Mark{
	{"DefaultCPUAllocator", evidence.HostMemory, evidence.ByPyTorch, Sized, nil, "",
		"RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to " +
			"allocate 17179869184 bytes."},
	{"_kill event|-kill event", evidence.HostMemory, evidence.BySlurm, 0, pattern.Of(`Detected .* oom[_-]kill event`), "",
		"slurmstepd: error: Detected 1 oom_kill event in StepId=12345.batch."},
	{"OMKilled", evidence.HostMemory, evidence.ByKubernetes, 0, pattern.Of(`eason.*OOMKilled|137.*OOMKilled|OOMKilled.*137|` +
		`\s\d+/\d+\s+OOMKilled\s+\d|"?OOMKilled"?\s*:\s*"?[tT]rue`), "", "  Reason:       OOMKilled"},
	{"Killed process|Kill process", evidence.HostMemory, evidence.ByKernel, 0,
		pattern.Of(`ut of memory: Kill(?:ed)? process`), "",
		"[12.3] Memory cgroup out of memory: Killed process 4242 (python) anon-rss:65432100kB"},
	{"due to memory ", evidence.HostMemory, "systemd-oomd", 0, pattern.Of(`Killed \S+ due to memory (pressure|used)`), "",
		"systemd-oomd[811]: Killed /user.slice/train.scope due to memory pressure for /user.slice being 71.22% > 50.00% for " +
			"> 20s"},
	{"sending SIG", evidence.HostMemory, "earlyoom", 0, pattern.Of(`sending SIG(TERM|KILL) to process .*VmRSS`), "",
		"earlyoom[611]: sending SIGTERM to process 2231 uid 1000 \"python\": badness 1102, VmRSS 27041 MiB"},
	{"node running low on memory|ray-oom-prevention|Memory on the node", evidence.HostMemory, evidence.ByRay, 0,
		pattern.Of(`due to the node running low on memory|ray-oom-prevention|Memory on the node .* memory used=`), "",
		"ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory."},
	{"all available RAM", evidence.HostMemory, "Colab", 0, pattern.Of(`crashed after using all available RAM`), "",
		"Your session crashed after using all available RAM."},
	{"more memory than is avail", evidence.HostMemory, "Kaggle", 0,
		pattern.Of(`tried to allocate more memory than is available`), "",
		"Your notebook tried to allocate more memory than is available. It has restarted."},
	{"ran out of memory|too much memory", evidence.HostMemory, "the notebook's service", 0,
		pattern.Of(`(?i)\b(?:notebook|kernel|session|runtime)\b.*(?:ran out of memory|used too much memory)`), "CUDA|GPU",
		"The kernel ran out of memory and restarted."},
	{"quires more system memory", evidence.HostMemory, "Ollama", Sized, nil, "",
		"Error: model requires more system memory (44.0 GiB) than is available (7.6 GiB)"},
	{"SIGKILL! Perhaps out", evidence.HostMemory, "gunicorn", 0, nil, "",
		"[ERROR] Worker (pid:21) was sent SIGKILL! Perhaps out of memory?"},
	{"shared memory. Please|shared memory (shm)|unable to open shared memory", evidence.HostMemory, evidence.BySharedMemory, 0,
		pattern.Of(`ut of shared memory\. Please try to raise|insufficient shared memory \(shm\)|` +
			`unable to open shared memory object.*Cannot allocate memory \(12\)`), "",
		"ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm)."},
	{"OUT_OF_ME", evidence.HostMemory, evidence.BySlurm, 0, pattern.Of(`^\s*(?:State: |.*\bJobState=)OUT_OF_MEMORY\b|` +
		`^\s*\d+(?:[._+]\S*)?[\s|].*[\s|]OUT_OF_ME(?:\+|MORY)[\s|](?:.*[\s|])?0:125\b|(?:^|\s)OUT_OF_ME\+(?:\s|$)`),
		// partitions are called GPU, too
		"on GPU|CUDA|HIP|device|error", "771201         pretrain        gpu OUT_OF_ME+    0:125"},
	{"srun: error: ", evidence.HostMemory, evidence.BySlurm, 0, pattern.Of(`: Out Of Memory\s*$`), "",
		"srun: error: gpu14: task 0: Out Of Memory"},
	{"TERM_MEMLIMIT", evidence.HostMemory, evidence.ByLSF, 0, pattern.Of(`TERM_MEMLIMIT: job killed`), "",
		"TERM_MEMLIMIT: job killed after reaching LSF memory usage limit."},
	{"kb exceeded", evidence.HostMemory, evidence.ByPBS, 0, pattern.Of(`PBS: job killed: .*kb exceeded limit `), "",
		"=>> PBS: job killed: mem 67108864kb exceeded limit 62914560kb"},
	{"[WinError 1455]", evidence.HostMemory, evidence.ByPagingFile, 0, nil, "",
		"OSError: [WinError 1455] The paging file is too small for this operation to complete."},
	// whoever says so: what became of the program stands beside the memory
	{"OOM killer|oom-kill'|OOM Kill|OOM kill|of-memory handler|container oom ", evidence.HostMemory, evidence.ByKernel, 0,
		pattern.Of(`(?i)killed by the (?:\S+ )?(?:OOM|out-of-memory) (?:killer|handler)|result 'oom-kill'|\bOOM[ -]killed\b|` +
			`container oom \w`),
		"", "trainer.service: A process of this unit has been killed by the OOM killer."},
	{"emory limit|emory usage|emory budget|emory pressure", evidence.HostMemory, evidence.ByLimit, 0,
		pattern.Of(`(?i)(?:exceed(?:ed|s)|gone over) (?:\S+ )?memory (?:usage )?(?:limit|budget)(?:[^:=\w]|$)|` +
			`memory usage exceeded request_memory|\b(?:killed|evicted|terminated)\b.{0,30}\bmemory (?:usage|limit|pressure)\b|` +
			`memory limit.{0,30} exceeded\b.*\bkilled\b`), "GPU|CUDA|VRAM|cache|device",
		"slurmstepd: error: Job 8812 exceeded memory limit (65012 > 64000), being killed"},
	{"low on resource", evidence.HostMemory, evidence.ByKubernetes, 0, pattern.Of(`low on resource: memory`), "",
		"Evicted: The node was low on resource: memory."},
	// RAPIDS' memory manager says so of a GPU's memory
	{"d::bad_alloc", evidence.HostMemory, evidence.ByAllocation, 0,
		pattern.Of(`(what\(\):|rror: |throwing an instance of ').*std::bad_alloc`), "CUDA",
		"terminate called after throwing an instance of 'std::bad_alloc'"},
	// bare; who has more to say stands above
	{"MemoryError", evidence.HostMemory, evidence.ByPython, 0, pattern.Of(`^(.*\]: |\s*)MemoryError\s*$`), "", "MemoryError"},
	{"MemoryError: Unable", evidence.HostMemory, "NumPy", Sized, nil, "",
		"numpy.core._exceptions._ArrayMemoryError: Unable to allocate 37.5 GiB for an array with shape (100663296, 50)"},
	{"Cannot allocate memory", evidence.HostMemory, evidence.BySystem, 0, pattern.Of(`Errno 12\] Cannot allocate memory`), "",
		"OSError: [Errno 12] Cannot allocate memory"},
	{"Cannot allocate memory (12)", evidence.HostMemory, evidence.BySystem, Sized, nil, "",
		"RuntimeError: unable to mmap 1073741824 bytes from file </dev/shm/torch_12>: Cannot allocate memory (12)"},
	{"$ Torch: not enough memory", evidence.HostMemory, "Torch7", Sized, nil, "",
		"$ Torch: not enough memory: you tried to allocate 2GB. Buy new RAM! at /torch/pkg/torch/lib/TH/THGeneral.c:270"},
	{"SIGKILL|ignal 9|ignal: 9|ignal: Kill", evidence.Killed, evidence.BySignal, 0,
		pattern.Of(`(?i)(?:terminated|exit(?:ed|s)?|` +
			`killed|died|received|ended)\b.{0,60}(?:SIGKILL|signal:? \(?(?:9\b|Killed))|SIGKILL\(-9\)|` +
			`Signal 9 \(SIGKILL\) received`), "",
		"RuntimeError: DataLoader worker (pid 4122) is killed by signal: Killed."},
	{"zsh: killed", evidence.Killed, evidence.BySignal, 0, nil, "", "zsh: killed     python train.py"},
	{"exited unexpectedly", evidence.Killed, evidence.ByWorker, 0, pattern.Of(`DataLoader worker \(pid`), "",
		"RuntimeError: DataLoader worker (pid(s) 4122) exited unexpectedly"},
	{"terminated abruptly|unexpectedly terminated|abruptly died", evidence.Killed, evidence.ByPool, 0,
		pattern.Of(`[Pp]rocess.* (?:terminated abruptly|unexpectedly terminated|has abruptly died)`), "",
		"BrokenProcessPool: A process in the process pool was terminated abruptly while the future was running or pending."},
	{"died|crashed", evidence.Killed, evidence.ByNotebook, 0,
		pattern.Of(`(?:The|Your) (?:[Kk]ernel|session|runtime)\b.{0,40}\b(?:ha[sv]e? died|crashed)\b|^Kernel died`), "",
		"The kernel appears to have died. It will restart automatically."},
	{containerWords, evidence.Killed, evidence.BySignal, 0,
		pattern.Of(`\bExited \((\d+)\) .{1,40}\bago\b|\bago +Up [\dAL]`), "",
		"4f3a  vllm:latest  2 hours ago  Exited (137) 4 minutes ago  vllm"},
	{exitWords, evidence.Killed, evidence.BySignal, 0,
		pattern.Of(`(?i)\b(?:exit|exited|exits|terminated|returned) ?(?:with)?[ _]?` +
			`(?:return|exit)?[ _]?(?:code|status)[ "]*[:=]? *(-?\d+)\b|exitcode *[:=] *(-?\d+)\b|` +
			`\*\*\* \[.*\] (?:Error (\d+)|Killed)$`), "",
		"exited with code 137"},
	{killedWords, evidence.Killed, evidence.BySignal, 0, killedForm, "", "run.sh: line 3: 12345 Killed   python train.py"},
	{"CANCELLED AT", evidence.Stopped, evidence.BySlurm, 0, pattern.Of(`\*\*\* (?:JOB|STEP) \S+ .*CANCELLED AT .*\*\*\*`), "",
		"slurmstepd: error: *** JOB 88121 ON gpu07 CANCELLED AT 2025-03-02T04:00:31 DUE TO TIME LIMIT ***"},
	{"TERM_RUNLIMIT|alltime|step aborted|hutdown signal|SIGTERM|SIGINT|ignal 15|ignal: 15|death signal|Terminated|^C|" +
		"disconnected", evidence.Stopped, "", 0, pattern.Of(`TERM_RUNLIMIT.*|(?i:wall ?time.*exceeded|exceeded.*wall ?time).*|` +
		`Job step aborted.*|(?:Your )?[Rr]untime (?:has been )?disconnected.*|` +
		`(?:[Rr]eceived|[Gg]ot|[Cc]aught) (?:an? )?(?:shutdown signal|(?:signal:? )?(?:SIGTERM|SIGINT|15\b)).*|` +
		`^Terminated$|: +\d+ Terminated .*|^\^C`), "", "=>> PBS: job killed: walltime 3610 exceeded limit 3600"},
	{"egmentation fault|(core dumped)|free(): |alloc(): |atal Python|us error|free or corruption", evidence.Failed, "", 0,
		pattern.Of(`(?:^|\d +|: |! )[Ss]egmentation fault\b.*|.*\(core dumped\).*|^(?:free|malloc|realloc)\(\): .*|` +
			`^double free or corruption.*|^Fatal Python error: .*|` +
			`^Bus error.*`), "", "run.sh: line 9: 4511 Segmentation fault      (core dumped) python fit.py"},
	{"CUDA error: ", evidence.Failed, "CUDA", 0, pattern.Of(`CUDA error: (?:an illegal|device-side|unspecified|misaligned|` +
		`invalid|unknown|the launch|uncorrectable|no kernel).*`), "",
		"[ERROR] trainer - CUDA error: an illegal memory access was encountered"},
	{"WorkNCCL(|DistBackendError", evidence.Failed, "NCCL", 0, pattern.Of(`(?:Watchdog caught c|C)ollective ` +
		`operation timeout.*|terminate called after throwing an instance of 'c10::DistBackendError'`), "", "[Rank 2] Watchdog " +
		"caught collective operation timeout: WorkNCCL(SeqNum=18, OpType=ALLREDUCE) ran for 600011 milliseconds"},
	{"memory leak detected", evidence.Failed, "sglang", 0, pattern.Of(`pool.*memory leak detected`), "",
		"ValueError: token_to_kv_pool_allocator memory leak detected! available_size=9000"},
	{"train_runtime", evidence.EndedWell, "", 0, pattern.Of(`'train_runtime'|"train_runtime"|train_runtime +=`), "",
		"{'train_runtime': 12.5, 'train_loss': 2.1, 'epoch': 1.0}"},
	{"raining ", evidence.EndedWell, "", 0, pattern.Of(`^[^"'{]*\b[Tt]raining (?:completed?|finished|(?:is )?done)\b`), "",
		"[after training is done] datetime: 2026-11-28 03:41:12"},
	{"fit` stopped: ", evidence.EndedWell, "Lightning", 0, pattern.Of("`Trainer\\.fit` stopped: `max_\\w+=.*` reached"), "",
		"`Trainer.fit` stopped: `max_epochs=4` reached."},
	{" passed in ", evidence.EndedWell, "pytest", 0, pattern.Of(`^=+ (?:\d+ (?:passed|skipped|deselected|xfailed|xpassed|` +
		`warnings?),? ?)+ ?in .*=+$`), "", "===== 6 passed in 3.21s ====="},
}
