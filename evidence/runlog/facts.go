package runlog

import (
	"bytes"
	"math"

	"github.com/vramscope/vramscope/evidence/figures"
)

// facts is what the numbers of one line mean.
type facts struct {
	step, epoch         int64 // -1: not said
	allSteps            int64 // how many there are to be, 0: not said
	lead                int64 // number at the beginning of the line: "[3] …", "3: …", "3 …"
	loss                float64
	hasLoss             bool
	evaluation          bool // figures of a validation
	summary             bool // the totals at the end of training
	rate                bool // learning rate
	secondsPerStep      float64
	cumulativeSeconds   float64
	tokensPerSecond     float64
	allocated, reserved int64
	named               bool   // the line calls it allocated
	size                int64  // of the GPU
	printed             []byte // the largest figure as written, where it isn't sure which unit that is
}

func noFacts() facts {
	return facts{step: -1, epoch: -1, lead: -1, secondsPerStep: -1, cumulativeSeconds: -1, tokensPerSecond: -1,
		allocated: unknown, reserved: unknown, size: unknown}
}

func (f *facts) hasMetric() bool {
	return f.hasLoss || f.secondsPerStep > 0 || f.cumulativeSeconds > 0 || f.tokensPerSecond > 0 || f.hasMemory()
}

func (f *facts) hasMemory() bool { return f.allocated != unknown || f.reserved != unknown }

// readFacts sorts the pairs of a line by their words.
// binary: the log shows that it divides by 1024³.
func readFacts(list []pair, line []byte, binary bool) facts {
	f := noFacts()
	f.readLead(&list[0])
	inMB := -1 // Megatron's head "memory (MB) |" is for all that follows; looked for once needed
	for i := range list {
		p := &list[i]
		switch {
		case p.allSteps && p.whole:
			f.allSteps = int64(p.value)
		case p.position < maxStepPosition && f.readStep(p, i, list):
		case f.readLoss(p):
		case f.readTime(p):
		default:
			f.readSize(p, list[i+1:], line, &inMB, binary)
		}
	}
	return f
}

// readSize takes a figure of memory, by the words before it or by its unit alone.
func (f *facts) readSize(p *pair, rest []pair, line []byte, inMB *int, binary bool) {
	switch {
	case p.besideCache(line):
		if f.allocated > 0 {
			f.reserved = f.allocated + int64(p.value*p.unit.factor(true))
		}
	case p.tellsHeld():
		f.readHeld(p, rest, line, inMB, binary)
	case p.What == figures.OfDevice && p.unit.isSize() && (p.unit < kb || p.Binary || binary): // a guess may be too small
		f.size = max(f.size, int64(min(p.value*p.unit.factor(true), figures.MaxMemory)))
	case p.empty && p.unit.isSize() && !p.slash:
		f.keepMemory(p.value*p.unit.factor(binary), p.meaning, p.unless(binary || p.unit < kb, line))
	}
}

// tellsHeld reports whether a figure is of what a GPU holds, by its name and, where that asks for one, a unit.
func (p *pair) tellsHeld() bool {
	return p.memory() && (!p.Sized || p.unit.isSize() || p.Factor > 0 || p.inBillions())
}

// besideCache tells the second of axolotl's "18.302GB (+6.301GB cache".
func (p *pair) besideCache(line []byte) bool {
	return p.unit.isSize() && p.position > 0 && line[p.position-1] == '+' && bytes.HasPrefix(line[p.end:], []byte(" cache"))
}

// readHeld takes a figure of what is held; whether Megatron's head stands before it is looked for once.
func (f *facts) readHeld(p *pair, rest []pair, line []byte, inMB *int, binary bool) {
	if *inMB < 0 && p.unit == noUnit {
		*inMB = 0
		if bytes.Contains(line, []byte("memory (MB)")) {
			*inMB = 1
		}
	}
	unit, sure := p.sizeOf(rest, *inMB == 1, line)
	if !sure && binary {
		unit, sure = p.unit.factor(true), true
	}
	f.keepMemory(p.value*unit, p.meaning, p.unless(sure, line))
}

// maxStepPosition is how far into a line the number of its step may stand;
// behind it begins prose.
const maxStepPosition = 240

func (f *facts) readLead(p *pair) {
	if !p.counts() || p.of {
		return
	}
	switch {
	case p.bare && (p.after == ':' || p.after == ' ' || p.after == '\t'), p.opening && p.after == ']':
		f.lead = int64(p.value)
	}
}

// counts tells a number that may be a step's.
func (p *pair) counts() bool { return p.whole && p.unit == noUnit && p.value <= 1<<40 }

// readStep finds the number of the step, and of the epoch.
func (f *facts) readStep(p *pair, i int, list []pair) bool {
	switch {
	case !p.counts() || p.after == '.':
		return false
	case p.isEpoch(list[i+1:]):
		if f.epoch < 0 {
			f.epoch = int64(p.value)
		}
		return true
	}
	behind := p.isCount() && f.epoch >= 0 && i > 0 && (list[i-1].epoch || list[i-1].train) // "Epoch: [0][ 10/5005]"
	is := p.step && p.strong || (p.step || behind) && f.step < 0
	if is {
		f.step = int64(p.value)
	}
	return is
}

// isEpoch tells the number of one, also "Train: [3/100][ 10/5005]".
func (p *pair) isEpoch(rest []pair) bool {
	return p.epoch || p.train && (p.bracket && p.of || len(rest) > 0 && rest[0].isCount())
}

// isCount tells the [ 10/5005] behind an epoch.
func (p *pair) isCount() bool { return p.empty && p.of && p.bracket }

