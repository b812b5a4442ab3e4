package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence/serving"
	"github.com/vramscope/vramscope/internal/pattern"
)

// Form is something that logs hold, and how its lines are told from others.
type Form struct {
	Name    string
	Example string // some lines of it

	has  features                                                    // a line that is looked at has one of these
	take func(p *Parser, number int, line []byte, has features) bool // true: nothing else is in the line
}

// Forms are all of them, in the order in which a line is offered.
func Forms() []Form { return append(messages[:len(messages):len(messages)], counts...) }

const (
	exampleOOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 23.65 " +
		"GiB of which 1.12 GiB is free."
	exampleTrace = "Traceback (most recent call last):\n  File \"/home/u/train.py\", line 12, in step\n    y = model(x)\n"
)

// messages are looked for in lines as they stand, with a launcher's label.
var messages = []Form{
	{"a message cut in its words", "RuntimeError: CUDA out of m\nemory. Tried to allocate 1.50 GiB (GPU 0; 7.76 GiB total " +
		"capacity; 4.42 GiB already allocated; 1.12 GiB free; 5.49 GiB reserved in total by PyTorch)", hasCut,
		func(p *Parser, n int, line []byte, _ features) bool { return p.oom.cutShort(n, line) }},
	{"a test's result", "tests/test_oom.py::test_raises[CUDA out of memory. Tried to allocate 2.00 GiB] PASSED\nstep 1 loss 2.5",
		hasTest, (*Parser).testLine},
	{"torchrun's list of failures", "Root Cause (first observed failure):\n[0]:\n  rank      : 4 (local_rank: 4)\n" + exampleOOM,
		hasRecord | inRecord, func(p *Parser, n int, line []byte, _ features) bool { return p.records.line(p, n, line) }},
	{"an inference server", "python -m sglang.launch_server --model x\n" + exampleOOM, hasServer,
		(*Parser).serverLine},
	{"an end", "slurmstepd: error: Detected 1 oom_kill event in StepId=12345.batch.", hasEnd | inHost,
		(*Parser).endLine},
	{"a limit of the host's memory", "slurmstepd: error: Detected 1 oom_kill event in StepId=1.0.\n" +
		"Memory Efficiency: 99.94% of 32.00 GB", hasLimit, (*Parser).limitLine},
	{"an out-of-memory message", exampleOOM, hasOOM | hasAlloc,
		func(p *Parser, n int, line []byte, _ features) bool { return p.oom.start(p, n, line) }},
	{"a failure beside PyTorch's allocator", "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling " +
		"`cublasCreate(handle)`",
		hasOOM | hasOther, (*Parser).otherFailure},
	{"figures of cudaMallocAsync", "Allocation on device 0 would exceed allowed memory. (out of memory)\nCurrently allocated   " +
		"  : 22.50 GiB\nRequested               : 1.50 GiB", inAsync, (*Parser).asyncFigures},
	{"a failure in words of its own", "step 3 ran OOM and the run ended", hasOOM | hasSpoken, (*Parser).spokenLine},
	{"a traceback", exampleTrace + exampleOOM, hasTrace | inTrace, (*Parser).traceLine},
	{"a GPU that was full", "[WARNING] 2 pytorch allocator cache flushes since last step. this happens when there is high " +
		"memory pressure\nstep 1 loss 2.5", hasPressure, (*Parser).pressureLine},
	{"a unit", "print(torch.cuda.max_memory_allocated() / 1024 ** 3)\nstep 1 loss 2.5 mem 2.50GB", hasUnit, (*Parser).unitLine},
	{"the Trainer's beginning", "***** Running training *****\nstep 1 loss 2.5", hasRunning, (*Parser).beginning},
}

