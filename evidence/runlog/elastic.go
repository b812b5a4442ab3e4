package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/evidence/traceback"
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
	recordRule  = 20      // dashes or equal signs that end a record
	recordLines = 500     // that a record may have
	maxFailures = 1 << 16 // that are kept
)

// line reads a line with one of the list's words, or a rule below a record.
func (r *records) line(p *Parser, number int, line []byte) bool {
	if bytes.Contains(line, []byte("Root Cause (")) {
		r.root, r.open = true, false
		return false
	}
	if before, _, ok := bytes.Cut(line, []byte("(local_rank:")); ok {
		if rank, ok := rankField(before); ok {
			r.open, r.rank, r.from = true, rank, number
			if len(p.report.Failures) < maxFailures {
				p.report.Failures = append(p.report.Failures, evidence.RankFailure{Line: number, Rank: rank, First: r.root})
			}
		}
		return false
	}
	if isRule(line) {
		r.open, r.root = false, false
	}
	return false
}

// rankField reads "  rank      : 4 ".
func rankField(text []byte) (int, bool) {
	i := bytes.LastIndexByte(text, ':')
	if i < 0 || !bytes.HasSuffix(bytes.TrimRight(text[:i], " "), []byte("rank")) {
		return 0, false
	}
	n, rest, ok := figures.Integer(bytes.TrimLeft(text[i+1:], " "))
	return int(n), ok && n < 1<<20 && len(bytes.TrimSpace(rest)) == 0
}

func isRule(line []byte) bool {
	line = bytes.TrimSpace(line)
	if n := len(line); n < recordRule {
		return false
	}
	return len(bytes.Trim(line, "-")) == 0 || len(bytes.Trim(line, "=")) == 0
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
