package runlog

import (
	"bytes"
	"math"
	"strings"

	"github.com/vramscope/vramscope/evidence"
)

// progress holds the progress bars of a log, to tell the training's from those of
// evaluations, of samplers and of outer loops, which look alike where they have no
// name.
type progress struct {
	bars       []bar
	last       int   // the one that moved last
	total      int64 // how many steps the log says there are to be, 0: it doesn't
	results    bool  // of training came, on lines without a number
	evaluating bool  // by the log's word an evaluation has begun
	loading    bool  // the line before speaks of reading data
}

// bar is one loop: all bars of one name, or of one length where there is no name.
type bar struct {
	name    string
	total   int64
	steps   tally
	number  int64 // as last seen
	again   bool  // it began anew after its end
	trains  bool  // by its name, or by a loss beside it
	moved   bool  // since the last result
	results int   // of training that came right behind it, less those of evaluations
	resumed bool  // it went on after another bar had moved
	ended   bool  // before there was any result
	tests   bool  // it began in an evaluation
	loads   bool  // it began below words of reading data
}

// maxBars bounds the bars that are told apart.
const maxBars = 16

// of finds a bar, or makes it. A named one may change its length from epoch to epoch.
func (s *progress) of(name string, total int64, trains bool) *bar {
	least := 0
	for i := range s.bars {
		if b := &s.bars[i]; b.name == name && (trains || b.total == total) {
			return b
		}
		if s.bars[i].worth(s) < s.bars[least].worth(s) {
			least = i
		}
	}
	b := bar{name: name, total: total, tests: s.evaluating, loads: s.loading}
	b.steps.init()
	if len(s.bars) < maxBars {
		s.bars = append(s.bars, b)
		return &s.bars[len(s.bars)-1]
	}
	s.bars[least] = b
	return &s.bars[least]
}

var withoutNumbers = strings.NewReplacer("0", "", "1", "", "2", "", "3", "", "4", "", "5", "", "6", "", "7", "", "8", "", "9", "",
	"/", "")

// step takes what a bar shows, the number 0 as well, which begins a loop anew.
// The epoch is that of the last line that names one. It reports whether the training's
// bar moved.
func (s *progress) step(name []byte, total int64, step evidence.Step, epoch int64) bool {
	named := trainingName(name) && len(name) > 0
	b := s.of(withoutNumbers.Replace(string(name)), total, named)
	if step.Number == 0 {
		b.again = b.again || b.number == b.total
		b.number, b.total = 0, total
		return false
	}
	b.total = total
	// The items of a bar that is just called Epoch are epochs.
	b.trains = b.trains || !math.IsNaN(step.Loss) || named && (step.Epoch >= 0 || !isEpochs(name))
	moves := step.Number != b.number
	if moves {
		s.move(b, step.Number)
	}
	b.ended = b.ended || step.Number == total && !s.results
	if step.Epoch < 0 {
		step.Epoch = epoch
	}
	b.steps.add(step, -1)
	return moves && s.training() == b
}

// move takes a bar's new number.
func (s *progress) move(b *bar, number int64) {
	if &s.bars[s.last] != b {
		b.resumed = b.resumed || b.number > 0 && b.number < number
		for s.last = 0; &s.bars[s.last] != b; s.last++ {
		}
	}
	b.number, b.moved = number, true
}

func isEpochs(name []byte) bool {
	lower := bytes.ToLower(name)
	return bytes.HasPrefix(lower, []byte("epoch")) && !bytes.ContainsAny(lower, "[(")
}

// result notes that a result of training, or of an evaluation, was printed, which
// the bar that has just moved is likely to be of.
func (s *progress) result(evaluation bool) {
	s.results, s.evaluating = s.results || !evaluation, false
	if len(s.bars) == 0 || !s.bars[s.last].moved {
		return
	}
	b := &s.bars[s.last]
	b.moved = false
	switch {
	case evaluation:
		b.results--
	case b.number < b.total || b.results > 0 || b.again: // a bar at its end may be of what came before
		b.results++
	}
}

// worth tells how surely a bar is the training's; below 0 it isn't.
func (b *bar) worth(s *progress) (worth int) {
	if s.total > 0 && b.total == s.total {
		worth += 8
	}
	if b.trains {
		worth += 4
	}
	if b.tests {
		worth -= 4
	}
	switch {
	case b.results > 0:
		worth += 2
	case b.results < 0:
		worth -= 4
	}
	if s.results {
		if b.resumed {
			worth += 3 // an evaluation's runs to its end
		}
		if b.ended {
			worth--
		}
	}
	return worth
}

// swift is the time below which a pass of a loop without a name or a loss is no
// step of training: examples are read or mapped so.
const swift = 0.005

// reads tells a loop over examples that nothing trains on yet.
func (b *bar) reads() bool {
	return !b.trains && b.name == "" && b.results <= 0 &&
		(b.loads || b.steps.reported.n > 0 && b.steps.reported.value() < swift)
}

// training is the bar of the training, nil without one.
func (s *progress) training() *bar {
	var best *bar
	for i := range s.bars {
		b := &s.bars[i]
		if b.steps.count == 0 || s.results && b.worth(s) < 0 || b.reads() {
			continue
		}
		if best == nil || b.worth(s) > best.worth(s) || b.worth(s) == best.worth(s) && b.steps.count > best.steps.count {
			best = b
		}
	}
	return best
}