// counts are looked for behind the label.
var counts = []Form{
	{"settings", "  micro_batch_size ................................ 2\nstep 1 loss 2.5", hasSetting, (*Parser).settingLine},
	{"an engine's account", "INFO [gpu_worker.py:298] Available KV cache memory: 5.00 GiB", hasEngine, (*Parser).account},
	{"a phase's reading", serving.PhaseExamples[1], hasMoment, (*Parser).phaseLine},
	{"memory_stats()", "'allocated_bytes.all.current': 5, 'allocated_bytes.all.peak': 9, 'reserved_bytes.all.current': 12, " +
		"'reserved_bytes.all.peak': 12", hasStats,
		func(p *Parser, n int, line []byte, _ features) bool { return p.stats.line(p, n, line) }},
	{"memory_summary()", "|       PyTorch CUDA memory summary, device ID 0       |\n| Allocated memory      |   15281 MiB |   " +
		"15656 MiB    |\n| GPU reserved memory   |   15800 MiB |   15800 MiB    |", hasTable | inSummary,
		func(p *Parser, n int, line []byte, _ features) bool { return p.summary.line(p, n, line) }},
	{"rows below GPU_mem", "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\n       1/3        " +
		"2.5G      1.234      2.345      1.111         32        640: 100%|███| 50/50 [00:20<00:00,  2.50it/s]",
		inColumns, func(p *Parser, n int, line []byte, _ features) bool { return p.steps.rowOf(p, n, line) }},
	{"the head of such rows", "      Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size\nstep 1 loss 2.5",
		hasMetric, (*Parser).columnsHead},
	{"a step", "step 1 loss 2.5", hasMetric | isCounted, (*Parser).stepLine},
}

// offer hands a line to forms until one takes it whole.
func (p *Parser) offer(forms []Form, number int, line []byte, has features) bool {
	for i := range forms {
		if has&forms[i].has != 0 && forms[i].take(p, number, line, has) {
			return true
		}
	}
	return false
}

// goingOn are what has begun and may go on in a line that has no word of it.
func (p *Parser) goingOn(number int, line []byte) (in features) {
	if p.records.open && (line[0] == '-' || line[0] == '=') {
		in |= inRecord
	}
	if p.cutHostLine > 0 && number-p.cutHostLine < cutHostLines {
		in |= inHost
	}
	if p.async > 0 {
		in |= inAsync
	}
	if p.traces.Open {
		in |= inTrace
	}
	return in
}

// passed is how a test's line tells that what its name speaks of didn't happen to anybody.
var passed = pattern.Of(`(^|\s)(PASSED|SKIPPED|XFAIL|XPASS)(\s|$)|\.\.\. (ok|skipped\b.*|expected failure)\s*$`)

// told is a row of a document's table about messages: the words stand in backticks, and without figures.
var told = pattern.Of("^\\s*\\|\\s*(?:[^|]*\\|)?\\s*`[^`|0-9]*`[^|]*\\|.*\\|\\s*$")

func (p *Parser) testLine(_ int, line []byte, _ features) bool {
	return passed().Match(line) || told().Match(line)
}

func (p *Parser) traceLine(number int, line []byte, has features) bool {
	p.raised(number, line)
	isFrame := p.traces.Line(line, has&hasTrace != 0)
	p.late(number, line, isFrame)
	return false
}

func (p *Parser) pressureLine(number int, line []byte, _ features) bool {
	before := p.report.Pressure.Flushes
	if readPressure(&p.report.Pressure, number, line); p.report.Pressure.Flushes > before {
		p.report.Known++
	}
	return false
}

// unitLine is of a program whose GB are divided by 1024³.
func (p *Parser) unitLine(int, []byte, features) bool {
	p.steps.binary = true
	return false
}

func (p *Parser) beginning(_ int, line []byte, _ features) bool {
	p.steps.begin()
	p.steps.progress.evaluating = !bytes.Contains(line, []byte("* Running training *"))
	return false
}

// account takes such a line whole: its sizes are parts, none of them what is held.
func (p *Parser) account(_ int, line []byte, _ features) bool {
	if !serving.Account(&p.report.Engine, line) {
		return false
	}
	p.report.Known++
	return true
}

// maxPhases bounds the readings that are kept.
const maxPhases = 4096

func (p *Parser) phaseLine(number int, line []byte, has features) bool {
	if has&hasMetric == 0 { // no size in it
		return false
	}
	r, ok := serving.Phase(line)
	if !ok {
		return false
	}
	p.report.Known++
	if r.Line = number; len(p.report.Phases) < maxPhases {
		p.report.Phases = append(p.report.Phases, r)
	}
	return true
}

func (p *Parser) columnsHead(_ int, line []byte, _ features) bool {
	if !headOfRows().Match(line) {
		return false
	}
	p.steps.begin()
	p.steps.columns = true
	return true
}

func (p *Parser) stepLine(number int, line []byte, has features) bool {
	if p.steps.line(p, number, line, has&hasBar != 0) && has&allWords&^(hasMetric|hasTable|hasAlloc|hasMoment) == 0 {
		p.steps.templates.remember(line, p.steps.pairs)
	}
	return true
}
