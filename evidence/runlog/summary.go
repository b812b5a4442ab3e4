package runlog

import (
	"bytes"

	"github.com/vramscope/vramscope/evidence"
	"github.com/vramscope/vramscope/evidence/figures"
	"github.com/vramscope/vramscope/internal/pattern"
)

type summaryState struct {
	open  bool
	width int // of every line, from bar to bar
	table evidence.MemorySummary
	idle  int
}

// summaryIdle is how many foreign lines end a table.
const summaryIdle = 16

var summaryTitle = []byte("memory summary, device ID")

// line takes a line of a table; a log's prefix before the bar does not matter.
func (s *summaryState) line(p *Parser, number int, line []byte) bool {
	bar := bytes.IndexByte(line, '|')
	if bar < 0 {
		if s.open {
			s.rest(p)
		}
		return false
	}
	if i := bytes.Index(line[bar:], summaryTitle); i >= 0 {
		device, _, ok := figures.Integer(bytes.TrimLeft(line[bar+i+len(summaryTitle):], " :"))
		if !ok || device > 1023 {
			return false
		}
		s.finish(p)
		*s = summaryState{open: true, width: len(bytes.TrimRight(line[bar:], " \t\r")),
			table: evidence.MemorySummary{Line: number, Device: evidence.Known(int(device))}}
		return true
	}
	row := bytes.TrimRight(line[bar:], " \t\r")
	if !s.open && headlessRow().Match(row) {
		*s = summaryState{open: true, width: len(row), table: evidence.MemorySummary{Line: number}}
	}
	if !s.open {
		return false
	}
	if len(row) != s.width || row[len(row)-1] != '|' { // others draw bars, too, and the table may be cut
		s.rest(p)
		return false
	}
	s.row(p, row)
	return true
}

var (
	summaryRow = pattern.Of(`^\|[ |]*(?:[^|]*OOMs: *(\d+)|(Allocated memory|[^|]*reserved memory)[^|]*\|([^|]+)\|([^|]+)\|?.*|` +
		`(=+)[| ]*$)`)
	// headlessRow is the first row of a table whose head was left out.
	headlessRow = pattern.Of(`^\| *Allocated memory *(?:\| *\d+ [KMGT]?i?B *){2}(?:\|[^|]*){2}\|?\s*$`)
)

// row reads a row; others are of the table, too.
func (s *summaryState) row(p *Parser, line []byte) {
	m := summaryRow().FindSubmatch(line)
	switch {
	case m == nil:
	case m[1] != nil:
		if n, _, ok := figures.Integer(m[1]); ok {
			s.table.OOMs = &n
		}
	case string(m[2]) == "Allocated memory":
		s.table.AllocatedBytes, s.table.PeakAllocatedBytes = cellSize(m[3]), cellSize(m[4])
	case m[2] != nil:
		s.table.ReservedBytes, s.table.PeakReservedBytes = cellSize(m[3]), cellSize(m[4])
	case s.table.ReservedBytes != nil: // the border below the last row; those above have no figures yet
		s.finish(p)
	}
}

// cellSize reads "15281 MiB"; tables before 1.11 write MB for the same.
func cellSize(cell []byte) *int64 {
	text := figures.Compact(cell, 32)
	if n, rest, ok := figures.Integer(text); ok && string(rest) == "B" {
		return known(n)
	}
	return figures.Find(text, "%")
}

func (s *summaryState) rest(p *Parser) {
	if s.idle++; s.idle > summaryIdle {
		s.finish(p)
	}
}

func (s *summaryState) finish(p *Parser) {
	if !s.open {
		return
	}
	s.open = false
	if s.table.AllocatedBytes == nil && s.table.ReservedBytes == nil && s.table.OOMs == nil {
		return // a title alone: someone wrote about the table
	}
	p.keepSummary(&s.table)
}

func (p *Parser) keepSummary(s *evidence.MemorySummary) {
	if len(p.report.Summaries) >= maxEntries {
		p.report.Dropped++
		return
	}
	p.report.Summaries = append(p.report.Summaries, *s)
}

// statsState joins the figures of one torch.cuda.memory_stats(), which people
// print as a dictionary on one line or on many, or keep as JSON:
//
//	OrderedDict([('allocated_bytes.all.current', 4294967296), …
//	  "allocated_bytes.all.peak": 8589934592,
type statsState struct{ table evidence.MemorySummary }

var statsField = pattern.Of(`(?:^|[^\w.\x80-\x{10FFFF}])(?:(allocated|reserved)_bytes\.all\.(current|peak)|num_ooms)` +
	`["':, =]+(\d{1,18})`)

// of is the field that is called so; names are empty for num_ooms.
func (s *statsState) of(what, when string) **int64 {
	t := &s.table
	return map[string]**int64{"allocatedcurrent": &t.AllocatedBytes, "allocatedpeak": &t.PeakAllocatedBytes,
		"reservedcurrent": &t.ReservedBytes, "reservedpeak": &t.PeakReservedBytes, "": &t.OOMs}[what+when]
}

// maxStats is the longest line that holds a whole dictionary, of some ten kilobytes.
const maxStats = 64 << 10

// line takes the figures of a line. What a step prints of them is the step's.
func (s *statsState) line(p *Parser, number int, line []byte) bool {
	if len(line) > maxStats || bytes.Contains(line, []byte("loss")) {
		return false
	}
	for _, m := range statsField().FindAllSubmatch(line, 64) {
		n, _, _ := figures.Integer(m[3])
		if n > figures.MaxMemory {
			continue
		}
		if s.table.Line > 0 && *s.of(string(m[1]), string(m[2])) != nil {
			s.finish(p)
		}
		if s.table.Line == 0 {
			s.table = evidence.MemorySummary{Line: number}
		}
		*s.of(string(m[1]), string(m[2])) = &n
	}
	return false
}

// finish keeps the dictionary if it was one: a single figure is somebody's print.
func (s *statsState) finish(p *Parser) {
	t := s.table
	s.table = evidence.MemorySummary{}
	if t.PeakAllocatedBytes != nil && t.PeakReservedBytes != nil {
		p.keepSummary(&t)
	}
}
