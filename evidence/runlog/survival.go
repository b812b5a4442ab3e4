package runlog

import (
	"slices"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/traceback"
)

// survival watches whether a run goes on after a failure, as it does where a batch
// is skipped, tried again in parts, or the program started anew.
//
// Steps that stand below a message needn't have come after it: what a program has
// printed may lie in a buffer until it ends. Such steps go on from those above. So
// what counts are progress bars, which aren't buffered; numbers that begin again;
// and a message in the program's own words, which it printed like its steps.
type survival struct {
	from     int  // the first message since which nothing was told
	numbered bool // lines with a step's number had come before them
	again    bool // the program prints steps again and again: several ranks do
	seen     int  // steps told since
	bars     int  // of them by progress bars
	back     bool // their numbers began again
	done     bool // a bar came to its end
	last     int64
}

// wentOnSteps is how many steps after a failure show that the run went on: one or
// two may be those of other ranks.
const wentOnSteps = 3

// failed takes note of another message: if steps came since the last one, they tell of that.
func (s *survival) failed(p *Parser) {
	if s.seen > 0 {
		s.settle(p)
	}
	s.numbered = p.steps.main.numbered > 0
}

// step takes a step that is told, by a bar or by a line.
func (s *survival) step(p *Parser, number int64, line []byte, bar, ends bool) {
	list := p.report.OOMs[s.from:]
	if len(list) == 0 || !ofRank(list, line) {
		return
	}
	if s.seen++; bar {
		s.bars++
		s.done = s.done || ends
	}
	if last := list[len(list)-1].AfterStep; s.seen == 1 && number >= 0 && number < last && !bar && !s.again && s.numbered {
		s.back = true
	}
	s.last = number
}

// ofRank reports whether a line is of a rank that failed, as far as both say theirs.
func ofRank(list []evidence.OOMMessage, line []byte) bool {
	rank := traceback.RankOf(line)
	return slices.ContainsFunc(list, func(m evidence.OOMMessage) bool {
		return rank < 0 || m.Rank == nil || *m.Rank == rank
	})
}

// settle tells the messages since the last time what came of them.
func (s *survival) settle(p *Parser) {
	for i := range p.report.OOMs[s.from:] {
		if m := &p.report.OOMs[s.from+i]; s.bars >= wentOnSteps || s.done || s.seen >= wentOnSteps && (s.back || m.Handled) {
			m.WentOn, m.UpToStep = true, s.last
		}
	}
	*s = survival{from: len(p.report.OOMs), again: s.again}
}
