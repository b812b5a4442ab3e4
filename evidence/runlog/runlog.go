// Package runlog reads what a training run prints: CUDA and HIP out-of-memory
// messages with the user's line from the traceback, torch.cuda.memory_summary()
// tables, and the step lines of the common trainers and of plain prints.
//
//	var p runlog.Parser
//	for i, line := range lines {
//		p.Line(i+1, line)
//	}
//	log := p.Finish()
//	fmt.Println(log.Steps.Count, len(log.OOMs))
//
// Lines that are none of these are skipped. No regular expression runs on
// them: a few byte searches decide whether a line is looked at more closely.
package runlog

import (
	"bytes"
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/ending"
	"github.com/vramscope/vramscope/evidence/traceback"
	"github.com/vramscope/vramscope/evidence/tracker"
)

// unknown stands for a number of bytes that was not printed.
const unknown int64 = -1

// Report is what one log holds.
type Report struct {
	OOMs      []evidence.OOMMessage
	Summaries []evidence.MemorySummary
	evidence.Log
	// Known counts lines of known forms that are neither of the above:
	// memory prints, evaluations, what an inference engine says at start.
	Known    int
	Settings *evidence.Parameters // nil: no line told any
	alone    int                  // lines that tell of an end by themselves
}

// IsTrainingLog reports whether anything but OOM messages and summaries was found.
func (r *Report) IsTrainingLog() bool {
	return r.Steps.Count > 0 || r.Known > 0 || r.alone > 0 && len(r.OOMs) == 0
}

// maxEntries bounds the messages and the summaries that are kept.
const maxEntries = 100_000

// Parser takes the lines of one log in order. The zero value is ready.
type Parser struct {
	// OnStep, when set, is told every step line as it is read.
	OnStep func(evidence.Step)

	report  Report
	traces  traceback.Traces
	oom     oomState
	records records
	end     ending.Reader
	told    int    // steps so far, by lines and by the training's bar
	cutHost []byte // the beginning of a message of the host's allocator that goes on
	// cutHostLine is its line, 0: there is none.
	cutHostLine int
	summary     summaryState
	stats       statsState
	steps       stepState
	// survival is of the messages so far.
	survival     survival
	labels       labels
	plain        []byte         // the line without colours
	coloured     bool           // some line had colours
	kernelFailed bool           // some line tells of a kernel that failed
	spoken       int            // lines that spoke of a failure in words of their own
	await        int            // 1 + the message whose traceback may come below it, 0: none
	awaitKey     []byte         // who wrote it
	awaited      evidence.Scene // what was known of it without the traceback
	awaitLine    int            // its line, then that of the last frame
	// innermostFirst: frames come in VS Code's order
	innermostFirst bool
	before         []byte // the line of text before, as far as it was looked at
	beforeNumber   int    // and its number
	async          int    // number of the line in which a message of cudaMallocAsync began, 0: none
	inString       bool   // the line is one of a string's
	settings       *tracker.Settings
	hostLimit      int64 // bytes of the host's memory that the job may hold, 0: not said
	limitsAt       int   // number of the line below which kubectl lists a container's limits, 0: none does
}

// Line takes one line without its line feed; parts of a line that overwrite
// each other (carriage returns of a progress bar) are given one by one with
// the same number. The slice is not kept.
// The line is undressed in the order in which launchers, containers and terminals dress it.
func (p *Parser) Line(number int, line []byte) {
	if len(line) == 0 {
		p.oom.blank(p)
		return
	}
	if line[0] == '{' && p.kept(number, line) {
		return
	}
	if bytes.IndexByte(line, 0x1b) >= 0 {
		p.coloured = true
		p.plain = StripColours(p.plain[:0], line)
		line = p.plain
		if len(line) == 0 {
			return
		}
	}
	if p.oom.open && p.oom.wrapped(p, line) {
		return
	}
	if p.oom.cut > 0 {
		number, line = p.oom.mend(number, line)
	}
	has := featuresOf(line)
	if has&(hasOOM|hasTrace) != 0 && !p.inString && isEscaped(line) {
		p.escaped(number, line)
		return
	}
	if !p.offer(messages, number, line, has|p.goingOn(number, line)) {
		p.figures(number, line, has)
	}
	p.steps.lines++
	p.before, p.beforeNumber = append(p.before[:0], line[:min(len(line), maxBefore)]...), number
}

