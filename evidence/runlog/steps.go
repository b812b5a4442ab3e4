package runlog

import (
	"bytes"
	"hash/maphash"
	"math"
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/pattern"
	"github.com/vramscope/vramscope/internal/units"
)

type stepState struct {
	ready     bool
	pairs     []pair
	words     dictionary
	main      tally // step lines
	progress  progress
	epoch     int64 // of the last line that names only an epoch
	allocated int64
	reserved  int64
	named     bool   // the log calls the largest allocated figure that
	printed   string // it, as printed, where it isn't sure in which unit
	binary    bool   // the log shows that it divides by 1024³ for its GB
	last      uint64 // hash of the last unnumbered step line
	seed      maphash.Seed
	stamp     int  // where in the last line its time stood
	unstamped bool // this line is known to have none
	guess     rowGuess
	lines     int // of the log, so far
	templates templates
	columns   bool // the head of a table with GPU_mem has come
	workers   workers
	whole     []byte // the line with what stands before it
}

// line reads a step line or a progress bar.
func (s *stepState) line(p *Parser, number int, line []byte, bar bool) bool {
	s.begin()
	if bar {
		rest := s.readBars(p, number, line)
		if rest == nil {
			return true
		}
		line = rest
	}
	s.pairs = s.words.scan(s.pairs, line)
	if len(s.pairs) == 0 || isCommand(line) {
		return false
	}
	return s.judge(p, number, line, new(readFacts(s.pairs, line, s.binary)))
}

func (s *stepState) begin() {
	if !s.ready {
		*s = stepState{ready: true, binary: s.binary, lines: s.lines, whole: s.whole, epoch: -1,
			allocated: unknown, reserved: unknown, seed: maphash.MakeSeed()}
		s.main.init()
	}
}

// counted tells lines that begin with a number of their own, or with a word and a number:
// "12: …", "[12] …", "12 2.31 …", "episode 12 …", and dictionaries.
func counted(line []byte) bool {
	c := line[0]
	i := 0
	switch {
	case c == '{':
		return true
	case c == '[':
		i = 1
	case c|0x20 >= 'a' && c|0x20 <= 'z':
		return wordCounted(line)
	case !units.IsDigit(c):
		return false
	}
	start := i
	for i < len(line) && i < start+12 && units.IsDigit(line[i]) {
		i++
	}
	if i == start || i == len(line) {
		return false
	}
	if c == '[' {
		return line[i] == ']'
	}
	return line[i] == ':' || line[i] == ' ' || line[i] == '\t'
}

// wordCounted tells "episode 12".
func wordCounted(line []byte) bool {
	i := 0
	for i < len(line) && i < 24 && (line[i]|0x20 >= 'a' && line[i]|0x20 <= 'z' || line[i] == '_') {
		i++
	}
	rest := bytes.TrimLeft(line[i:], " :=#")
	return len(rest) > 0 && len(rest) < len(line)-i && units.IsDigit(rest[0])
}

// isStep reports whether a line is of a step, and sets which where no name says so.
func (s *stepState) isStep(line []byte, f *facts) bool {
	first := &s.pairs[0]
	switch {
	case f.step >= 0:
		return f.hasMetric() || f.rate && f.step > 0 || finished(line)
	case f.lead >= 0 && first.after != ' ' && !gpustatLine(line) && (f.hasLoss || f.hasMemory()):
		f.step = f.lead
	case f.hasLoss && first.of && first.bare && first.whole && s.epoch >= 0: // Keras' bar
		f.step = int64(first.value)
	default:
		return false
	}
	return true
}