func (f *facts) readLoss(p *pair) bool {
	switch {
	case p.loss && p.eval, !p.loss && p.eval:
		f.evaluation = true
		return p.loss
	case p.loss:
		if !f.hasLoss {
			f.hasLoss, f.loss = true, p.value
		}
	case p.rate:
		f.rate = true
	case p.runtime:
		f.summary = true
	default:
		return false
	}
	return true
}

// first keeps a figure that no other came before, where it isn't out of all bounds.
func first(to *float64, v, bound float64) bool {
	is := *to < 0 && v > 0 && v < bound
	if is {
		*to = v
	}
	return is
}

// readTime finds the time of one step; cumulative times are kept apart.
func (f *facts) readTime(p *pair) bool {
	const longest, fastest = 1e6, 1e15 // seconds of a step, tokens of a second
	if p.tokens && first(&f.tokensPerSecond, p.value, fastest) ||
		p.unit == perItem && !p.eval && first(&f.secondsPerStep, p.value, longest) {
		return true
	}
	v := p.value
	switch {
	case !p.time && !p.meaning.total:
		return false
	case p.unit == milliseconds, p.unit == noUnit && p.milli:
		v *= 1e-3
	case p.unit != noUnit && p.unit != seconds:
		return false
	}
	if p.meaning.total {
		f.cumulativeSeconds = v
	} else {
		first(&f.secondsPerStep, v, longest)
	}
	return true
}

// named tells a figure that stands behind its name, not in a formula.
func (p *pair) named(line []byte) bool {
	before := bytes.TrimRight(line[:p.position], " ")
	return p.whole && len(before) > 0 && (before[len(before)-1] == ':' || before[len(before)-1] == '=')
}

// unless is the figure as written, nil where its unit is sure.
func (p *pair) unless(sure bool, line []byte) []byte {
	if sure || p.end > len(line) {
		return nil
	}
	return line[p.position:p.end]
}

// sizeOf is the unit of a memory figure, and whether it is sure: GB may be 1000³ or 1024³
// bytes. One without a unit borrows that of the next ("allocated 1290 reserved 3292 MiB");
// without any it stays unread (0), unless it can only be bytes.
func (p *pair) sizeOf(rest []pair, inMB bool, line []byte) (bytes float64, sure bool) {
	if p.unit != noUnit {
		binary := p.Binary || p.printed(line) > 0
		return p.unit.factor(binary), binary || p.unit < kb
	}
	if !inMB && p.Factor == 0 && len(rest) > 0 && rest[0].memory() && rest[0].unit.isSize() {
		return rest[0].sizeOf(nil, false, line)
	}
	return p.bytesEach(inMB, line), true
}

// bytesEach is the unit of a figure that none stands at.
func (p *pair) bytesEach(inMB bool, line []byte) float64 {
	switch {
	case inMB:
		return 1 << 20
	case p.Factor > 0:
		return p.Factor
	case p.inBillions(), p.inGB(line):
		return 1e9
	case p.whole && p.value >= 1<<24:
		return 1
	}
	return p.printed(line)
}

// printers are programs that leave the unit of a memory figure out, or whose MB and GB are MiB and GiB: known by the word
// before the figure and by what else is in its line.
var printers = []struct {
	word, beside, too string
	unit              float64 // of figures without one; 0: they have one
	most              int     // digits of their fraction
}{
	{"memory", "data_time", "", 1 << 20, 0},   // OpenMMLab
	{"mem", "max mem: ", "eta: ", 1 << 20, 0}, // torchvision's and DETR's MetricLogger
	{"mem", "\tloss_scale ", "", 0, 9},        // Swin's main.py, and what was made of it
	{"load", "GB cache", "", 0, 9},            // axolotl/utils/bench.py, as the next two
	{"training", "GB cache", "", 0, 9}, {"init", "GB cache", "", 0, 9},
	{"allocated", "Allocated: ", "", 0, 1},                              // round(torch.cuda.memory_allocated(0)/1024**3,1), 'GB'
	{"peak_memory_alloc", "tokens_per_second_per_gpu", "", 1 << 30, 99}, // torchtune/training/memory.py, as the next
	{"peak_memory_reserved", "tokens_per_second_per_gpu", "", 1 << 30, 99},
}

// printed is the unit by the program that printed a line, 0 where that isn't known, or says it.
func (p *pair) printed(line []byte) float64 {
	for i := range printers {
		r := &printers[i]
		if r.word == p.word && (r.unit > 0) == (p.unit == noUnit) && p.decimals <= r.most && (r.most > 0 || p.whole) &&
			bytes.Contains(line, []byte(r.beside)) && bytes.Contains(line, []byte(r.too)) {
			return max(r.unit, 1)
		}
	}
	return 0
}

// inGB tells gigabytes that a program's own print leaves the unit out of:
// "reserved memory is 16.5977 and allocated memory is 3.4781".
func (p *pair) inGB(line []byte) bool {
	return p.unit == noUnit && p.decimals >= 3 && p.value > 0 && p.value < 1<<9 && p.Plain && len(line) <= maxProse &&
		bytes.Contains(line, []byte("eserved memory")) && bytes.Contains(line, []byte("llocated memory"))
}

func (f *facts) keepMemory(value float64, m *meaning, printed []byte) {
	if value <= 0 || value > figures.MaxMemory || math.IsNaN(value) {
		return
	}
	bytes := int64(math.Round(value))
	switch {
	case m.What == figures.Reserved:
		if f.reserved = max(f.reserved, bytes); f.allocated == unknown {
			f.printed = printed
		}
	case bytes > f.allocated:
		f.allocated, f.named, f.printed = bytes, m.What == figures.Allocated, printed
	}
}