// figures offers a line that is no message to the forms of figures.
func (p *Parser) figures(number int, line []byte, has features) {
	p.labels.note(line, has&hasMetric != 0)
	p.steps.whole = line
	if line = p.labels.strip(line); len(line) == 0 {
		return
	}
	if p.summary.open {
		has |= inSummary
	}
	if p.steps.columns {
		has |= inColumns
	}
	if has&hasMetric == 0 && counted(line) {
		has |= isCounted
	}
	p.offer(counts, number, line, has)
}

// maxBefore is how much of the line before a message is looked at.
const maxBefore = 256

// Finish ends the log. The parser must not be used afterwards.
func (p *Parser) Finish() *Report {
	p.oom.finish(p)
	p.summary.finish(p)
	p.stats.finish(p)
	p.survival.settle(p)
	if p.settings != nil {
		p.report.Settings = p.settings.Told()
	}
	p.steps.whole = nil
	p.report.Workers = p.steps.workers.finish()
	p.report.Steps = p.steps.finish()
	p.report.Ending = p.end.Ended(p.told)
	listed := p.end.Listed(p.told)
	p.ended(&listed, nil)
	p.report.HostFailures = slices.DeleteFunc(p.report.HostFailures, func(f evidence.HostFailure) bool {
		wentOn := f.Steps < p.told // then it was a word of others
		return wentOn && (f.By == evidence.ByLimit || f.Silent() && f.By != evidence.ByWorker)
	})
	for i := range p.report.HostFailures {
		p.report.HostFailures[i].LimitBytes = p.hostLimit
	}
	p.report.dropUnsure()
	return &p.report
}

// dropUnsure leaves failures that may be of memory to a log without any that is.
func (r *Report) dropUnsure() {
	unsure := func(m evidence.OOMMessage) bool { return m.Unsure }
	// TensorFlow asks for less when it is refused: that was the end only where a library says that it lacked memory, too.
	beside := slices.ContainsFunc(r.OOMs, func(m evidence.OOMMessage) bool { return m.By != "TensorFlow" && !m.Unclear })
	last := evidence.Or(r.Steps.Last, -1)
	r.OOMs = slices.DeleteFunc(r.OOMs, func(m evidence.OOMMessage) bool {
		return m.By == "NvMap" && (r.Ending.How == evidence.EndedWell || m.AfterStep < last) // it asks elsewhere then
	})
	for i := range r.OOMs {
		r.OOMs[i].Unsure = r.OOMs[i].Unsure && (r.OOMs[i].By != "TensorFlow" || !beside)
	}
	if sure := slices.DeleteFunc(slices.Clone(r.OOMs), unsure); len(sure) > 0 {
		r.OOMs = sure
	}
	known := func(m evidence.OOMMessage) bool { return !m.Unclear }
	counted := func(of int64) func(evidence.MemorySummary) bool {
		return func(s evidence.MemorySummary) bool { return min(evidence.Or(s.OOMs, -1), 1) == of }
	}
	none := slices.ContainsFunc(r.Summaries, counted(0)) && !slices.ContainsFunc(r.Summaries, counted(1))
	if len(r.HostFailures) > 0 || none || slices.ContainsFunc(r.OOMs, known) {
		r.OOMs = slices.DeleteFunc(r.OOMs, func(m evidence.OOMMessage) bool { return m.Unclear })
	}
}

// StripColours appends a line to dst without ANSI escape sequences.
func StripColours(dst, line []byte) []byte {
	for {
		i := bytes.IndexByte(line, 0x1b)
		if i < 0 {
			return append(dst, line...)
		}
		dst = append(dst, line[:i]...)
		line = line[i+1:]
		if len(line) == 0 {
			return dst
		}
		if line[0] != '[' {
			n := 1
			if line[0] == '(' { // the character set that a terminal's sgr0 chooses: ESC ( B
				n = min(2, len(line))
			}
			line = line[n:]
			continue
		}
		end := 1
		for end < len(line) && (line[end] < '@' || line[end] > '~') {
			end++
		}
		line = line[min(end+1, len(line)):]
	}
}