// judge takes a line in as what it is; the most telling kind is tried first.
func (s *stepState) judge(p *Parser, number int, line []byte, f *facts) bool {
	if s.main.count == 0 { // else something surer counts the steps
		s.guess.see(number, line, f, s.pairs)
	}
	isStep := s.isStep(line, f)
	dict := f.step < 0 && f.hasLoss && isDict(line)
	switch {
	case f.summary:
		p.report.Known++
	case f.evaluation:
		if !evaluationLine(line) {
			return false
		}
		p.report.Known++
		s.progress.result(true)
	case isStep:
		s.keepMemory(f)
		s.count(p, number, line, f)
		return true
	case dict:
		s.keepMemory(f)
		s.progress.result(false)
		if h := maphash.Bytes(s.seed, line); h != s.last { // a second logger repeats the line
			s.last = h
			s.count(p, number, line, f)
		}
		return true
	case f.allSteps > 0:
		s.progress.total = f.allSteps
		return false
	case f.epoch >= 0 && f.step < 0 && !f.hasMetric():
		s.epoch = f.epoch
		return false
	case s.tells(line, f):
		p.report.Known++
	default:
		return false
	}
	s.keepMemory(f)
	return true
}

// tells reports whether a line that is of no step tells of memory, or of a loss.
func (s *stepState) tells(line []byte, f *facts) bool {
	return f.hasMemory() && !gpustatLine(line) && s.memoryLine(line) || f.hasLoss && f.epoch >= 0 || knownLine(line)
}

// gpustatLine tells gpustat's line of a GPU, whose number in brackets is no step:
// "[0] NVIDIA A100 | 41'C,  97 % | 70000 / 81920 MB | me(69996M)".
func gpustatLine(line []byte) bool {
	i := bytes.Index(line, []byte(" MB"))
	return i > 0 && line[0] == '[' && bytes.Contains(line[:i], []byte(" | ")) && bytes.Contains(line[:i], []byte(" / "))
}

// memoryLine tells a print of the GPU's memory outside of a step line from
// any other mention of a size.
func (s *stepState) memoryLine(line []byte) bool {
	if len(line) > maxProse || isProse(line) {
		return false
	}
	for i := range s.pairs {
		q := &s.pairs[i]
		if q.memory() && (q.Plain && (q.unit.isSize() || q.Factor > 0 && q.named(line)) || q.inBillions() || q.inGB(line)) {
			return true
		}
		if follows := bytes.TrimLeft(line[min(q.end, len(line)):], " "); q.unit.isSize() &&
			(bytes.HasPrefix(follows, []byte("allocated")) || bytes.HasPrefix(follows, []byte("reserved"))) {
			return true
		}
	}
	return bytes.Contains(line, []byte("memory (MB)"))
}

// small are words of sentences; a print has few of them.
var small = [...]string{" the ", " a ", " an ", " and ", " but ", " was ", " were ", " that ", " which ", " with ", " to ",
	" it ", " this ", " so ", " because ", " you ", " we ", " I "}

// isProse tells a sentence about memory from a print of it.
func isProse(line []byte) bool {
	n := 0
	for _, word := range small {
		n += bytes.Count(line, []byte(word))
	}
	return n >= 3
}

// maxProse is the longest line that is taken for a print rather than for a
// program's settings or prose.
const maxProse = 400

// evaluationLine tells the result of an evaluation from a setting.
func evaluationLine(line []byte) bool {
	if len(line) > maxProse {
		return false
	}
	return phrase(line).hasOf(results) && bytes.IndexByte(line, '.') > 0 // a result has a fraction
}

func (s *stepState) keepMemory(f *facts) {
	s.workers.note(s.whole, f)
	if f.allocated > s.allocated {
		s.allocated, s.named, s.printed = f.allocated, f.named, string(f.printed)
	} else if s.allocated == unknown && f.reserved > s.reserved {
		s.printed = string(f.printed)
	}
	s.reserved = max(s.reserved, f.reserved)
}

// count adds a step, unless another rank or logger told of it before.
func (s *stepState) count(p *Parser, number int, line []byte, f *facts) {
	step := evidence.Step{Line: number, Number: f.step, Epoch: f.epoch, Loss: math.NaN(), Seconds: f.secondsPerStep,
		AllocatedBytes: f.allocated, ReservedBytes: f.reserved}
	if f.hasLoss {
		step.Loss = f.loss
	}
	if f.size >= 1<<30 {
		(*pressure)(&p.report.Pressure).keepCapacity(f.size)
	}
	if step.Epoch < 0 {
		step.Epoch = s.epoch
	}
	if b := s.progress.training(); b != nil && step.Number < 0 {
		step.Beside = b.number
	}
	if s.main.reported.n == 0 && f.secondsPerStep < 0 && !s.unstamped {
		step.At, s.stamp = timeStamp(line, s.stamp)
	}
	fresh := s.main.add(step, f.cumulativeSeconds)
	if fresh {
		p.told++
	}
	if fresh && p.OnStep != nil {
		p.OnStep(step)
	}
	p.survival.again = p.survival.again || !fresh && len(p.report.OOMs) == 0
	p.survival.step(p, step.Number, line, false, false)
}

