package runlog

import (
	"bytes"
	"math"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/internal/units"
)

// Guess gathers lines that begin with a number which counts, alone or behind a word of the
// program's own: they are steps where nothing in the log is surer.
//
//	0 8.578 504759296
//	[3] 2.31 0.5
//	episode 2 reward 3.5 memory 740 MiB
//	request 1 (8, 16) 2839 MiB
type Guess struct {
	word         []byte
	line, number int // of the row before
	shape        int // how many figures it had
	held         bool
	first        facts // of a row that no other has followed yet
	score        int
	breaks       int // rows with the same word that did not go on from the one before
	steps        tally
	most         facts
}

// From which score on rows are steps. Each row that goes on from the one before counts one,
// and one with memory two: a single repetition is one of chance.
const enough = 2

func (g *Guess) sure() bool { return g.score >= enough && 4*g.breaks <= g.score }

// fits tells whether the rows may be the steps of a log of so many lines: those without a
// figure of memory only where they are most of it.
func (g *Guess) fits(lines int) bool {
	return g.sure() && (g.held || len(g.word) == 0 || 2*g.steps.count >= lines)
}

// notCounters are words before numbers that name one of several things rather than count.
var notCounters = setOf("gpu cuda device devices rank local_rank node worker card process pid layer line page version port python torch " +
	"seed day version iter(s) the found loaded loading using took total with ran after before exit code error warning at on in of for")

// see takes a line that has a figure.
func (g *Guess) see(number int, line []byte, f *facts, list []pair) {
	head := &list[0]
	if !head.whole || head.unit != noUnit || head.value > 1<<40 || len(line) > 200 || len(list) > 16 {
		return
	}
	word, plain := counter(line[:head.position])
	if !plain || len(list) < 2 && len(word) == 0 || len(word) == 0 && (list[1].whole || line[0] != '[' && !onlyNumbers(line)) {
		return
	}
	n := int64(head.value)
	row := *f
	row.printed = bytes.Clone(f.printed)
	row.step, row.epoch = n, -1
	held := memoryOf(&row, list, len(word) == 0)
	follows := g.line > 0 && bytes.Equal(word, g.word) && n == int64(g.number)+1 && g.held == held &&
		(held || len(list) == g.shape) && (len(word) > 0 || number == g.line+1)
	if !follows {
		if g.sure() && !bytes.Equal(word, g.word) {
			return // another series beside it
		}
		if bytes.Equal(word, g.word) && g.score > 0 && n != int64(g.number) {
			g.breaks++
		}
		if g.score > 0 && !g.sure() {
			*g = Guess{}
		}
		g.word, g.line, g.number = append(g.word[:0], word...), number, int(n)
		g.shape, g.held, g.first = len(list), held, row
		return
	}
	if g.score++; held || len(word) == 0 {
		g.score++
	}
	if g.steps.every == 0 {
		g.steps.init()
		g.most = noFacts()
	}
	if g.first.step >= 0 {
		g.add(g.line, &g.first)
		g.first.step = -1
	}
	g.add(number, &row)
	g.line, g.number = number, int(n)
}

func (g *Guess) add(line int, f *facts) {
	s := evidence.Step{Line: line, Number: f.step, Epoch: -1, Loss: math.NaN(), Seconds: f.secondsPerStep,
		AllocatedBytes: f.allocated, ReservedBytes: f.reserved}
	if f.hasLoss {
		s.Loss = f.loss
	}
	g.steps.add(s, -1)
	if f.allocated > g.most.allocated {
		g.most.allocated, g.most.named, g.most.printed = f.allocated, f.named, f.printed
	}
	g.most.reserved = max(g.most.reserved, f.reserved)
}

// counter is the one word before the number that a line begins with, "" for none; false for
// anything else there.
func counter(before []byte) (word []byte, ok bool) {
	text := bytes.Trim(before, " \t:=#[(")
	for _, c := range text {
		if (c|0x20 < 'a' || c|0x20 > 'z') && c != '_' {
			return nil, false
		}
	}
	return text, len(text) < 24 && !notCounters[string(bytes.ToLower(text))]
}

// memoryOf leaves a row the memory that it tells for sure, and reports whether that is any:
// of a GPU by its words, in MiB or GiB, or in a row of figures bytes as the allocator rounds them.
func memoryOf(f *facts, list []pair, bare bool) bool {
	if bare {
		f.allocated, f.reserved = bytesColumn(list), unknown
		return f.allocated != unknown
	}
	for i := range list {
		if p := &list[i]; p.memory() && p.unit.isSize() || p.empty && p.unit >= kib && p.unit <= gibUnit {
			return f.hasMemory()
		}
	}
	f.allocated, f.reserved = unknown, unknown
	return false
}

// bytesColumn is the one number of a row without words that can only be bytes
// of GPU memory: a large multiple of 512, as the allocator rounds to.
func bytesColumn(list []pair) int64 {
	found := unknown
	for i := 1; i < len(list); i++ {
		p := &list[i]
		if p.whole && p.unit == noUnit && p.value >= 1<<24 && p.value < 1<<42 && int64(p.value)%512 == 0 {
			if found != unknown {
				return unknown
			}
			found = int64(p.value)
		}
	}
	return found
}

func onlyNumbers(line []byte) bool {
	for _, c := range line {
		if !units.IsDigit(c) && bytes.IndexByte([]byte(" \t.-+e\r"), c) < 0 {
			return false
		}
	}
	return true
}
