package runlog

import (
	"bytes"
	"math"
	"strings"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/guess"
	"github.com/vramscope/vramscope/internal/units"
)

// rowGuess gathers lines that begin with a number which counts, alone or behind a word of the
// program's own: they are steps where nothing in the log is surer.
//
//	0 8.578 504759296
//	[3] 2.31 0.5
//	episode 2 reward 3.5 memory 740 MiB
//	request 1 (8, 16) 2839 MiB
type rowGuess struct {
	last    guessed
	counted bool // the last row is
	score   int
	breaks  int // rows with the same word that did not go on from the one before
	steps   tally
	most    facts
}

// From which score on rows are steps. Each row that goes on from the one before counts one,
// and one with memory two: a single repetition is one of chance.
const enough = 2

func (g *rowGuess) sure() bool { return g.score >= enough && 4*g.breaks <= g.score }

// fits reports whether the rows may be the steps of a log of so many lines: those without a
// figure of memory only where they are most of it.
func (g *rowGuess) fits(lines int) bool {
	return guess.Rows.Made(g.sure()) && (g.last.held || len(g.last.word) == 0 || 2*g.steps.count >= lines)
}

// notCounters are words before numbers that name one of several things rather than count.
const notCounters = " gpu cuda device devices rank local_rank node worker card process pid layer line page version port " +
	"python torch seed day the found loaded loading using took total with ran after before exit code error warning at on in " +
	"of for "

// guessed is a line as a row.
type guessed struct {
	word   []byte
	line   int
	number int
	shape  int // how many figures it has
	held   bool
	facts  facts
}

// rowOf reads a line that begins with a number which may count; false for any other.
func rowOf(number int, line []byte, f *facts, list []pair) (r guessed, ok bool) {
	head := &list[0]
	if !head.counts() || len(line) > 200 || len(list) > 16 {
		return r, false
	}
	word, plain := counter(line[:head.position])
	bare := len(word) == 0
	if !plain || bare && (len(list) < 2 || list[1].whole || line[0] != '[' && !onlyNumbers(line)) {
		return r, false
	}
	r = guessed{word: word, line: number, number: int(head.value), shape: len(list), facts: *f}
	r.facts.step, r.facts.epoch, r.facts.printed = int64(head.value), -1, bytes.Clone(f.printed)
	r.held = memoryOf(&r.facts, list, bare)
	return r, true
}

// follows reports whether a row goes on from the one before.
func (r *guessed) follows(before *guessed) bool {
	return before.line > 0 && bytes.Equal(r.word, before.word) && r.number == before.number+1 && r.held == before.held &&
		(r.held || r.shape == before.shape) && (len(r.word) > 0 || r.line == before.line+1)
}

// see takes a line that has a figure.
func (g *rowGuess) see(number int, line []byte, f *facts, list []pair) {
	r, ok := rowOf(number, line, f, list)
	if !ok {
		return
	}
	same := bytes.Equal(r.word, g.last.word)
	if !r.follows(&g.last) {
		g.begin(&r, same)
		return
	}
	if g.score++; r.held || len(r.word) == 0 {
		g.score++
	}
	if g.steps.count == 0 {
		g.steps.init()
		g.most = noFacts()
	}
	if !g.counted {
		g.add(g.last.line, &g.last.facts)
	}
	g.add(number, &r.facts)
	g.keep(&r, true)
}

// begin takes a row that no other came before. A series that is sure stays beside others.
func (g *rowGuess) begin(r *guessed, same bool) {
	if g.sure() && !same {
		return
	}
	if same && g.score > 0 && r.number != g.last.number {
		g.breaks++
	}
	if g.score > 0 && !g.sure() {
		*g = rowGuess{}
	}
	g.keep(r, false)
}

func (g *rowGuess) keep(r *guessed, counted bool) {
	word := append(g.last.word[:0], r.word...)
	g.last, g.counted = *r, counted
	g.last.word = word
}

func (g *rowGuess) add(line int, f *facts) {
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
	return text, len(text) < 24 && !strings.Contains(notCounters, " "+strings.ToLower(string(text))+" ")
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