// isDict tells the Trainer's {'loss': …} and JSON lines, after a logger's words
// if need be, which may have braces of their own: "{docker.py:1} INFO - ".
func isDict(line []byte) bool {
	start := line[:min(len(line), 200)]
	for i := 0; i+1 < len(start); i++ {
		if start[i] == '{' && (start[i+1] == '\'' || start[i+1] == '"') {
			return bytes.IndexByte(line[i:], ':') > 0
		}
	}
	return false
}

// isCommand tells the echo of a command, whose options are no step's numbers:
// "python train.py --steps 1000 --lr 1e-4".
func isCommand(line []byte) bool {
	return bytes.Contains(line, []byte(" --")) && twoOptions().Match(line)
}

var twoOptions = pattern.Of(` --[\w\x80-\x{10FFFF}].* --[\w\x80-\x{10FFFF}]`)

func finished(line []byte) bool { return phrase(line).hasOf(endings) }

// knownLine tells what frameworks say about memory without a step.
func knownLine(line []byte) bool {
	i := slices.IndexFunc(knownLines, func(w stopWord) bool { return bytes.Contains(line, []byte(w.word)) })
	return i >= 0 && (knownLines[i].word != "max_memory_allocated" || !bytes.Contains(line, []byte("(")))
}

func (s *stepState) finish() *evidence.Steps {
	if !s.ready {
		return &evidence.Steps{}
	}
	steps := s.main.steps()
	if s.guessed() {
		steps = s.guess.steps.steps()
		s.keepMemory(&s.guess.most)
	}
	if b := s.bar(); b != nil {
		curve := steps.Curve
		steps = b.steps.steps()
		steps.Interrupted = b.resumed
		if s.main.hasMemory {
			steps.Curve = numberBeside(curve)
		}
	}
	steps.Named, steps.OnlyReserved, steps.Printed = s.named, s.allocated == unknown, s.printed
	steps.MaxMemoryBytes = known(s.allocated)
	if s.reserved >= s.allocated { // else the most was never told: DeepSpeed says it only while it sets up
		steps.MaxReservedBytes = known(s.reserved)
	}
	if steps.OnlyReserved {
		steps.MaxMemoryBytes = steps.MaxReservedBytes
	}
	return steps
}

// numberBeside gives lines without a number that of the bar beside them, unless
// several came at once, as they do through a buffer.
func numberBeside(curve []evidence.Step) []evidence.Step {
	for i := range curve {
		if curve[i].Beside == 0 || i > 0 && curve[i].Beside == curve[i-1].Beside {
			return curve
		}
	}
	for i := range curve {
		curve[i].Number = curve[i].Beside
	}
	return curve
}

// bar is what counts the steps where most lines about them have no number: the
// training's progress bar, nil where there is none or no need of one.
func (s *stepState) bar() *bar {
	if 2*s.main.numbered >= s.main.count && s.main.count > 0 {
		return nil
	}
	return s.progress.training()
}

// guessed reports whether nothing counts the steps but what may be rows of a series.
func (s *stepState) guessed() bool {
	return s.main.count == 0 && s.guess.fits(s.lines) && s.bar() == nil
}

// latest is the number of the last step reported so far, -1 without one.
func (s *stepState) latest() int64 {
	if !s.ready {
		return -1
	}
	if b := s.bar(); b != nil && b.number > 0 {
		return b.number
	}
	if s.guessed() {
		return s.guess.steps.previous.Number
	}
	return s.main.previous.Number
}
