package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/evidence/traceback"
	"github.com/vramscope/vramscope/internal/pattern"
)

// records follows that list (torch/distributed/elastic/multiprocessing/errors):
//
//	Failures:
//	[0]:
//	  time      : 2026-03-04_05:06:07
//	  rank      : 0 (local_rank: 0)
//	  traceback : Traceback (most recent call last):
//	------------------------------------------------------------
//	Root Cause (first observed failure):
//	[0]:
//	  rank      : 4 (local_rank: 4)
//	============================================================
//
// Its lines carry no rank of their own: a traceback in it is of the rank that
// its record names.
type records struct {
	open bool // within the record of a rank
	rank int
	from int  // line of the record
	root bool // below the head of the root cause
}

const (
	recordLines = 500     // that a record may have
	maxFailures = 1 << 16 // that are kept
)

var (
	rankOf = pattern.Of(`rank *: *(\d{1,6}) *\(local_rank:`)
	isRule = pattern.Of(`^\s*(?:-{20,}|={20,})\s*$`) // that ends a record
)

// line reads a line with one of the list's words, or a rule below a record.
func (r *records) line(p *Parser, number int, line []byte) bool {
	if bytes.Contains(line, []byte("Root Cause (")) {
		r.root, r.open = true, false
	} else if m := rankOf().FindSubmatch(line); m != nil {
		rank, _, _ := figures.Integer(m[1])
		r.open, r.rank, r.from = true, int(rank), number
		if len(p.report.Failures) < maxFailures {
			p.report.Failures = append(p.report.Failures, evidence.RankFailure{Line: number, Rank: r.rank, First: r.root})
		}
	} else if isRule().Match(line) {
		r.open, r.root = false, false
	}
	return false
}

// of is the rank whose record a line is in, -1 outside of records.
func (r *records) of(number int) int {
	if r.open && number-r.from <= recordLines {
		return r.rank
	}
	return -1
}

// rank is whose message behind some text of a line is, nil where nothing tells.
func (p *Parser) rank(number int, before []byte) *int {
	if rank := traceback.RankOf(before); rank >= 0 {
		return &rank
	}
	return evidence.Known(p.records.of(number))
}
